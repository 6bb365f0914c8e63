"""The study coupled-pipeline on four nodes: what its strategies send over the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster_runs import ROOT, SITE, run_in_job, wf_run
from tests.support.packed_runs import MPI_PYTHON
from tests.support.slurm_cluster import SlurmCluster
from workflow.api import read_report

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not MPI_PYTHON, reason="WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`"
    ),
]
PIPELINE = ROOT / "examples/campaigns/coupled-pipeline/pipeline.yaml"
# As scale `four-nodes` of its campaign, with fewer atoms.
FOUR_NODES = {
    "stages.md.ranks": "4", "stages.md.place": "{nodes: 4}", "stages.xrd.ranks": "4",
    "stages.md.with.cells": "[10, 10, 80]", "streams.atoms.transport": "tcp",
}  # fmt: skip
HOSTS = ("n1", "n2", "n3", "n4")


def test_bin_packing_alone_sends_atoms_to_other_nodes(cluster: SlurmCluster, tmp_path: Path) -> None:
    crossed = {}
    for strategy in ("hostname:binpacking", "binpacking", "hyperslab"):
        run_dir = tmp_path / strategy.replace(":", "-")
        before = {host: cluster.interface_bytes(host) for host in HOSTS}
        settings = FOUR_NODES | {"streams.atoms.strategy": strategy}
        run_in_job(cluster, wf_run(PIPELINE, run_dir, settings, "--site", SITE), run_dir, 4)
        moved = sum(cluster.interface_bytes(host).received - before[host].received for host in HOSTS)
        loaded = read_report(run_dir).stream("atoms").readers[0].bytes
        assert loaded is not None and loaded > 11 * 32000 * 28
        crossed[strategy] = moved / loaded
    # LAMMPS's own messages and the index of each step cross always, in all three alike: about as much as the atoms. Of
    # these bin packing sends one half to other nodes, hyperslabs 1 %; the bounds leave 2 MB to all else that crosses.
    by_bin_packing = crossed["binpacking"] - crossed["hostname:binpacking"]
    by_hyperslab = crossed["hyperslab"] - crossed["hostname:binpacking"]
    assert by_bin_packing > 0.25 and by_hyperslab < by_bin_packing / 2, crossed
