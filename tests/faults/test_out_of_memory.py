"""A stage that is killed: by the kernel for lack of memory, in a cgroup with a real limit, or by somebody."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.chains import make_plan, make_stage
from tests.support.watching import describe, held, kill, run_and_hurt, run_whole
from workflow.run.events import StageKilled
from workflow.run.processes.memory_evidence import memory_cgroup, node_kills

LIMIT = 64 * 2**20
# Joins the cgroup, then fills memory.
HUNGRY = """
import pathlib, sys
pathlib.Path(sys.argv[1], "cgroup.procs").write_text("0")
kept = [b"x" * 2**20 for _ in range(2000)]
"""
HOLDS = "import pathlib, time; pathlib.Path('held').touch(); time.sleep(100)"


@pytest.fixture
def limited() -> Iterator[Path]:
    """A memory cgroup below this process's own, with a limit."""
    own = memory_cgroup(Path("/proc/self/cgroup").read_text())
    if own is None:
        pytest.skip("this system has no memory cgroup")
    folder = own.folder / f"wf-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error.strerror}")
    try:
        files = [folder / "memory.max", folder / "memory.limit_in_bytes"]
        file = next((file for file in files if file.exists()), None)
        if file is None:
            pytest.skip("a cgroup below this one has no memory limit")
        file.write_text(str(LIMIT))
        for swap in (folder / "memory.swap.max", folder / "memory.memsw.limit_in_bytes"):
            with contextlib.suppress(OSError):
                swap.write_text("0" if swap.name == "memory.swap.max" else str(LIMIT))
        yield folder
    finally:
        deadline = time.monotonic() + 10
        while folder.exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):  # busy while its last process ends
                folder.rmdir()


def test_a_stage_that_the_kernel_killed_for_lack_of_memory(limited: Path, tmp_path: Path) -> None:
    outcome = run_whole(make_plan([make_stage("md", [sys.executable, "-c", HUNGRY, str(limited)])]), tmp_path)
    story = describe(outcome.state, outcome.run_dir)
    assert outcome.verdict.reason.startswith("md was killed by signal 9 (SIGKILL): out of memory: "), story
    assert outcome.verdict.reason.endswith("; the limit is 67.1 MB") or "by its log" in outcome.verdict.reason, story
    (found,) = (event for event in outcome.events() if isinstance(event, StageKilled))
    assert found.node_kills is None or found.node_kills > 0
    assert found.log or found.cgroup_kills, found


def test_a_stage_that_somebody_killed_did_not_run_out_of_memory(tmp_path: Path) -> None:
    # Below that of this process the peak of a child is not known.
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + 64 * 2**20
    plan = make_plan([make_stage("md", [sys.executable, "-c", f"kept = b'x' * {size}; {HOLDS}"])])
    outcome = run_and_hurt(plan, tmp_path, held("md"), kill("md"))
    (found,) = (event for event in outcome.events() if isinstance(event, StageKilled))
    assert found.log == []
    assert found.peak_bytes is not None and size < found.peak_bytes < size + 2**27
    assert "out of memory: " not in outcome.verdict.reason
    if node_kills() is not None and found.node_kills == 0:
        assert ": not by the kernel for lack of memory" in outcome.verdict.reason
        assert "; who sent the signal is not known" in outcome.verdict.reason


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
