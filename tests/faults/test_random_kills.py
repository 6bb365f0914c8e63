"""kill -9 of a random stage at a random step, once or twice: the data are those of an undisturbed run, or the run stops
with the right reason.

A reader that dies while it opens a live stream takes its writer along (ADIOS2 2.12.1): then the simulation has failed,
which has no rule.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.hurt_runs import newest_pid
from tests.support.long_tables import long_table
from tests.support.pipelines import FAULTY, Done
from tests.support.reliability import note, steps_written
from tests.support.waiting import wait_until
from workflow.compare.compare_runs import compare_runs

STEPS = 40
PIPELINE = f"""
wf: 1
name: random
oversubscribe: true
deadlines: {{start: 30 s, run: 100 s, stop: 3 s}}
stages:
  sim: {{component: synthetic, with: {{grid_points: 1000, particles: 0, steps: {STEPS}, compute_time: 30 ms}}}}
  work: {{component: {FAULTY}, on_failure: {{do: restart, backoff: 0.1 s}}}}
  keep: {{component: archive, with: {{path: kept.bp}}, on_failure: {{do: restart, backoff: 0.1 s}}}}
streams:
  field: {{from: sim, to: work, via: VIA, keep: true}}
  result: {{from: work, to: keep, via: VIA}}
"""


class Kill(NamedTuple):
    """A stage that is killed when the simulation has written so many steps."""

    stage: str
    step: int


def kills(seed: int, count: int) -> list[Kill]:
    """The same ones for a seed."""
    dice = random.Random(seed)
    return sorted(
        (Kill(dice.choice(["work", "keep"]), dice.randrange(STEPS)) for _ in range(count)), key=lambda k: k.step
    )


def run_killed(folder: Path, planned: list[Kill], via: str = "sst, transport: tcp") -> Done:
    (folder / "pipeline.yaml").write_text(PIPELINE.replace("VIA", via))
    run_dir = folder / "run"
    argv = [sys.executable, "-m", "workflow.cli", "run", str(folder / "pipeline.yaml"), "--run-dir", str(run_dir), "-q"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for kill in planned:
            wait_until(
                lambda kill=kill: process.poll() is not None or steps_written(run_dir) > kill.step,  # type: ignore[misc]
                f"step {kill.step} of the simulation",
            )
            if (pid := newest_pid(run_dir, kill.stage)) is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        said, _ = process.communicate(timeout=120)
    return Done(process.returncode, said, run_dir)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    done = run_killed(tmp_path_factory.mktemp("whole"), [])
    assert done.code == 0, done.said
    return done.folder


@pytest.mark.parametrize("seed", long_table(range(100), sample=3))
def test_one_kill(seed: int, undisturbed: Path, tmp_path: Path) -> None:
    check(seed, 1, undisturbed, tmp_path)


@pytest.mark.parametrize("seed", long_table(range(1000, 1050), sample=2))
def test_two_kills(seed: int, undisturbed: Path, tmp_path: Path) -> None:
    check(seed, 2, undisturbed, tmp_path)


def test_the_run_goes_on_without_its_spool(undisturbed: Path, tmp_path: Path) -> None:
    done = run_killed(tmp_path, [Kill("field-spool", 10)])
    assert done.code == 0, done.said
    assert compare_runs(undisturbed / "kept.bp", done.folder / "kept.bp").identical
    assert any("stages behind it are not started again any more" in each for each in done.report.warnings)


@pytest.mark.parametrize("name", ["kept.bp", "kept.h5"])
def test_an_archive_that_is_killed_when_its_file_is_finished(name: str, undisturbed: Path, tmp_path: Path) -> None:
    """Between the last word of its streams and its exit."""
    # The first attempt stays at the end of its Python. What asks this Python for its versions has no WF_STAGE.
    (tmp_path / "sitecustomize.py").write_text(
        f"import atexit, os, pathlib, time\nmark = pathlib.Path({str(tmp_path / 'started')!r})\n"
        "if 'WF_STAGE' in os.environ and not mark.exists():\n    mark.touch()\n    atexit.register(time.sleep, 100)\n"
    )
    archive = f"keep: {{component: archive, env: {{PYTHONPATH: '{tmp_path}'}}, "
    text = PIPELINE.replace("keep: {component: archive, ", archive).replace("kept.bp", name).replace("VIA", "shm")
    (tmp_path / "pipeline.yaml").write_text(text)
    run_dir = tmp_path / "run"
    argv = [
        sys.executable,
        "-m",
        "workflow.cli",
        "run",
        str(tmp_path / "pipeline.yaml"),
        "--run-dir",
        str(run_dir),
        "-q",
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        wait_until(lambda: process.poll() is not None or (run_dir / name).exists(), "the file is finished")
        if (pid := newest_pid(run_dir, "keep")) is not None:
            os.kill(pid, signal.SIGKILL)
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    done = Done(0, said, run_dir)
    assert [each.stage for each in done.report.restarts] == ["keep"]
    if name == "kept.bp":
        assert compare_runs(undisturbed / "kept.bp", run_dir / name).identical
    else:
        import h5py

        with h5py.File(run_dir / name) as file:
            assert sum(name.startswith("Step") for name in file) == STEPS


def test_without_its_spool_nothing_is_started_again(tmp_path: Path) -> None:
    done = run_killed(tmp_path, [Kill("field-spool", 10), Kill("work", 16)])
    assert done.code == 1, done.said
    assert done.report.run.stage == "work"
    assert "it was not started again: field-spool, which kept its steps, has failed" in done.report.run.reason


def check(seed: int, count: int, undisturbed: Path, folder: Path) -> None:
    """Streams by SST and by shared memory in turn."""
    planned = kills(seed, count)
    done = run_killed(folder, planned, "shm" if seed % 2 else "sst, transport: tcp")
    report = done.report
    if done.code == 0:
        found = compare_runs(undisturbed / "kept.bp", done.folder / "kept.bp")
        assert found.identical, (planned, found)
        assert found.files[0].steps == STEPS
        note("kills", kills=len(planned), end="equal")
        return
    # Only the simulation has no rule.
    assert report.run.stage == "sim", (planned, done.said)
    opening = [stage for stage in report.stages if stage.name in {kill.stage for kill in planned}]
    assert opening, (planned, done.said)
    assert "SIGSEGV" in report.run.reason or "SIGABRT" in report.run.reason, (planned, done.said)
    note("kills", kills=len(planned), end="writer taken along")
