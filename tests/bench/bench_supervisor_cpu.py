"""What watching costs, and how soon a death is noticed: 2, 10, 100 and 1,000 stages.

CPU time of the supervisor and its guard over 16 seconds in the middle of a run, as a share of one core; starting and
ending are left out. Two stages are real ones: a writer of two MPI ranks under its launcher and its reader, coupled by
SST. 10, 100 and 1,000 stages are shells that record a step a second each, as `workflow.stage` does, in pairs of a
writer and a reader; 1,000 of them also as steps of `srun`, a fake one on PATH, which only runs the program. The
reaction is the time from SIGKILL to the record of the exit in `events.jsonl`; the stages that are killed are taps,
without which the others go on; one dies after the other.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.chains import chain, write_run  # noqa: E402
from tests.support.many_stages import pairs  # noqa: E402
from workflow.plan.plan_model import LaunchPlan, Plan  # noqa: E402
from workflow.site.load_site import launcher_options  # noqa: E402

OBSERVED_S = 4.0 if os.environ.get("WF_BENCH_QUICK") else 16.0
DEATHS = 5 if os.environ.get("WF_BENCH_QUICK") else 21
SHELL = Path(__file__).with_name("metrics_stage.sh")
REAL = "2 stages, one of 2 ranks under mpiexec, SST"
STEPS = "1,000 steps of srun"
TARGETS = {REAL: 1.0, "10 stages": 2.0, "100 stages": 5.0, "1,000 stages": 10.0, STEPS: 10.0}
# What srun's own options are is nothing to it: the program begins at the first word without a dash.
FAKE_SRUN = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
exec "$@"
"""


def measure() -> list[dict[str, Any]]:
    """One run each."""
    rows = []
    for what, target in TARGETS.items():
        with tempfile.TemporaryDirectory() as name:
            used, begun, reactions = _watch(_plan(what), Path(name))
        rows += [
            {"name": f"CPU of the supervisor, {what}, a step a second each", "value": used, "unit": "% of a core",
             "target": target, "better": "lower", "detail": f"all open {begun:.1f} s after the start"},
            {"name": f"from a death to its record, {what}", "value": 1000 * statistics.median(reactions), "unit": "ms",
             "target": 50, "better": "lower",
             "detail": f"{len(reactions)} death{'s' * (len(reactions) > 1)}, largest {1000 * max(reactions):.0f} ms"},
        ]  # fmt: skip
    return rows


def _plan(what: str) -> Plan:
    if what == REAL:
        return real_pair()
    return as_steps(shells(1000)) if what == STEPS else shells(int(what.partition(" ")[0].replace(",", "")))


def real_pair() -> Plan:
    """md, two ranks under the launcher → saxs."""
    return chain("sst", ranks=2, steps=10000, step_s=1.0, sink=False, run=600)


def shells(count: int) -> Plan:
    """Pairs of a writer and a reader; the readers are taps."""
    plan = pairs(count, run=600)
    stages = []
    for stage in plan.stages:
        argv = ["bash", str(SHELL), stage.ends[0].stream, stage.ends[0].side]
        added = "tap" if stage.ends[0].side == "read" else None
        stages.append(stage.model_copy(update={"program": argv, "added": added}))
    return plan.model_copy(update={"stages": stages})


def as_steps(plan: Plan) -> Plan:
    """The same stages, each of them started by srun."""
    launch = LaunchPlan(launcher="srun", executable="srun")
    stages = [stage.model_copy(update={"launch": launch}) for stage in plan.stages]
    return plan.model_copy(update={"stages": stages, "launch_options": launcher_options("srun")})


def _watch(plan: Plan, folder: Path) -> tuple[float, float, list[float]]:
    """(% of a core, seconds until all streams were open, seconds from each death to its record)."""
    run_dir = write_run(plan, folder)
    begin = time.monotonic()
    fake = folder / "bin" / "srun"
    fake.parent.mkdir()
    fake.write_text(FAKE_SRUN)
    fake.chmod(0o755)
    environment = {**os.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}"}
    argv = [sys.executable, "-m", "workflow.run.supervisor", str(run_dir)]
    process = subprocess.Popen(argv, cwd=ROOT, env=environment)
    try:
        _wait_for(run_dir, '"stage_open"', len(plan.stages))
        begun = time.monotonic() - begin
        time.sleep(3)  # past the work of starting
        processes = [process.pid, *(pid for pid in _children(process.pid) if _is_guard(pid))]
        start, before = time.perf_counter(), sum(map(_cpu_s, processes))
        time.sleep(OBSERVED_S)
        used = (sum(map(_cpu_s, processes)) - before) / (time.perf_counter() - start)
        return 100 * used, begun, _kill_some(plan, run_dir)
    finally:
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        process.wait()


def _kill_some(plan: Plan, run_dir: Path) -> list[float]:
    """Kill readers, one after the other; of a chain there is only one, and the run ends with it."""
    readers = [stage.name for stage in plan.stages if stage.ends[0].side == "read"]
    names = random.Random(1).sample(readers, min(DEATHS, len(readers)))
    pids = {event["stage"]: event["pid"] for event in _events(run_dir) if event["event"] == "stage_started"}
    killed = {}
    for name in names:
        # At any moment of the supervisor's turn, when it is done with the last death: of 1,000 stages it searches all
        # processes for what a dead one has left, which takes some 0.1 s.
        time.sleep(random.Random(name).uniform(0.5, 1.5))
        killed[name] = time.time()
        os.kill(pids[name], signal.SIGKILL)
        _wait_for(run_dir, '"stage_exited"', len(killed))
    exited = {event["stage"]: event["t"] for event in _events(run_dir) if event["event"] == "stage_exited"}
    return [exited[name] - killed[name] for name in names]


def _events(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]


def _wait_for(run_dir: Path, text: str, times: int) -> None:
    """Until the events hold this text so often."""
    deadline = time.monotonic() + 120
    events = run_dir / "events.jsonl"
    while not events.exists() or events.read_text().count(text) < times:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{events} does not hold {times} times {text}")
        time.sleep(0.1)


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(word) for task in tasks for word in (task / "children").read_text().split()]


def _is_guard(pid: int) -> bool:
    """Whether this is the process that waits for the supervisor's death."""
    return b"run_guard.py" in Path(f"/proc/{pid}/cmdline").read_bytes()


def _cpu_s(pid: int) -> float:
    """Seconds on a core so far, of all threads, to the nanosecond."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


if __name__ == "__main__":
    for row in measure():
        print(row)
