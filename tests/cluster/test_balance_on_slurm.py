"""`wf balance` in a job of two nodes: readers beside their writer or on the other node, and not outside of a job."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.packed_runs import MPI_PYTHON
from tests.support.slurm_cluster import SlurmCluster
from workflow.balance.balance_model import BALANCE_FILE, Balance
from workflow.run.records.run_directory import read_filled_plan

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not MPI_PYTHON, reason="WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`"
    ),
]
ROOT = Path(__file__).parents[2]
# Waiting takes the same time on nodes that share their cores: the choice is certain, and so is its size.
PIPELINE = """
wf: 1
name: balanced
site: test-slurm
stages:
  sim: {component: synthetic, with: {bytes: 200 kB, steps: 300, compute_time: 300 ms}}
  look: {component: "null", place: {cores_per_rank: 1}}
streams:
  field: {from: sim, to: look, transport: tcp}
"""
WORDS = ["balance", "pipeline.yaml", "--vary", "stages.sim.with.compute_time=[100 ms]", "--fixed", "streams.field.via"]


def test_candidates_run_on_the_nodes_of_the_job(cluster: SlurmCluster, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    directory = tmp_path / "balance"
    argv = [MPI_PYTHON, "-m", "workflow.cli", *WORDS, "--probes", "12", "--steps", "12", "--dir", str(directory)]
    argv[argv.index("pipeline.yaml")] = str(tmp_path / "pipeline.yaml")
    output = tmp_path / "job.out"
    job = cluster.start_job(argv, output, "--nodes=2", "--exclusive", PYTHONPATH=str(ROOT))
    cluster.wait_for_job(job, "COMPLETED")
    found = Balance.model_validate_json((directory / BALANCE_FILE).read_bytes())
    assert found.decided, output.read_text()
    assert found.chosen.settings["stages.sim.with.compute_time"] == "100 ms"
    assert 0.25 < found.chosen.ratio.median < 0.6
    assert found.keys["stages.look.place.share"] == [None, "sim"]
    plans = [read_filled_plan(run_dir) for run_dir in sorted((directory / "runs").iterdir())]
    assert len(plans) == found.probes
    places = {plan.stage("look").placement.nodes[0] for plan in plans}
    assert places <= {(0, 1), (1, 2)} and plans[0].stage("look").placement.nodes[0] == (1, 2)


def test_outside_of_a_job_it_says_how_to_get_one(cluster: SlurmCluster, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    environment = {**os.environ, **cluster.environment, "PYTHONPATH": str(ROOT)}
    argv = [MPI_PYTHON, "-m", "workflow.cli", *WORDS]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "not one of its jobs" in done.stderr and "salloc --nodes=2 wf balance" in done.stderr
    assert not (tmp_path / "balance").exists()
