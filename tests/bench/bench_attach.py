"""What a simulation notices when stages join its run and leave it again: the time of its steps.

The simulation computes for about 50 ms a step on one core, and sends 1 MB; its analysis, the spool of the stream, and
all that joins, share the other core. Stages join (`wf attach`) one after the other and are detached, killed, or stopped
and then killed, within 2.5 s; in between nothing joins. The two take turns, 20 s each.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench import streams

SIM = """
import json, os, sys, time
from pathlib import Path
import numpy as np
from workflow import stage
os.sched_setaffinity(0, {0})
end, took = Path(sys.argv[1]), []
field = np.random.default_rng(1).random((350, 350))
with stage.open_writer("data") as out:
    while not end.exists():
        begin = time.monotonic()
        for _ in range(300):
            field = np.tanh(field) + 0.1 * np.roll(field, 1, 0)
        with out.step():
            out.write("values", field, shape=field.shape, start=(0, 0))
        took.append((begin, time.monotonic() - begin))
Path(sys.argv[2]).write_text(json.dumps(took))
"""
LOOK = """
from workflow import stage
with stage.open_reader("data") as data:
    for step in data:
        step.read("values")
"""
PIPELINE = """
wf: 1
name: joined
oversubscribe: true
deadlines: {{start: 60 s, step: 60 s, run: 1 h}}
stages:
  sim:
    command: ["${{{{ wf.python }}}}", "{folder}/sim.py", "{folder}/end", "{folder}/took.json"]
    writes: {{data: {{}}}}
  look: {{command: ["${{{{ wf.python }}}}", "{folder}/look.py"], reads: {{data: {{}}}}}}
streams:
  data: {{from: sim, to: look, keep: {{steps: 2, where: /dev/shm}}}}
"""
TURN_S = 5.0 if streams.QUICK else 20.0
LONGEST_S, STOPPED_S = 2.5, 0.5


def measure() -> list[streams.Row]:
    """The step time while stages join and leave ÷ that while none does."""
    if (os.cpu_count() or 1) < 2:
        raise streams.NotMeasured("it needs two cores")
    with streams.folder() as name:
        folder = Path(name)
        (folder / "sim.py").write_text(SIM)
        (folder / "look.py").write_text(LOOK)
        (folder / "pipeline.yaml").write_text(PIPELINE.format(folder=folder))
        run = wf(folder, "run", "pipeline.yaml", "--run-dir", "run", "-q")
        spool = folder / "run/streams/data-spool.bp/md.idx"
        while not spool.exists():
            time.sleep(0.1)
            if run.poll() is not None:
                raise RuntimeError("the run has failed")
        turns, joined, dice = [], 0, random.Random(1)
        for number in range(2 * streams.repetitions(4)):
            begin = time.monotonic()
            while time.monotonic() < begin + TURN_S:
                if number % 2:
                    cycle(folder, f"n{joined}", dice)
                    joined += 1
                else:
                    time.sleep(0.1)
            turns.append((begin, time.monotonic(), number % 2 == 1))
        (folder / "end").touch()
        if run.wait(streams.TIMEOUT_S):
            raise RuntimeError("the run has failed")
        took = json.loads((folder / "took.json").read_text())
    times = {
        busy: [s for t, s in took if any(begin <= t < end and busy == each for begin, end, each in turns)]
        for busy in (False, True)
    }
    return [row("median", times, statistics.median, joined), row("95th percentile", times, high, joined)]


def row(name: str, times: dict[bool, list[float]], of: Callable[[list[float]], float], joined: int) -> streams.Row:
    """One statistic of both."""
    quiet, busy = of(times[False]), of(times[True])
    return {
        "name": f"a step of the simulation while stages join and leave ÷ without, {name}", "value": busy / quiet,
        "unit": "×", "better": "lower", "target": 1.05 if name == "median" else None,
        "detail": f"{joined} stages joined; {len(times[True])} steps: {1e3 * busy:.1f} ms; "
        f"{len(times[False])} without: {1e3 * quiet:.1f} ms",
    }  # fmt: skip


def high(values: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(values, n=20)[-1]


def cycle(folder: Path, name: str, dice: random.Random) -> None:
    """Let a stage join, and end it."""
    more = ["--component", "null", "--to", "data", "--name", name, "--set", "oversubscribe=true", "-q"]
    process = wf(folder, "attach", "run", *more)
    time.sleep(dice.random() * LONGEST_S)
    how = dice.choice(["detach", "kill", "stop"])
    if how == "stop":
        os.killpg(process.pid, signal.SIGSTOP)
        time.sleep(STOPPED_S)
    os.killpg(process.pid, signal.SIGINT if how == "detach" else signal.SIGKILL)
    process.wait(streams.TIMEOUT_S)


def wf(folder: Path, *argv: str) -> subprocess.Popen[bytes]:
    """Start a verb on the second core, in a process group of its own."""
    return subprocess.Popen(
        [streams.PYTHON, "-m", "workflow.cli", *argv], cwd=folder, env={**os.environ, "PYTHONPATH": str(streams.ROOT)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {1}),
    )  # fmt: skip
