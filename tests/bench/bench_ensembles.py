"""What an ensemble costs: planning 1,000 members, and supervising 64 that do nothing but write small steps."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from pathlib import Path

from tests.bench import streams
from workflow.api.runs import plan_run
from workflow.spec.load import load_pipeline

PLANNED, SUPERVISED = 1000, 64
PIPELINE = """
wf: 1
name: members
oversubscribe: true
deadlines: {{start: 120 s, step: 120 s, run: 10 min}}
stages:
  sim:
    command: ["${{{{ wf.python }}}}", "{folder}/sim.py", "${{{{ member.index }}}}"]
    members: {count}
    on_failure: ignore
    writes: {{field: {{}}}}
  keep: {{component: "null"}}
streams:
  field: {{from: sim, to: keep, collect: any}}
"""
SIM = """
import sys, time
from pathlib import Path
import numpy as np
from workflow import stage
end = Path(sys.argv[0]).with_name("end")
with stage.open_writer("field") as out:
    while not end.exists():
        with out.step():
            out.write("V", np.full(100, float(sys.argv[1])))
        time.sleep(0.5)
"""
WATCHED_S = 5.0 if streams.QUICK else 20.0


def measure() -> list[streams.Row]:
    """The time to plan, and the share of a core that the supervisor uses."""
    with streams.folder() as name:
        folder = Path(name)
        return [planning(folder), supervising(folder)]


def planning(folder: Path) -> streams.Row:
    """Loading, checking and planning the pipeline, in a process that has done it once."""
    file = folder / "many.yaml"
    file.write_text(PIPELINE.format(folder=folder, count=PLANNED))
    times = []
    for _ in range(streams.repetitions(7) + 1):
        begin = time.perf_counter()
        plan_run(load_pipeline(file))
        times.append(time.perf_counter() - begin)
    return {
        "name": f"time to plan {PLANNED:,} members", "value": statistics.median(times[1:]), "unit": "s",
        "better": "lower", "target": 0.5, "detail": "loaded, checked and planned; each has a rule for failures",
    }  # fmt: skip


def supervising(folder: Path) -> streams.Row:
    """The CPU time of the supervisor while all members write."""
    (folder / "sim.py").write_text(SIM)
    (folder / "pipeline.yaml").write_text(PIPELINE.format(folder=folder, count=SUPERVISED))
    argv = [streams.PYTHON, "-m", "workflow.cli", "run", "pipeline.yaml", "--run-dir", "run", "-q"]
    run = subprocess.Popen(
        argv, cwd=folder, env={**os.environ, "PYTHONPATH": str(streams.ROOT)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        files = [folder / f"run/streams/field-{index:02}.bp/md.idx" for index in range(SUPERVISED)]
        begin = time.monotonic()
        while not all(file.exists() for file in files):
            time.sleep(0.1)
            if run.poll() is not None or time.monotonic() - begin > streams.TIMEOUT_S:
                raise RuntimeError("the members do not begin")
        time.sleep(2.0)
        before, begin = cpu_s(run.pid), time.monotonic()
        time.sleep(WATCHED_S)
        used = (cpu_s(run.pid) - before) / (time.monotonic() - begin)
    finally:
        (folder / "end").touch()
        code = run.wait(streams.TIMEOUT_S)
    if code:
        raise RuntimeError("the run has failed")
    return {
        "name": f"CPU of the supervisor of {SUPERVISED} members", "value": 100 * used, "unit": "% of a core",
        "better": "lower", "target": 10, "detail": f"each writes two steps a second; seen for {WATCHED_S:.0f} s",
    }  # fmt: skip


def cpu_s(pid: int) -> float:
    """The CPU time of a process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
