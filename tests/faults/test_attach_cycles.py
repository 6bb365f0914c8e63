"""Stages join a running run, and are detached, killed or stopped at random moments: the run notices nothing.

`make reliability` does it 1,000 times on one run.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.hurt_runs import descendants
from tests.support.pipelines import ROOT, TIMEOUT_S
from tests.support.reliability import note
from tests.support.waiting import wait_until
from workflow.api.runs import read_report

SIM = """
import sys, time
from pathlib import Path
import numpy as np
from workflow import stage
end, step = Path(sys.argv[1]), 0
with stage.open_writer("data") as out:
    while not end.exists():
        time.sleep(0.02)  # its work
        with out.step():
            out.write("values", np.full(20_000, step, dtype=float), shape=(20_000,), start=(0,))
        step += 1
"""
LOOK = """
from workflow import stage
with stage.open_reader("data") as data:
    for number, step in enumerate(data):
        values = step.read("values")
        assert step.index == number and (values == number).all(), (step.index, number, values)
"""
# What joins by itself, without wf around it.
READ = """
import sys
import workflow
with workflow.attach(sys.argv[1]).stream("data") as data:
    for step in data:
        try:
            values = step.read("values")
        except workflow.stage.StepRemoved:
            continue
        assert (values == step.index).all(), (step.index, values)
"""
PIPELINE = """
wf: 1
name: cycles
oversubscribe: true
deadlines: {{start: 60 s, step: 60 s, run: 2 h, stop: 3 s}}
stages:
  sim: {{command: [python, "${{{{ pipeline.dir }}}}/sim.py", "{end}"], writes: {{data: {{}}}}}}
  look: {{command: [python, "${{{{ pipeline.dir }}}}/look.py"], reads: {{data: {{}}}}}}
streams:
  data: {{from: sim, to: look, {data}}}
"""
# Long enough to be open and to read for a while; the start of Python and of the streams takes about a second.
LONGEST_S = 2.5
STOPPED_S = 0.5


@pytest.mark.parametrize("cycles", [16, pytest.param(1000, marks=pytest.mark.reliability)])
def test_whatever_joins_and_goes_the_run_loses_nothing(cycles: int, tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(SIM)
    (tmp_path / "look.py").write_text(LOOK)
    (tmp_path / "read.py").write_text(READ)
    end, run_dir = tmp_path / "end", tmp_path / "run"
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(end=end, data="attachable: true"))
    run = start(tmp_path, "-m", "workflow.cli", "run", "pipeline.yaml", "--run-dir", str(run_dir), "-q")
    spool = run_dir / "streams/data-spool.bp/md.idx"
    wait_until(lambda: run.poll() is not None or (spool.exists() and spool.stat().st_size > 200), "steps are kept")
    dice, counts = random.Random(cycles), dict[str, int]()
    for number in range(cycles):
        how, alone, after_s = dice.choice(["detach", "kill", "stop"]), dice.random() < 0.5, dice.random() * LONGEST_S
        counts[how] = counts.get(how, 0) + 1
        argv = ["-m", "workflow.cli", "attach", str(run_dir), "--component", "null", "--to", "data", "-q"]
        more = ["--name", f"n{number}", "--set", "oversubscribe=true"]
        process = start(tmp_path, *(["read.py", str(run_dir)] if alone else [*argv, *more]))
        time.sleep(after_s)  # the moment at which it is hit
        hit(process, how)
        assert run.poll() is None, (number, how, alone, after_s, run.communicate()[0])
    end.touch()
    said, _ = run.communicate(timeout=TIMEOUT_S)
    assert run.returncode == 0, said
    report = read_report(run_dir)
    stream = report.stream("data")
    read = {reader.stage: reader.steps for reader in stream.readers}
    note("attached", cycles=cycles, counts=counts, steps=stream.steps, read=read["look"])
    assert report.run.state == "succeeded"
    assert stream.steps and read == {"look": stream.steps, "data-spool": stream.steps}


def start(folder: Path, *argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *argv], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def hit(process: subprocess.Popen[str], how: str) -> None:
    """End what has joined: in order, by SIGKILL, or by SIGSTOP for a while and SIGKILL then."""
    if how == "detach":
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)
        return
    processes = [process.pid, *descendants(process.pid)]
    if how == "stop":
        send(processes, signal.SIGSTOP)
        time.sleep(STOPPED_S)
    send(processes, signal.SIGKILL)
    process.communicate(timeout=TIMEOUT_S)


def send(processes: list[int], number: signal.Signals) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
