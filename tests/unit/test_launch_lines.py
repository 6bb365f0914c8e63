"""Numbers → argument lists."""

from __future__ import annotations

from workflow.launch.launch_line import LAUNCHERS, Launch, launch_argv

ONE = Launch(ranks=1, nodes=1, first_node=0, ranks_per_node=1, cores_per_rank=1)
FOUR = Launch(ranks=4, nodes=1, first_node=0, ranks_per_node=4, cores_per_rank=2)
WIDE = Launch(ranks=1000, nodes=8, first_node=2, ranks_per_node=125, cores_per_rank=1)


def test_direct() -> None:
    assert launch_argv("none", ONE, ["--extra"], ["prog", "-x"], "mpiexec") == ["prog", "-x"]


def test_mpiexec_beside_the_python_in_use() -> None:
    argv = launch_argv("mpiexec", FOUR, ["-genvall"], ["prog", "-x"], "/env/bin/mpiexec")
    assert argv == ["/env/bin/mpiexec", "-n", "4", "-genvall", "prog", "-x"]
    assert LAUNCHERS["mpiexec"](WIDE) == ["mpiexec", "-n", "1000", "-ppn", "125"]


def test_srun_takes_its_cores_and_nodes_within_the_allocation() -> None:
    assert LAUNCHERS["srun"](WIDE) == [
        "srun", "--ntasks=1000", "--nodes=8", "--ntasks-per-node=125", "--relative=2", "--exact", "--cpus-per-task=1",
    ]  # fmt: skip
    guest = Launch(ranks=1, nodes=1, first_node=0, ranks_per_node=1, cores_per_rank=0)
    assert "--overlap" in LAUNCHERS["srun"](guest)
    assert "--exact" not in LAUNCHERS["srun"](guest)
