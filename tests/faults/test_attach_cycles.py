"""Stages join a running run, and are detached, killed or stopped at random moments: the run notices nothing.

`make reliability` does it 1,000 times on one run.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.hurt_runs import descendants
from tests.support.pipelines import TIMEOUT_S, start
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
import sys, time
import workflow
with workflow.attach(sys.argv[1]).stream("data") as data:
    print("joined", flush=True)
    for step in data:
        if step.index % 3 == 0:
            time.sleep(0.2)  # it is late: the step may be removed meanwhile
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
  sim: {{command: ["${{{{ wf.python }}}}", "${{{{ pipeline.dir }}}}/sim.py", "{end}"], writes: {{data: {{}}}}}}
  look: {{command: ["${{{{ wf.python }}}}", "${{{{ pipeline.dir }}}}/look.py"], reads: {{data: {{}}}}}}
streams:
  data: {{from: sim, to: look, keep: {{steps: 2, where: /dev/shm}}}}
"""
# So many times the start of one that nothing disturbs: half of them are open by then, and read for a while.
LONGEST = 2.5
STOPPED_S = 0.5
AGAIN_S = 30.0


@pytest.mark.parametrize("cycles", [16, pytest.param(1000, marks=pytest.mark.reliability)])
def test_whatever_joins_and_goes_the_run_loses_nothing(cycles: int, tmp_path: Path) -> None:
    (tmp_path / "sim.py").write_text(SIM)
    (tmp_path / "look.py").write_text(LOOK)
    (tmp_path / "read.py").write_text(READ)
    end, run_dir = tmp_path / "end", tmp_path / "run"
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(end=end))
    run = start(tmp_path, "-m", "workflow.cli", "run", "pipeline.yaml", "--run-dir", str(run_dir), "-q")
    spool = run_dir / "streams/data-spool.bp/md.idx"
    wait_until(lambda: run.poll() is not None or (spool.exists() and spool.stat().st_size > 200), "steps are kept")
    dice, counts, joined = random.Random(cycles), dict[str, int](), 0
    argv = ["-m", "workflow.cli", "attach", str(run_dir), "--component", "null", "--to", "data", "-q"]
    argv += ["--set", "oversubscribe=true", "--name"]
    begin, undisturbed = time.monotonic(), start(tmp_path, *argv, "first")
    wait_until(lambda: has_opened(run_dir / "attached/first"), "a stage that nothing disturbs has joined")
    longest_s = LONGEST * (time.monotonic() - begin)
    hit(undisturbed, "detach", alone=False)
    for number in range(cycles):
        how, alone, after_s = dice.choice(["detach", "kill", "stop"]), dice.random() < 0.5, dice.random() * longest_s
        counts[how] = counts.get(how, 0) + 1
        process = start(tmp_path, *(["read.py", str(run_dir)] if alone else [*argv, f"n{number}"]))
        time.sleep(after_s)  # the moment at which it is hit
        assert process.poll() is None, process.communicate()[0]
        said = hit(process, how, alone=alone)
        # Other errors may be those of an interrupt in the midst of an import.
        assert not re.search(r"^AssertionError", said, re.MULTILINE), said
        joined += "joined" in said if alone else has_opened(run_dir / "attached" / f"n{number}")
        assert run.poll() is None, (number, how, alone, after_s, run.communicate()[0])
    end.touch()
    said, _ = run.communicate(timeout=TIMEOUT_S)
    assert run.returncode == 0, said
    report = read_report(run_dir)
    stream = report.stream("data")
    read = {reader.stage: reader.steps for reader in stream.readers}
    note("attached", cycles=cycles, joined=joined, counts=counts, steps=stream.steps, read=read["look"])
    assert joined > cycles / 4
    assert report.run.state == "succeeded"
    assert stream.steps and read == {"look": stream.steps, "data-spool": stream.steps}


def has_opened(attached: Path) -> bool:
    """Whether the stage that was attached has opened its stream."""
    metrics = attached / "stages/null/metrics.jsonl"
    return metrics.exists() and '"open"' in metrics.read_text()


def hit(process: subprocess.Popen[str], how: str, *, alone: bool) -> str:
    """End what has joined: in order, by SIGKILL, or by SIGSTOP for a while and SIGKILL then. What it has said."""
    if how == "detach":
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=AGAIN_S)[0]
        # In a script without wf around it Python may lose the exception, in a callback of an import.
        assert alone, "wf attach has ignored SIGINT"
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=TIMEOUT_S)[0]
    processes = [process.pid, *descendants(process.pid)]
    if how == "stop":
        send(processes, signal.SIGSTOP)
        time.sleep(STOPPED_S)
    send(processes, signal.SIGKILL)
    return process.communicate(timeout=TIMEOUT_S)[0]


def send(processes: list[int], number: signal.Signals) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
