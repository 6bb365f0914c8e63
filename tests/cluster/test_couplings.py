"""Example 01, small, on four isolated nodes: every way to place and couple it gives the data of one machine.

What runs here: SST by tcp between nodes and within one; by ucx and by rdma (libfabric's shared memory) within one node;
BP5 files, read afterwards and while they grow. What cannot run without network hardware that has remote memory access:
ucx and rdma between nodes. The site says `fabric: false`, and `wf` refuses them there.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.cluster_runs import EXAMPLE, SITE, RunSeen, run_from_login, run_here, run_in_job, wf_run
from tests.support.packed_runs import MPI_PYTHON
from tests.support.slurm_cluster import SlurmCluster
from tests.support.ucx_here import UCX_WORKS
from workflow.compare.compare_runs import compare_runs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not MPI_PYTHON, reason="WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`"
    ),
]
# 2,050 atoms, 5 steps, two ranks each. By default the nodes decide which rank reads which atoms, and so the order in
# which they are added up: the last digits would differ.
SMALL = {
    "streams.atoms.strategy": "hyperslab",
    "stages.md.ranks": "2",
    "stages.md.with.cells": "[5, 5, 20]",
    "stages.md.with.run_steps": "40",
    "stages.md.with.dump_every": "10",
    "stages.xrd.ranks": "2",
    "stages.xrd.with.outputs": "[line, slice]",
}
Hosts = list[str]


@dataclass(frozen=True)
class Coupling:
    """A way to run the example: on how many nodes, with which changes, and where the ranks of its stages are then."""

    nodes: int
    md: Hosts
    xrd: Hosts
    keep: Hosts = field(default_factory=list)
    cores: int = 1  # on which each rank of md and xrd may run
    settings: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()


def placed(**nodes: str) -> dict[str, str]:
    """`md="2"`: on two nodes of its own; `xrd="md"`: on the same nodes as `md`."""
    return {f"stages.{stage}.place.{'nodes' if to.isdigit() else 'share'}": to for stage, to in nodes.items()}


ON_SHARED = placed(md="2", xrd="md")
ON_OWN = placed(md="1", xrd="1")
ON_THREE = placed(md="1", xrd="2", keep="1", picture="keep")
ON_ONE = {**placed(md="1", xrd="md"), "oversubscribe": "true"}
COUPLINGS = {
    "shared nodes": Coupling(2, md=["n1", "n2"], xrd=["n1", "n2"], settings=ON_SHARED),
    "disjoint nodes": Coupling(2, md=["n1", "n1"], xrd=["n2", "n2"], settings=ON_OWN),
    "three stages on 1+2+1 nodes": Coupling(4, md=["n1", "n1"], xrd=["n2", "n3"], keep=["n4"], settings=ON_THREE),
    "ranks across nodes": Coupling(4, md=["n1", "n2"], xrd=["n3", "n4"], settings=placed(md="2", xrd="2")),
    "files, afterwards": Coupling(2, md=["n1", "n2"], xrd=["n1", "n2"], settings=ON_SHARED, options=("--via", "bp5")),
    "files, live": Coupling(
        4, md=["n1", "n1"], xrd=["n2", "n3"], keep=["n4"], settings=ON_THREE, options=("--profile", "live-file")
    ),
    "rdma within a node": Coupling(
        1, md=["n1", "n1"], xrd=["n1", "n1"], cores=2, settings={**ON_ONE, "streams.atoms.transport": "rdma"}
    ),
    "ucx within a node": Coupling(
        1, md=["n1", "n1"], xrd=["n1", "n1"], cores=2, settings={**ON_ONE, "streams.atoms.transport": "ucx"}
    ),
}
HERE = [name for name in COUPLINGS if UCX_WORKS or "ucx" not in name]
FROM_OUTSIDE = ["shared nodes", "disjoint nodes", "three stages on 1+2+1 nodes", "files, live"]


@pytest.fixture(scope="module")
def one_machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of the example on this machine, by SST."""
    run_dir = tmp_path_factory.mktemp("one-machine") / "run"
    run_here(wf_run(EXAMPLE, run_dir, {**SMALL, "oversubscribe": "true"}))
    return run_dir


Started = Callable[[list[str], Path, int], RunSeen]


@pytest.mark.parametrize("name", HERE)
def test_inside_an_allocation(name: str, cluster: SlurmCluster, one_machine: Path, tmp_path: Path) -> None:
    run_and_compare(name, lambda argv, run_dir, nodes: run_in_job(cluster, argv, run_dir, nodes), one_machine, tmp_path)


def test_inside_salloc(cluster: SlurmCluster, one_machine: Path, tmp_path: Path) -> None:
    """The supervisor runs on the login node then, and its stages on the nodes of the allocation."""

    def start(argv: list[str], run_dir: Path, nodes: int) -> RunSeen:
        return run_from_login(cluster, ["salloc", f"--nodes={nodes}", "--exclusive", *argv], run_dir)

    run_and_compare("ranks across nodes", start, one_machine, tmp_path)


@pytest.mark.parametrize("name", FROM_OUTSIDE)
def test_from_outside(name: str, cluster: SlurmCluster, one_machine: Path, tmp_path: Path) -> None:
    """`wf run` on the login node, which submits the run as one job and follows it."""
    run_and_compare(name, lambda argv, run_dir, _: run_from_login(cluster, argv, run_dir), one_machine, tmp_path)
    job = json.loads((tmp_path / "run/job.json").read_text())
    # The result is there before Slurm has ended the job.
    cluster.wait_for_job(int(job["job"]), "COMPLETED")


def run_and_compare(name: str, start: Started, one_machine: Path, folder: Path) -> None:
    """Run a coupling; its ranks are where they are planned, and its archive equals the one of one machine."""
    coupling, run_dir = COUPLINGS[name], folder / "run"
    argv = wf_run(EXAMPLE, run_dir, {**SMALL, **coupling.settings}, "--site", SITE, *coupling.options)
    seen = start(argv, run_dir, coupling.nodes)
    assert (seen.hosts("md"), seen.hosts("xrd")) == (coupling.md, coupling.xrd), seen.printed
    assert not coupling.keep or seen.hosts("keep") == coupling.keep
    for stage in ("md", "xrd"):
        assert [len(cores) for cores in seen.cores(stage)] == [coupling.cores] * 2, seen
    if name == "shared nodes":
        assert [*seen.cores("md"), *seen.cores("xrd")] == [(0,), (0,), (1,), (1,)]
    comparison = compare_runs(run_dir, one_machine)
    assert comparison.identical, comparison
    assert "pattern.bp" in [file.path for file in comparison.files]
    transport = coupling.settings.get("streams.atoms.transport", "tcp")
    atoms = next(
        each for each in json.loads((run_dir / "report.json").read_text())["streams"] if each["name"] == "atoms"
    )
    assert atoms["transport"] == ("" if coupling.options else transport)


@pytest.mark.parametrize("transport", ["ucx", "rdma"])
def test_transports_that_need_hardware_are_refused_between_nodes(
    transport: str, cluster: SlurmCluster, tmp_path: Path
) -> None:
    changes = {**SMALL, **placed(md="2", xrd="2"), "streams.atoms.transport": transport}
    argv = wf_run(EXAMPLE, tmp_path / "run", changes, "--site", SITE)
    done = subprocess.run(argv, env={**os.environ, **cluster.environment}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stdout
    assert f"{transport} between nodes needs an RDMA network" in done.stderr
