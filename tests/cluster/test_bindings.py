"""Every launcher of this cluster puts each rank on the node and the cores that its request says, read by the rank."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.packed_runs import MPI_PYTHON
from tests.support.same_machine import machine_program
from tests.support.slurm_cluster import SlurmCluster
from workflow.formats.run_variables import RUN_VARIABLE, RUN_VARIABLES, STAGE_VARIABLE
from workflow.launch.launch_request import LaunchRequest, NodeFacts, RankLayout
from workflow.launch.launchers import LAUNCHERS, launch_line
from workflow.site.load_site import launcher_options

# rank, host, the cores that it may use, what the script of its node gave it
ASK = """
echo "$RANK $(hostname) $(sed -n 's/Cpus_allowed_list:.//p' /proc/self/status) $GPUS"
"""
NODE = NodeFacts(cores=2, gpus=0, gpu_variable="GPUS")
SWAPPED = RankLayout(nodes=2, first_node=1, ranks_per_node=2, cores_per_rank=1, cores=[[1], [0]], gpus=[[1], [0]])
EXECUTABLES = {
    "srun": ("srun", "22.05"),
    "mpiexec": (str(Path(MPI_PYTHON).with_name("mpiexec")) if MPI_PYTHON else "", None),
    "openmpi": (machine_program("mpirun.openmpi") or "", "4.1.4"),
}
# What each needs of this machine, where tests run as root.
ARGUMENTS = {"openmpi": ["--allow-run-as-root"]}


def request(launcher: str, folder: Path, ranks: int, layout: RankLayout) -> LaunchRequest:
    executable, version = EXECUTABLES[launcher]
    if not executable:
        pytest.skip(f"{launcher} is not here: `make adios2-mpi` and WF_MPI_PYTHON, or Debian's openmpi-bin")
    ask = folder / "ask.sh"
    ask.write_text(ASK.replace("RANK", LAUNCHERS[launcher].rank_variable))
    return LaunchRequest(
        "ask", launcher, executable, ARGUMENTS.get(launcher, []), ["/bin/sh", str(ask)], ranks, layout,
        str(folder), str(folder), NODE, launcher_options(launcher, version), hosts=["n1", "n2", "n3", "n4"], start_s=30,
    )  # fmt: skip


def answers(cluster: SlurmCluster, folder: Path, asked: LaunchRequest) -> list[list[str]]:
    """What the ranks of a line say, in a job on all nodes."""
    line = launch_line(asked)
    for path, text in line.texts().items():
        Path(path).write_text(text)
    own = dict.fromkeys(RUN_VARIABLES, "") | {RUN_VARIABLE: str(folder), STAGE_VARIABLE: "ask"}
    variables: dict[str, Any] = {**line.env, **own}
    done = cluster.run_job(line.argv, folder / "job", "--nodes=4", "--exclusive", **variables)
    assert done.state == "COMPLETED", done.printed
    return sorted((text.split() for text in done.printed.splitlines()), key=lambda words: int(words[0]))


@pytest.mark.parametrize("launcher", EXECUTABLES)
@pytest.mark.parametrize("ranks", [4, 3])
def test_ranks_are_on_their_nodes_and_cores(cluster: SlurmCluster, tmp_path: Path, launcher: str, ranks: int) -> None:
    """Rank 0 of a node has its second core: launchers that choose themselves give it the first one."""
    expected = [["0", "n2", "1", "1"], ["1", "n2", "0", "0"], ["2", "n3", "1", "1"], ["3", "n3", "0", "0"]]
    assert answers(cluster, tmp_path, request(launcher, tmp_path, ranks, SWAPPED)) == expected[:ranks]


@pytest.mark.parametrize("launcher", EXECUTABLES)
def test_ranks_without_cores_of_their_own_may_use_all(cluster: SlurmCluster, tmp_path: Path, launcher: str) -> None:
    """More of them than cores."""
    free = RankLayout(nodes=1, first_node=3, ranks_per_node=3, cores_per_rank=0)
    said = answers(cluster, tmp_path, request(launcher, tmp_path, 3, free))
    assert said == [["0", "n4", "0-1"], ["1", "n4", "0-1"], ["2", "n4", "0-1"]]


def test_a_step_that_cannot_start_says_so_in_time(cluster: SlurmCluster, tmp_path: Path) -> None:
    """In a job that has one core of the node, which another step has taken."""
    asked = request("srun", tmp_path, 1, RankLayout(1, 0, 1, cores_per_rank=1, cores=[[0]]))
    line = launch_line(replace(asked, whole_nodes=False, start_s=2))
    holder, waiting = tmp_path / "holder", tmp_path / "two-steps.sh"
    waiting.write_text(
        f"srun --exact --ntasks=1 sh -c 'touch {holder}; sleep 60' & until [ -e {holder} ]; do sleep 0.05; done\n"
        f"{' '.join(line.argv)} 2>&1; echo code $?\n"
    )
    done = cluster.run_job(["bash", str(waiting)], tmp_path / "job", "--nodes=1", "--ntasks=1", "--nodelist=n1")
    assert "Unable to create step" in done.printed and "code 1" in done.printed, done.printed
    pattern = LAUNCHERS["srun"].not_started
    found = pattern.search(done.printed) if pattern else None
    assert found is not None and "Requested nodes are busy" in found[1]
