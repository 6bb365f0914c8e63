"""A stage that is killed: by the kernel for lack of memory, in a cgroup with a real limit, or by somebody."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.chains import make_plan, make_stage
from tests.support.memory_limit_here import LIMITS_WORK, limited_cgroup
from tests.support.watching import describe, held, kill, run_and_hurt, run_whole
from workflow.run.processes.kernel_oom_kills import MemoryWatch
from workflow.run.state.events import StageKilled

# Joins the cgroup, and fills memory when it has been seen there.
HUNGRY = """
import pathlib, sys, time
pathlib.Path(sys.argv[1], "cgroup.procs").write_text("0")
while not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.01)
kept = [b"x" * 2**20 for _ in range(2000)]
"""
JOINS = "import pathlib, sys; pathlib.Path(sys.argv[1], 'cgroup.procs').write_text('0'); print(flush=True); input()"
HOLDS = "import pathlib, time; pathlib.Path('held').touch(); time.sleep(100)"


@pytest.fixture
def limited() -> Iterator[Path]:
    """A memory cgroup below this process's own, with a limit."""
    with limited_cgroup() as folder:
        yield folder


@pytest.fixture
def seen(limited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is there when the supervisor has seen a stage in the cgroup."""
    file, look = tmp_path / "seen", MemoryWatch.look

    def noted(watch: MemoryWatch, name: str, pids: Iterable[int]) -> None:
        pids = list(pids)
        was_there = {str(pid) for pid in pids} & set((limited / "cgroup.procs").read_text().split())
        look(watch, name, pids)
        if was_there:
            file.touch()

    monkeypatch.setattr(MemoryWatch, "look", noted)
    return file


@pytest.fixture
def neighbour(limited: Path) -> Iterator[None]:
    """A process of somebody else in the cgroup."""
    argv = [sys.executable, "-c", JOINS, str(limited)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield


if LIMITS_WORK:

    @pytest.mark.parametrize("is_shared", [False, True], ids=["own", "shared"])
    def test_a_stage_that_the_kernel_killed_for_lack_of_memory(
        is_shared: bool,
        limited: Path,
        seen: Path,
        request: pytest.FixtureRequest,
        tmp_path: Path,
    ) -> None:
        if is_shared:
            request.getfixturevalue("neighbour")
        argv = [sys.executable, "-c", HUNGRY, str(limited), str(seen)]
        outcome = run_whole(make_plan([make_stage("md", argv)]), tmp_path)
        story = describe(outcome.state, outcome.run_dir)
        (found,) = (event for event in outcome.events() if isinstance(event, StageKilled))
        assert (found.cgroup_kills, found.cgroup_is_own) == (1, not is_shared), found
        said = outcome.verdict.reason.removeprefix("md was killed by signal 9 (SIGKILL): ")
        if is_shared:
            assert said.startswith("out of memory? the kernel killed 1 process of cgroup "), story
        else:
            assert said.startswith("out of memory: the kernel killed 1 process of its cgroup "), story
            assert said.endswith("; the limit is 67.1 MB"), story


def test_a_stage_that_somebody_killed_did_not_run_out_of_memory(tmp_path: Path) -> None:
    # Below that of this process the peak of a child is not known.
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + 64 * 2**20
    plan = make_plan([make_stage("md", [sys.executable, "-c", f"kept = b'x' * {size}; {HOLDS}"])])
    outcome = run_and_hurt(plan, tmp_path, held("md"), kill("md"))
    (found,) = (event for event in outcome.events() if isinstance(event, StageKilled))
    assert found.peak_bytes is not None and size < found.peak_bytes < size + 2**27
    assert "out of memory: " not in outcome.verdict.reason
    if found.cgroup_kills == 0:
        assert ": not for lack of memory" in outcome.verdict.reason
        assert "; the sender of the signal is not known" in outcome.verdict.reason


def test_a_stage_that_the_supervisor_killed_needs_no_evidence(tmp_path: Path) -> None:
    deaf = "import signal; [signal.signal(number, signal.SIG_IGN) for number in (2, 15)]; " + HOLDS
    stages = [make_stage("deaf", [sys.executable, "-c", deaf]), make_stage("md", [sys.executable, "-c", HOLDS])]
    outcome = run_and_hurt(
        make_plan(stages, stop=1),
        tmp_path,
        lambda *now: held("deaf")(*now) and held("md")(*now),
        kill("md", signal.SIGTERM),
    )
    assert outcome.state.stages["deaf"].signal == signal.SIGKILL
    assert not [event for event in outcome.events() if isinstance(event, StageKilled)]
