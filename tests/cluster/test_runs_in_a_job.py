"""`wf run` inside a batch job: stages on nodes of their own give the data of a run on one machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.packed_runs import MPI_PYTHON
from tests.support.slurm_cluster import SlurmCluster
from workflow.compare.compare_runs import compare_runs

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "01-shock-diffraction" / "pipeline.yaml"
# Simulation and analysis of two ranks each, on two nodes each; 11 steps of 6,050 atoms. By default the nodes decide
# which rank reads which atoms, and so the order in which they are added up.
SMALL = {
    "streams.atoms.strategy": "hyperslab",
    "stages.md.with.run_steps": "100",
    "stages.md.with.dump_every": "10",
    "stages.md.ranks": "2",
    "stages.md.place.nodes": "2",
    "stages.xrd.ranks": "2",
    "stages.xrd.place.nodes": "2",
}
POSITIONS_BYTES = 11 * 6050 * 3 * 8


def wf_run(folder: Path, settings: dict[str, str], *options: str) -> list[str]:
    changes = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return [MPI_PYTHON, "-m", "workflow.cli", "run", str(EXAMPLE), "--run-dir", str(folder), *changes, *options]


@pytest.mark.slow
@pytest.mark.skipif(not MPI_PYTHON, reason="WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
def test_example_01_on_four_nodes_gives_the_data_of_one_machine(cluster: SlurmCluster, tmp_path: Path) -> None:
    before = {host: cluster.interface_bytes(host) for host in cluster.hosts}
    nodes = ["--nodes=4", "--exclusive"]
    in_job = wf_run(tmp_path / "nodes", SMALL, "--site", "test-slurm")
    done = cluster.run_job(in_job, tmp_path / "job", *nodes, PYTHONPATH=str(ROOT))
    assert done.state == "COMPLETED", done.printed
    sent = {host: cluster.interface_bytes(host).sent - before[host].sent for host in cluster.hosts}
    received = {host: cluster.interface_bytes(host).received - before[host].received for host in cluster.hosts}
    assert sent["n1"] + sent["n2"] > POSITIONS_BYTES
    assert received["n3"] + received["n4"] > POSITIONS_BYTES

    alone = {key: value for key, value in SMALL.items() if not key.endswith("nodes")} | {"oversubscribe": "true"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    here = subprocess.run(
        wf_run(tmp_path / "here", alone), env=environment, capture_output=True, text=True, timeout=240
    )
    assert here.returncode == 0, here.stdout + here.stderr
    comparison = compare_runs(tmp_path / "nodes", tmp_path / "here")
    assert comparison.identical, comparison
    assert "pattern.bp" in [file.path for file in comparison.files]
