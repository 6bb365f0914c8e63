"""The launchers of this cluster start ranks on several nodes, and MPI connects them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.support.chains import make_plan, make_stage, write_run
from tests.support.packed_runs import MPI_PYTHON
from tests.support.slurm_cluster import SlurmCluster
from tests.support.waiting import wait_until
from workflow.launch.launchers import make_process
from workflow.plan.launch_requests import GrantedNodes, stage_request
from workflow.plan.plan_model import LaunchPlan, Placement
from workflow.run.guard.rank_processes import RankFinder
from workflow.run.processes.stage_processes import StageProcesses
from workflow.run.records.run_directory import read_filled_plan
from workflow.site.load_site import launcher_options

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
# Stands for an ssh that passes on nothing but what the launcher's line exports.
SSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec env -i "PATH=$PATH" "HOME=$HOME" sh -c "$*"
"""
SLEEPER = [sys.executable, "-c", "import time; time.sleep(300)"]
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


def test_ranks_that_open_mpi_reaches_by_ssh_have_their_numbers(tmp_path: Path) -> None:
    """Nothing but what the line exports gets through."""
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    arguments = ["--mca", "plm_rsh_agent", str(ssh), "--oversubscribe", "--allow-run-as-root"]
    mpirun = shutil.which("mpirun.openmpi")
    assert mpirun
    line = LaunchPlan(launcher="openmpi", executable=mpirun, arguments=arguments)
    place = Placement(nodes=[(0, 2)], ranks_per_node=1, cores=[], cores_per_rank=0)
    stage = make_stage("md", SLEEPER, ranks=2, launch=line, placement=place)
    plan = make_plan([stage]).model_copy(update={"launch_options": launcher_options("openmpi", "4.1")})
    folder = write_run(plan, tmp_path / "run")
    filled = read_filled_plan(folder)
    request = stage_request(filled.stage("md"), filled, str(folder / "stages/md"), GrantedNodes(["n1", "n2"]))
    with StageProcesses(folder) as processes:
        processes.start(make_process(request))
        finder = RankFinder(str(folder))
        wait_until(lambda: len(finder.find()) == 2, "two ranks")
        assert [(each.stage, each.rank) for each in finder.find()] == [("md", 0), ("md", 1)]
