"""Runs of example 05, whose training is killed or not."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

from tests.support.hurt_runs import HurtRun, newest_pid
from tests.support.pipelines import ROOT, Done
from tests.support.waiting import wait_until

EXAMPLE = ROOT / "examples/05-train-from-stream"
_LINE = re.compile(r"time step (\d+): loss ([\d.]+), error ([\d.]+)")


def train(folder: Path, *options: str, kills: int = 0) -> Done:
    """Run it, and kill the training `kills` times, each time after three reports of that attempt."""
    shutil.copytree(EXAMPLE, folder)
    run = HurtRun(folder, "")
    run.options = [*options, "--set", "oversubscribe=true"]

    def kill(run_dir: Path, _: int) -> None:
        for number in range(kills):
            log = run_dir / "stages/training" / (f"attempt-{number + 1}" if number else "") / "stdout.log"
            wait_until(lambda log=log: log.exists() and len(reports(log)) >= 3, f"reports of attempt {number + 1}")  # type: ignore[misc]
            pid = newest_pid(run_dir, "training")
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

    done = run.go(kill)
    assert done.code == 0, done.said
    assert len(done.report.restarts) == kills
    return done


def train_in_parts(folder: Path, *options: str) -> Done:
    """Run it, kill all its processes and its supervisor after four reports, and let it go on by `wf resume`."""
    shutil.copytree(EXAMPLE, folder)
    run = HurtRun(folder, "")
    run.options = [*options, "--set", "oversubscribe=true"]

    def kill(run_dir: Path, pid: int) -> None:
        log = run_dir / "stages/training/stdout.log"
        wait_until(lambda: log.exists() and len(reports(log)) >= 4, "four reports")
        run.end_all(run_dir, pid)

    run.go(kill)
    run.options = []
    done = run.go()
    assert done.code == 0, done.said
    return done


def reports(log: Path) -> list[tuple[int, float, float]]:
    """(time step, loss, error) of each report."""
    return [(int(step), float(loss), float(error)) for step, loss, error in _LINE.findall(log.read_text())]


def last_error(done: Done) -> float:
    """The error on held-out steps at the end, as printed by the last attempt."""
    attempts = sorted((done.folder / "stages/training").glob("attempt-*"))
    log = (attempts[-1] if attempts else done.folder / "stages/training") / "stdout.log"
    found = re.search(r"error on held-out steps: ([\d.]+)", log.read_text())
    assert found is not None, log.read_text()
    return float(found[1])
