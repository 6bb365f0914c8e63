"""`wf status` on long runs, and how large the files of a long run are.

The files are written by the code that stages and the supervisor use, with times of a run of ten days made up: the
chain md → saxs → keep, 10^6 steps each. Wall seconds of whole processes, median of repetitions. Files of version 1,
from before this rule, have a line for each step and are read whole.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

from tests.bench import streams
from tests.support.sample_run import START, make_plan, write_run
from workflow.formats.sides import Side
from workflow.run.records.events_file import EventLog
from workflow.run.state.events import RunStarted, StageStarted, StreamOpened, StreamProgress
from workflow.stage.telemetry import Metrics

STEPS = 20_000 if streams.QUICK else 1_000_000
STEP_S = 0.864  # ten days
ENDS: list[tuple[str, str, Side]] = [
    ("md", "atoms", "write"), ("saxs", "atoms", "read"), ("saxs", "pattern", "write"), ("keep", "pattern", "read"),
]  # fmt: skip


def measure() -> list[streams.Row]:
    """The time of `wf status`, and the files."""
    rows = []
    with streams.folder() as folder:
        for name, steps in (("1,000 steps", 1000), (f"{STEPS:,} steps", STEPS)):
            run_dir = write_long_run(Path(folder) / str(steps), steps)
            seconds = [status_seconds(run_dir) for _ in range(streams.repetitions(7))]
            spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
            rows.append(
                {
                    "name": f"`wf status` of a run of {name}", "value": statistics.median(seconds), "unit": "s",
                    "target": 0.5, "detail": spread,
                }
            )  # fmt: skip
            sizes = {path.name: path.stat().st_size for path in [run_dir / "events.jsonl", largest_metrics(run_dir)]}
            for file, size in sizes.items():
                rows.append({"name": f"largest {file} of it", "value": size / 1e6, "unit": "MB", "target": None})
    return rows


def status_seconds(run_dir: Path) -> float:
    """Wall time of `wf status RUN_DIR`."""
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "workflow.cli", "status", str(run_dir)], stdout=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - begin


def largest_metrics(run_dir: Path) -> Path:
    """The file of metrics with most bytes."""
    return max((run_dir / "stages").glob("*/metrics.jsonl"), key=lambda path: path.stat().st_size)


def write_long_run(run_dir: Path, steps: int) -> Path:
    """A run that goes on, `STEP_S` a step, with the clock set as the steps go by."""
    plan = make_plan()
    write_run(run_dir, plan, [], {})
    (run_dir / "events.jsonl").unlink()
    now = [START]
    with mock.patch("time.time", lambda: now[0]):
        for stage in plan.stages:
            write_metrics(run_dir / "stages" / stage.name / "metrics.jsonl", stage.name, steps, now)
    log = EventLog(run_dir)
    log.write(RunStarted(START, "long", 1, 1, "elsewhere"))
    for number, stage in enumerate(plan.stages):
        log.write(StageStarted(START, stage.name, 100 + number))
    for owner, stream, side in ENDS:
        log.write(StreamOpened(START + 1, stream, owner, side))
    for step in range(steps):
        for owner, stream, side in ENDS:
            log.write(StreamProgress(START + 1 + step * STEP_S, stream, owner, side, step + 1, 800 * (step + 1)))
    log.close()
    return run_dir


def write_metrics(path: Path, stage: str, steps: int, now: list[float]) -> None:
    """What one stage records of all its steps."""
    ends = [(stream, side) for owner, stream, side in ENDS if owner == stage]
    metrics = Metrics(str(path))
    metrics.start(stage=stage, ranks=1, adios2="2.12.1", mpi=False, parallel=False)
    for stream, side in ends:
        now[0] = START + 1
        metrics.opening(stream, side)
        metrics.write("open", stream=stream, side=side, engine="SST", seconds=0.5)
    for step in range(steps):
        now[0] = START + 1 + step * STEP_S
        for stream, side in ends:
            metrics.step(stream, side, 800, 0.1, 0.1)


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
