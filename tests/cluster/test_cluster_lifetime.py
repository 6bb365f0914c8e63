"""A cluster starts, loses nodes and its controller, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.slurm_cluster import ClusterSettings, SlurmCluster
from tests.support.slurm_cluster.cluster import ENDED
from tests.support.slurm_cluster.network import cables
from tests.support.slurm_cluster.node import processes_in
from tests.support.waiting import wait_until

Start = Callable[[ClusterSettings], SlurmCluster]
# A task with a child in a session of its own, which a signal to the process group does not reach.
WITH_DAEMON = "setsid sleep 1000 & sleep 1001"


@pytest.fixture(scope="module")
def fragile(start_cluster: Start) -> SlurmCluster:
    """A cluster for tests that break it and mend it."""
    return start_cluster(ClusterSettings(nodes=2))


def wait_for_processes(cluster: SlurmCluster, host: str, command: list[str]) -> None:
    wait_until(
        lambda: command in [process.command for process in cluster.processes_on(host)], f"{command} on {host}", 30
    )


def test_a_job_runs_on_four_nodes(cluster: SlurmCluster, tmp_path: Path) -> None:
    job = cluster.submit("--nodes=4", f"--output={tmp_path}/job", "--wrap=srun --label hostname")
    cluster.wait_for_job(job, "COMPLETED")
    assert sorted((tmp_path / "job").read_text().splitlines()) == ["0: n1", "1: n2", "2: n3", "3: n4"]


def test_a_step_from_within_a_job_needs_no_variables(cluster: SlurmCluster, tmp_path: Path) -> None:
    """The nodes have the configuration where Slurm looks by itself."""
    script = "--wrap=unset SLURM_CONF; scontrol show hostnames; srun --nodes=1 --ntasks=1 --relative=1 hostname"
    job = cluster.submit("--nodes=2", f"--output={tmp_path}/job", script)
    cluster.wait_for_job(job, "COMPLETED", "FAILED")
    assert (tmp_path / "job").read_text().splitlines() == ["n1", "n2", "n2"]


def test_tasks_are_bound_to_cores(cluster: SlurmCluster) -> None:
    ask = "import os; print(*sorted(os.sched_getaffinity(0)))"
    printed = cluster.client("srun", "--nodes=2", "--ntasks-per-node=2", "python3", "-c", ask)
    assert sorted(printed.split()) == ["0", "0", "1", "1"]


def test_nodes_with_more_cores_than_the_machine(start_cluster: Start) -> None:
    """Slurm schedules them, and ignores how tasks are to be bound."""
    with pytest.raises(ValueError, match="binds_tasks=False"):
        ClusterSettings(cpus_per_node=1024)
    many = start_cluster(ClusterSettings(nodes=1, cpus_per_node=16, binds_tasks=False, memory_is_a_resource=True))
    ask = "import os; print(len(os.sched_getaffinity(0)))"
    step = ["srun", "--mem=200", "--cpu-bind=map_cpu:0"]
    printed = many.client(*step, "--ntasks=16", "python3", "-c", ask).split()
    assert printed == [str(len(os.sched_getaffinity(0)))] * 16
    if many.settings.process_tracking == "cgroup":
        with pytest.raises(RuntimeError, match="Out Of Memory"):
            many.client(*step, "python3", "-c", "bytearray(400 << 20)")
    many.stop()


def test_a_partition_refuses_more_than_its_limit(cluster: SlurmCluster) -> None:
    with pytest.raises(RuntimeError, match="time limit"):
        cluster.submit("--partition=short", "--time=10", "--wrap=true")


def test_a_power_cut_ends_all_processes_of_the_node(fragile: SlurmCluster, tmp_path: Path) -> None:
    job = fragile.submit("--nodes=2", "--no-requeue", f"--output={tmp_path}/job", f"--wrap=srun sh -c '{WITH_DAEMON}'")
    for host in fragile.hosts:
        wait_for_processes(fragile, host, ["sleep", "1000"])
    namespaces = set(fragile.namespaces("n2").values())
    pids = [process.pid for process in fragile.processes_on("n2")]
    fragile.kill_node("n2")
    assert not fragile.is_on("n2")
    assert processes_in(namespaces) == []
    assert pids and [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    # Slurm does not know it yet, and the other node is as it was.
    assert fragile.job_state(job) == "RUNNING"
    assert ["sleep", "1000"] in [process.command for process in fragile.processes_on("n1")]
    # By process groups alone Slurm would wait a minute for the one that left its session.
    for process in fragile.processes_on("n1"):
        with suppress(ProcessLookupError):  # it ended with the one before
            os.kill(process.pid, signal.SIGKILL)
    fragile.client("scancel", str(job))
    fragile.restart_node("n2")
    fragile.wait_for_job(job, "CANCELLED", "NODE_FAIL", "FAILED")
    fragile.wait_for_state("idle", *fragile.hosts)
    assert sorted(fragile.client("srun", "--nodes=2", "hostname").split()) == ["n1", "n2"]


def test_jobs_go_on_while_the_controller_is_down(fragile: SlurmCluster, tmp_path: Path) -> None:
    wait = f"until [ -e {tmp_path}/go ]; do sleep 0.1; done; echo went on"
    job = fragile.submit(f"--output={tmp_path}/job", f"--wrap={wait}")
    fragile.wait_for_job(job, "RUNNING")
    fragile.stop_controller()
    assert not fragile.controller_runs()
    with pytest.raises(RuntimeError, match="Unable to contact slurm controller"):
        fragile.client("squeue")
    (tmp_path / "go").touch()
    wait_until(lambda: (tmp_path / "job").read_text() == "went on\n", "the job's output", 20)
    fragile.start_controller()
    fragile.wait_for_job(job, "COMPLETED")


def test_a_cluster_that_a_test_has_left_broken_is_made_whole(fragile: SlurmCluster) -> None:
    """A node that is off, one that Slurm waits for in vain, a job that waits for both."""
    running = fragile.submit("--nodes=1", "--nodelist=n1", "--output=/dev/null", "--wrap=sleep 1000")
    waiting = fragile.submit("--nodes=2", "--output=/dev/null", "--wrap=true")
    wait_for_processes(fragile, "n1", ["sleep", "1000"])
    (daemon,) = fragile.run_on("n1", ["pgrep", "-x", "slurmd"]).stdout.split()
    assert fragile.run_on("n1", ["kill", "-STOP", daemon]).returncode == 0
    fragile.kill_node("n2")
    fragile.make_whole(patience_s=1)
    assert sorted(fragile.client("srun", "--nodes=2", "hostname").split()) == ["n1", "n2"]
    assert {fragile.job_state(job) for job in (running, waiting)} <= {*ENDED}


def test_two_clusters_do_not_meet(cluster: SlurmCluster, fragile: SlurmCluster) -> None:
    assert cluster.login_address != fragile.login_address
    job = fragile.submit("--hold", "--wrap=true")
    assert str(job) in fragile.client("squeue", "--noheader", "--format=%i").split()
    assert cluster.client("squeue", "--noheader", "--format=%i").split() == []
    fragile.client("scancel", str(job))


def test_nothing_is_left_after_stop(start_cluster: Start) -> None:
    cluster = start_cluster(ClusterSettings(nodes=2))
    cluster.submit("--nodes=2", f"--output={cluster.state}/job", f"--wrap=srun sh -c '{WITH_DAEMON}'")
    for host in cluster.hosts:
        wait_for_processes(cluster, host, ["sleep", "1000"])
    namespaces = {identity for host in cluster.hosts for identity in cluster.namespaces(host).values()}
    bridge, state = cluster.bridge.name, cluster.state
    assert processes_in(namespaces) and len(cables(bridge)) == 2
    cluster.stop()
    assert processes_in(namespaces) == []
    assert not Path("/sys/class/net", bridge).exists() and cables(bridge) == []
    assert not state.exists()
    assert str(state) not in Path("/proc/self/mounts").read_text()
    assert [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(state) in _text(path)] == []
    assert cluster.name not in SlurmCluster.running()
    cluster.stop()  # once more does nothing


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has ended
        return ""
