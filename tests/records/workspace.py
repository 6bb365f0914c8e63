"""A folder with the files of all formats: made by real runs and a real campaign, and by what a laptop does not have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.support.campaigns import CampaignFolder
from tests.support.sample_run import make_plan, write_sample
from workflow.run.control.lease import read_lease
from workflow.run.records.job_record import JobRecord, write_job
from workflow.run.records.run_notes import add_note

ROOT = Path(__file__).parents[2]
EXPECT = "\nexpect:\n  wall_s: < 5 min\n"
METRICS = """metrics:
  time: {of: run.wall_s, better: less}
  own: {of: stages.one.wall_s, better: less}
comparisons: [{vary: stages.one.env.VALUE}]
"""
SITE = """site: test
summary: two nodes
nodes: 2
cores_per_node: 8
memory_per_node: 16 GiB
launcher: mpiexec
planes: [tcp]
operators: [blosc]
"""
TIMEOUT_S = 300


def make_workspace(folder: Path) -> Path:
    """Make it in this folder, which is there and empty."""
    (folder / "configs/calibration").mkdir(parents=True)
    _wf(folder, "init", "first")
    pipeline = folder / "first/pipeline.yaml"
    pipeline.write_text(pipeline.read_text() + EXPECT)
    _wf(folder, "run", "first/pipeline.yaml", "--run-dir", "runs/one")
    _wf(folder, "calibrate", "runs/one")
    _wf(folder, "run", "first/pipeline.yaml", "--run-dir", "runs/two")
    write_sample(folder / "runs/chain")
    # As a killed one leaves it: without a verdict, its lease that of a process which is gone.
    write_sample(folder / "runs/lost", plan=make_plan())
    lost = folder / "runs/lost"
    events = (lost / "events.jsonl").read_text().split("\n")
    (lost / "events.jsonl").write_text("\n".join(events[:-4]) + "\n")
    lease = read_lease(folder / "runs/one")
    assert lease is not None
    (lost / "lease.json").write_text(json.dumps(asdict(lease)))
    _add_records_of_clusters(folder / "runs/two", lost)
    campaign = CampaignFolder(folder, 2, 6, METRICS)
    campaign.wf("run")
    campaign.wf("report")
    (folder / "configs/sites").mkdir(parents=True, exist_ok=True)
    (folder / "configs/sites/test.yaml").write_text(SITE)
    for page in [*folder.rglob("*.html"), *folder.rglob("*.svg"), *folder.rglob("*.pdf"), *folder.rglob("*.parquet")]:
        page.unlink()
    return folder


def _add_records_of_clusters(run: Path, lost: Path) -> None:
    job = JobRecord("slurm", "wf-lost", "12", time.time() - 3600, "1", "exit.{job}")
    write_job(run, job)
    (run / "control.jsonl").write_text('{"request": "stop", "by": "ada@node1", "t": 1790000000.0}\n')
    ranks = [{"rank": 0, "host": "node1", "cores": "0-1", "gpus": {"CUDA_VISIBLE_DEVICES": "0"}}]
    streams = [
        {"stream": "atoms", "writer": "md", "readers": ["saxs"], "transport": "tcp", "seconds": 0.2, "text": ""},
        {"stream": "pattern", "writer": "saxs", "readers": ["keep"], "transport": "tcp", "seconds": None, "text": "no"},
    ]
    proof = {
        "state": "proved", "nodes": {"node1": {}}, "directory": [{"host": "node1"}], "stages": {"md": ranks},
        "streams": streams, "untried": {"more": "a file"},
    }  # fmt: skip
    for each in (run, lost):
        add_note(each, "the first try", ["trial"])
        add_note(each, "kept for the paper", ["paper", "fig.2"])
        (each / "proof.json").write_text(json.dumps(proof))
        allocation = {
            "allocation_version": 1, "source": "slurm", "job": "12", "end_time": 1790000900.0, "notes": ["a note"],
            "hosts": [{"name": "node1", "cores": 8, "memory": 2**34, "gpus": None}], "counts_threads": False,
        }  # fmt: skip
        (each / "allocation.json").write_text(json.dumps(allocation))


def _wf(folder: Path, *words: str) -> None:
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "WF_CONFIGS": str(folder / "configs"),
        "COLUMNS": "120",
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "workflow.cli", *words], cwd=folder, env=env, capture_output=True, text=True,
        timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, f"wf {' '.join(words)}: {done.stdout}\n{done.stderr}"
