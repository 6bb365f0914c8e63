"""The launchers of this cluster start ranks on several nodes, and MPI connects them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.packed_runs import MPI_PYTHON
from tests.support.slurm_cluster import SlurmCluster

# Two doubles of each rank are added up; then a message that is too big for an eager protocol goes around.
PROGRAM = """
import os
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
big, other = np.full(1 << 18, float(world.rank)), np.empty(1 << 18)
world.Sendrecv(big, (world.rank + 1) % world.size, recvbuf=other)
assert (other == (world.rank - 1) % world.size).all()
os.write(1, f"{world.rank} {os.uname().nodename} {total}\\n".encode())  # at once: launchers mix what ranks print
"""
FOUR_RANKS = ["0 n1 10", "1 n1 10", "2 n2 10", "3 n2 10"]


@pytest.fixture
def python() -> str:
    if not MPI_PYTHON:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the MPI of `make adios2-mpi`")
    return MPI_PYTHON


def test_srun_and_pmi2(cluster: SlurmCluster, python: str, tmp_path: Path) -> None:
    """By OFI only: the lines in which MPICH hands UCX's addresses over may be longer than Slurm reads (site file)."""
    argv = ["srun", "--mpi=pmi2", "--ntasks=4", "--ntasks-per-node=2", python, "-c", PROGRAM]
    nodes = ["--nodelist=n[1-2]", "--ntasks-per-node=2"]
    done = cluster.run_job(argv, tmp_path / "job", *nodes, MPIR_CVAR_CH4_NETMOD="ofi")
    assert sorted(done.printed.splitlines()) == FOUR_RANKS
    assert done.state == "COMPLETED"


@pytest.mark.parametrize("netmod", ["ucx", "ofi"])
def test_hydra(cluster: SlurmCluster, python: str, tmp_path: Path, netmod: str) -> None:
    mpiexec = str(Path(python).with_name("mpiexec"))
    argv = [mpiexec, "-hosts", "n2:1,n1:2", "-n", "3", python, "-c", PROGRAM]
    nodes = ["--nodelist=n[1-2]", "--ntasks-per-node=2"]
    done = cluster.run_job(argv, tmp_path / "job", *nodes, MPIR_CVAR_CH4_NETMOD=netmod)
    assert sorted(line.split()[1:] for line in done.printed.splitlines()) == [["n1", "6"], ["n2", "6"], ["n2", "6"]]
    assert done.state == "COMPLETED"


def test_open_mpi_with_a_rankfile(cluster: SlurmCluster, tmp_path: Path) -> None:
    rankfile = tmp_path / "rankfile"
    rankfile.write_text("rank 0=n2 slot=0\nrank 1=n1 slot=1\n")
    mpirun = shutil.which("mpirun.openmpi")
    assert mpirun
    ask = "echo $OMPI_COMM_WORLD_RANK $(hostname) $(grep Cpus_allowed_list /proc/self/status)"
    argv = [mpirun, "--allow-run-as-root", "-n", "2", "--rankfile", str(rankfile), "sh", "-c", ask]
    done = cluster.run_job(argv, tmp_path / "job", "--nodelist=n[1-2]", "--ntasks-per-node=2")
    assert sorted(done.printed.splitlines()) == ["0 n2 Cpus_allowed_list: 0", "1 n1 Cpus_allowed_list: 1"]
