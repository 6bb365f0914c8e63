"""How soon the death of a rank on another node is noticed, and judged.

A writer of two ranks on two nodes, its reader on a third one, where the supervisor runs. SIGKILL ends the writer's
second rank in the middle of the run; the time counts from there to the record of the stage's exit in `events.jsonl`,
and to the verdict. Each death is a run of its own.
"""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench import on_cluster, streams
from tests.bench.streams import Row
from tests.support.cluster_runs import RunSeen, look
from tests.support.slurm_cluster import SlurmCluster
from tests.support.slurm_cluster.cluster import ENDED
from tests.support.waiting import wait_until

# Stages take nodes in the order of the file, and the supervisor is on the first one.
PIPELINE = """
wf: 1
name: death
stages:
  drop: {component: "null", place: {nodes: 1, cores_per_rank: 1}}
  make:
    component: synthetic
    with: {grid_points: 1000, particles: 0, steps: 100000, compute_time: 50 ms}
    ranks: 2
    place: {nodes: 2}
streams:
  data: {from: make, to: drop, via: sst-tcp}
"""
KILLED = ("make", 1)
VERDICT_S = 20.0


def measure() -> list[Row]:
    """Record, verdict, and the end of the job."""
    with on_cluster.four_nodes() as cluster, tempfile.TemporaryDirectory() as name:
        deaths = [_death(cluster, Path(name), number) for number in range(streams.repetitions(7))]
    records, verdicts, ends = zip(*deaths, strict=True)
    what = "from the death of a rank on another node to"
    return [
        streams.measured(f"{what} its record", records, "s", better="lower", detail=f"{len(deaths)} deaths"),
        streams.measured(f"{what} the verdict", verdicts, "s", VERDICT_S, better="lower"),
        streams.measured(f"{what} the end of the job", ends, "s", VERDICT_S, better="lower"),
    ]


def _death(cluster: SlurmCluster, parent: Path, number: int) -> tuple[float, float, float]:
    """Seconds from a death to its record, to the verdict, and to the end of the job."""
    folder = parent / str(number)
    folder.mkdir()
    pipeline, run_dir = folder / "pipeline.yaml", folder / "run"
    pipeline.write_text(PIPELINE)
    argv = ["sh", "-c", on_cluster.wf_run(pipeline, run_dir)]
    job = cluster.start_job(argv, folder / "job", "--nodes=3", "--exclusive", PYTHONPATH=str(on_cluster.ROOT))
    wait_until(lambda: _times(run_dir, "stream_opened") >= 2, "an open stream", on_cluster.DEADLINE_S)
    seen = RunSeen()
    look(cluster, run_dir, seen)
    time.sleep(random.Random(number).uniform(1.0, 2.0))  # at any moment of the supervisor's turn
    killed_at = time.time()
    os.kill(seen.ranks[KILLED].pid, signal.SIGKILL)
    wait_until(lambda: cluster.job_state(job) in ENDED, f"the end of job {job}", on_cluster.DEADLINE_S)
    end = time.time()
    exited = next(event for event in _events(run_dir) if event["event"] == "stage_exited")
    finished = next(event for event in _events(run_dir) if event["event"] == "run_finished")
    assert finished["stage"] == KILLED[0], finished
    return exited["t"] - killed_at, finished["t"] - killed_at, end - killed_at


def _times(run_dir: Path, event: str) -> int:
    return len([each for each in _events(run_dir) if each["event"] == event])


def _events(run_dir: Path) -> list[dict[str, Any]]:
    file = run_dir / "events.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


if __name__ == "__main__":
    streams.serve({}, measure)
