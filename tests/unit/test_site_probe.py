"""What is read of a node, from file systems and outputs as machines have them, and the site file made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fake_schedulers import FakeScheduler
from workflow.cli import doctor
from workflow.launch.allocation import Allocation, Host
from workflow.schedulers.scheduler import QueryError, QueueFact, SchedulerFacts
from workflow.schedulers.slurm import slurm_seconds
from workflow.site.load_site import load_site
from workflow.site.site_probe import (
    Device,
    Gpus,
    LauncherFact,
    ProbedNode,
    answering_scheduler,
    ask_launcher,
    ask_scheduler,
    find_gpus,
    find_interfaces,
    find_nics,
    probe_node,
    scheduler_of,
    site_text,
)
from workflow.site.this_machine import CpuTopology

GIB = 2**30
CORES = tuple(range(64))
# scontrol show partition -o, as Slurm 22.05 prints it, shortened
PARTITIONS = """\
PartitionName=debug AllowGroups=ALL Default=YES MaxNodes=2 MaxTime=00:30:00 MinNodes=0 Nodes=n[1-2] TotalNodes=2
PartitionName=batch Default=NO MaxNodes=UNLIMITED MaxTime=1-12:00:00 MinNodes=4 Nodes=n[1-99] TotalNodes=99
PartitionName=long AllowGroups=ALL Default=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=1 Nodes=n[1-9] TotalNodes=9
"""
NODE = (
    "NodeName=n1 Arch=x86_64 CoresPerSocket=64\n   CPUAlloc=0 CPUTot=128\n   RealMemory=500000 AllocMem=0 Sockets=1\n"
)


def answers(**by_command: str) -> Callable[[Sequence[str]], str]:
    def query(command: Sequence[str]) -> str:
        key = "_".join(command[:3]) if command[0] == "scontrol" else command[0]
        if key.replace("-", "_") not in by_command:
            raise QueryError(f"{command[0]}: No such file or directory")
        return by_command[key.replace("-", "_")]

    return query


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text + "\n")


def test_nvidias_gpus_in_their_order(tmp_path: Path) -> None:
    """Perlmutter's: the first GPU is next to the last cores."""
    buses = ("00000000:03:00.0", "00000000:41:00.0", "00000000:82:00.0", "00000000:C1:00.0")
    for bus, cpus in zip(buses, ("48-63,112-127", "32-47,96-111", "16-31,80-95", "0-15,64-79"), strict=True):
        write(tmp_path, f"bus/pci/devices/0000:{bus[9:].lower()}/local_cpulist", cpus)
    said = "".join(f"NVIDIA A100-SXM4-40GB, {bus}\n" for bus in buses)
    found = find_gpus(CORES, answers(nvidia_smi=said), tmp_path)
    assert found.variable == "CUDA_VISIBLE_DEVICES"
    assert [device.cores for device in found.devices] == [CORES[48:], CORES[32:48], CORES[16:32], CORES[:16]]


def test_amds_gpus(tmp_path: Path) -> None:
    """Two GCDs of Frontier behind a CPU: 0xd100 is d1:00.0."""
    nodes = "class/kfd/kfd/topology/nodes"
    write(tmp_path, f"{nodes}/0/properties", "cpu_cores_count 64\nsimd_count 0\nlocation_id 0")
    write(tmp_path, f"{nodes}/1/properties", "cpu_cores_count 0\nsimd_count 440\nlocation_id 53504\ndomain 0")
    write(tmp_path, f"{nodes}/10/properties", "simd_count 440\nlocation_id 54784\ndomain 0")
    write(tmp_path, "bus/pci/devices/0000:d1:00.0/local_cpulist", "48-55,112-119")
    write(tmp_path, "bus/pci/devices/0000:d6:00.0/local_cpulist", "56-63,120-127")
    found = find_gpus(CORES, answers(), tmp_path)
    assert (found.variable, [each.cores for each in found.devices]) == (
        "ROCR_VISIBLE_DEVICES",
        [CORES[48:56], CORES[56:]],
    )


def test_no_gpus(tmp_path: Path) -> None:
    assert find_gpus(CORES, answers(nvidia_smi="No devices were found\n"), tmp_path) == Gpus()


def test_adapters_and_interfaces(tmp_path: Path) -> None:
    write(tmp_path, "class/infiniband/mlx5_1/device/local_cpulist", "0-63")
    write(tmp_path, "class/infiniband/mlx5_0/device/local_cpulist", "0-7")
    assert find_nics(CORES, tmp_path) == (Device("mlx5_0", CORES[:8]), Device("mlx5_1"))
    write(tmp_path, "class/cxi/cxi0/device/local_cpulist", "nothing")
    assert find_nics(CORES, tmp_path) == (Device("cxi0"),)
    for name, state in (("lo", "unknown"), ("veth1", "up"), ("hsn0", "up"), ("eth0", "down")):
        write(tmp_path, f"class/net/{name}/operstate", state)
    assert find_interfaces(tmp_path) == ["hsn0", "veth1"]
    write(tmp_path, "class/net/hsn0/device/vendor", "0x17db")
    assert find_interfaces(tmp_path) == ["hsn0"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("UNLIMITED", None),
        ("NONE", None),
        ("00:30:00", 1800),
        ("1-12:00:00", 129600),
        ("30:00", 1800),
        ("7-0:0:0", 604800),
    ],
)
def test_times_of_slurm(text: str, seconds: int | None) -> None:
    assert slurm_seconds(text) == seconds


def test_slurms_queues_and_the_memory_of_jobs() -> None:
    query = answers(scontrol_show_partition=PARTITIONS, scontrol_show_node=NODE)
    assert ask_scheduler("slurm", {"SLURMD_NODENAME": "n1"}, query) == SchedulerFacts(
        "slurm", 99, 500000 * 2**20,
        (QueueFact("debug", 1, 2, 1800, True), QueueFact("batch", 4, 99, 129600), QueueFact("long", 1, 9)),
    )  # fmt: skip


def test_what_slurm_does_not_say() -> None:
    found = ask_scheduler(
        "slurm", {"SLURMD_NODENAME": "n1"}, answers(scontrol_show_partition="PartitionName=a MaxTime=x")
    )
    assert (found.queues, found.memory) == ((), 0)
    assert [text.partition(":")[0] for text in found.unknown] == ["queues", "memory that jobs get"]
    assert ask_scheduler("pbs", {}, answers()) == SchedulerFacts("pbs")


def test_which_scheduler() -> None:
    assert scheduler_of("flux", {"sinfo": "/usr/bin/sinfo"}.get) == "flux"
    assert scheduler_of("local", {"pbsnodes": "/opt/pbs/bin/pbsnodes"}.get) == "pbs"
    assert scheduler_of("local", lambda _: None) is None


def test_commands_without_a_scheduler_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a workstation with Slurm's packages: the file that is written loads, and has no scheduler."""
    fake = FakeScheduler(tmp_path / "bin")
    monkeypatch.setenv("PATH", fake.path)
    assert answering_scheduler("local", answers(sinfo="batch*|1|idle")) == ("slurm", "")
    down = "Slurm's commands are here, but it gives no answer: sinfo: No such file or directory"
    assert answering_scheduler("local", answers()) == (None, down)
    assert answering_scheduler("slurm", answers()) == ("slurm", ""), "of a job that is in it"
    facts = probe_node({}, answers())
    text = site_text(facts, "here", "1.2.3")
    assert f"# ? scheduler: NAME   {down}" in text
    assert "under slurm" not in text
    load(text, tmp_path)
    assert load_site("./s.yaml", tmp_path).scheduler is None
    fake.answer("sinfo", {"stderr": "slurm_load_partitions: Unable to contact slurm controller\n", "code": 1})
    (note,) = [each for each in doctor._site_and_allocation() if each.name == "batch job"]
    assert note.hint.startswith("Slurm's commands are here, but it gives no answer: sinfo failed")


@pytest.mark.parametrize(
    ("scheduler", "said", "found"),
    [
        (
            "slurm",
            {"srun": "slurm 24.05.4\n", "mpiexec": "HYDRA build details:\n    Version: 4.2\n"},
            ("srun", "24.05.4"),
        ),
        ("slurm", {"mpiexec": "mpiexec (OpenRTE) 4.1.5\n"}, ("openmpi", "4.1.5")),
        ("pbs", {"mpiexec": "PALS mpiexec version 1.4.0\n"}, ("pals", "1.4.0")),
        (None, {"mpiexec": "HYDRA build details:\n    Version:            4.2.1\n"}, ("mpiexec", "4.2.1")),
        ("flux", {"flux": "commands: \t\t0.66.0\n"}, ("flux", "0.66.0")),
        (None, {}, ("mpiexec", "")),
    ],
)
def test_which_launcher(scheduler: str | None, said: dict[str, str], found: tuple[str, str]) -> None:
    assert ask_launcher(scheduler, answers(**said)) == LauncherFact(*found)


FRONTIER = ProbedNode(
    host="frontier00001", allocation=Allocation("slurm", "7", (Host("frontier00001", 56),)),
    cpus=CpuTopology(
        CORES, 2, tuple(CORES[i : i + 16] for i in range(0, 64, 16)), tuple(CORES[i : i + 8] for i in range(0, 64, 8)),
        tuple(core for core in CORES if core % 8),
    ),
    memory=500 * GIB,
    gpus=Gpus((Device("AMD GPU", CORES[48:56]), Device("AMD GPU", (0, 1, 4))), "ROCR_VISIBLE_DEVICES"),
    nics=(Device("cxi0", CORES[48:]), Device("cxi1", CORES[:16])), interfaces=("hsn0",),
    scheduler=SchedulerFacts("slurm", 99, 0, (QueueFact("debug", 1, 2, 1800, True), QueueFact("long"))),
    launcher=LauncherFact("srun", "24.05.4"), fabric=True, glibc="2.31", memory_policy=("keep_freed",),
    planes=("tcp", "rdma"), parallel_adios2=True, cluster="frontier",
)  # fmt: skip
BARE = replace(
    FRONTIER, allocation=Allocation("local", "", (Host("laptop", 2),)), cpus=CpuTopology((0, 1), 1, (), (), (0, 1)),
    memory=4 * GIB + 1, gpus=Gpus(), nics=(), interfaces=(), scheduler=SchedulerFacts(), launcher=LauncherFact(),
    fabric=False, glibc="", memory_policy=(), planes=(), parallel_adios2=None, cluster="",
)  # fmt: skip


def load(text: str, folder: Path) -> None:
    (folder / "s.yaml").write_text(text)


def test_the_file_of_a_node_with_all_parts_loads(tmp_path: Path) -> None:
    text = site_text(FRONTIER, "mine", "1.2.3")
    load(text, tmp_path)
    site = load_site("./s.yaml", tmp_path)
    assert (site.site, site.nodes, site.cores_per_node, site.threads_per_core) == ("mine", 99, 64, 2)
    assert (site.memory_per_node, site.launcher, site.launcher_version) == (500 * GIB, "srun", "24.05.4")
    assert [(gpu.cores, gpu.nic) for gpu in site.gpus] == [(CORES[48:56], "cxi0"), ((0, 1, 4), "cxi1")]
    assert (list(site.numa), len(site.l3)) == ([CORES[i : i + 16] for i in range(0, 64, 16)], 8)
    assert (site.queues["debug"].walltime, site.queues["debug"].default, site.queues["long"].nodes) == (
        1800,
        True,
        None,
    )
    assert (site.planes, site.parallel_adios2, site.fabric) == (["tcp", "rdma"], True, True)
    assert site.detect[0].value == "frontier"
    assert "\n# reserved_cores: 0,8,16,24,32,40,48,56" in text, "it may be the job that did not ask for them"


def test_the_file_of_a_bare_machine_loads(tmp_path: Path) -> None:
    load(site_text(BARE, "mine", "1.2.3"), tmp_path)
    site = load_site("./s.yaml", tmp_path)
    assert (site.cores_per_node, site.memory_per_node, site.scheduler, site.gpus_per_node) == (2, 4 * GIB, None, 0)
    assert site.nodes == 1, "a plan for more nodes would need a batch job, which nobody gives here"
    assert not BARE.in_job


def test_gpus_whose_cores_are_not_known(tmp_path: Path) -> None:
    gpus = Gpus((Device("NVIDIA A100"), Device("NVIDIA A100")), "CUDA_VISIBLE_DEVICES")
    load(site_text(replace(FRONTIER, gpus=gpus), "mine", "1.2.3"), tmp_path)
    site = load_site("./s.yaml", tmp_path)
    assert (site.gpus_per_node, site.gpus, site.gpu_variable) == (2, [], "CUDA_VISIBLE_DEVICES")


def test_this_node(tmp_path: Path) -> None:
    """Whatever runs the tests: its facts make a file that loads, with as many cores as Linux has."""
    facts = probe_node({})
    load(site_text(facts, "here", "1.2.3"), tmp_path)
    site = load_site("./s.yaml", tmp_path)
    assert site.cores_per_node == len(facts.cpus.cores) >= 1
    assert set(facts.cpus.allowed) <= set(facts.cpus.cores)
