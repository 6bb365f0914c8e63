"""Where the facts of a site come from: its file, the allocation, this machine, or nowhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.planner import SITE, Planner
from workflow.launch.allocation import Allocation, Host
from workflow.site import load_site as loading
from workflow.site.load_site import load_site
from workflow.site.queue_model import Detect, Workaround
from workflow.site.site_model import is_recognised
from workflow.site.this_machine import CpuTopology, cpu_topology

FOUR = Allocation(
    "slurm", "7", tuple(Host(f"n{i}", 8 if i == 2 else 16, (4 + i) * 2**30) for i in range(1, 5)), counts_threads=True
)


def node(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Every node has so many threads per core."""
    monkeypatch.setattr(loading, "cpu_topology", lambda: CpuTopology((0,), threads, (), (), (0,)))


def test_a_generic_site_is_the_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    node(monkeypatch, 1)
    site = load_site("slurm", allocation=FOUR)
    assert (site.nodes, site.cores_per_node, site.memory_per_node) == (4, 8, 5 * 2**30)


def test_schedulers_may_count_hardware_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    node(monkeypatch, 2)
    site = load_site("slurm", allocation=FOUR)
    assert (site.cores_per_node, site.threads_per_core) == (4, 2)


def test_a_known_machine_keeps_its_node_and_has_the_nodes_of_the_allocation() -> None:
    site = load_site("frontier", allocation=FOUR)
    assert (site.nodes, site.cores_per_node, site.memory_per_node) == (4, 64, 512 * 10**9)
    assert load_site("frontier").nodes == 9472
    assert load_site("local", allocation=FOUR).nodes == 1


def test_outside_of_an_allocation_there_are_as_many_nodes_as_needed() -> None:
    here = Allocation("local", "", (Host("laptop", 2),))
    site = load_site("slurm", allocation=here)
    assert (site.nodes, site.cores_per_node) == (loading.MANY_NODES, len(os.sched_getaffinity(0)))
    assert site.seen["cores_per_node"] == "this machine, because wf is not inside a job"
    assert "cores_per_node" not in load_site("slurm", allocation=FOUR).seen
    assert "cores_per_node" not in load_site("local", allocation=here).seen


def test_cores_that_were_taken_from_this_machine_are_said(plan_of: Planner) -> None:
    seen = {"cores_per_node": "this machine, because wf is not inside a job"}
    advice = plan_of(site=SITE.model_copy(update={"seen": seen})).advice
    assert any(
        line.startswith("site test does not say what a node has: its cores and memory are taken") for line in advice
    )
    assert not any("does not say what a node has" in line for line in plan_of().advice)


def test_what_this_machine_has_says_nothing_about_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LMOD_SYSTEM_NAME", raising=False)
    there = load_site("frontier")
    assert (there.planes, there.parallel_adios2, there.memory_policy, there.glibc) == ([], None, [], "")
    assert (there.launcher_path, there.seen) == ("srun", {})
    monkeypatch.setenv("LMOD_SYSTEM_NAME", "frontier")
    here = load_site("frontier")
    assert here.glibc == load_site("local").glibc
    assert here.seen.keys() >= {"planes", "memory_policy"}


@pytest.mark.parametrize(
    ("way", "environ", "host", "found"),
    [
        (Detect(variable="V", value="x"), {"V": "x"}, "h", True),
        (Detect(variable="V", value="x"), {"V": "xy"}, "h", False),
        (Detect(variable="V", value="*.pbs-*"), {"V": "1.pbs-2"}, "h", True),
        (Detect(variable="V"), {"V": ""}, "h", True),
        (Detect(variable="V"), {}, "h", False),
        (Detect(host="Login*.x.org"), {}, "login07.X.org", True),
        (Detect(host="login*"), {}, "n1", False),
        (Detect(variable="V", host="n*"), {"V": "1"}, "m1", False),
    ],
)
def test_how_a_machine_is_recognised(way: Detect, environ: dict[str, str], host: str, found: bool) -> None:
    assert is_recognised([way], environ, host) is found
    assert is_recognised([Detect(variable="NONE"), way], environ, host) is found


def test_no_way_is_no_recognition() -> None:
    assert not is_recognised([], {"V": "x"}, "h")


def test_workarounds_reach_the_stages_that_they_are_for(plan_of: Planner) -> None:
    kinds = ("always", "mpi", "stream", "symptom")
    found = [Workaround(env={kind.upper(): "1"}, reason="it hangs", source="a page", when=kind) for kind in kinds]
    site = SITE.model_copy(update={"workarounds": [*found, Workaround(env={"B": "1"}, reason="r")], "env": {"B": "2"}})
    plan = plan_of(via="sst", sets=("streams.counts.via=bp5", "stages.walk.ranks=2"), site=site)
    names = {"ALWAYS", "MPI", "STREAM", "SYMPTOM"}
    assert {stage.name: stage.env.keys() & names for stage in plan.stages} == {
        "walk": {"ALWAYS", "MPI", "STREAM"}, "count": {"ALWAYS", "STREAM"}, "keep": {"ALWAYS"},
    }  # fmt: skip
    assert plan.stage("keep").env["B"] == "2"
    assert plan.reasons["stages.keep.env.ALWAYS"] == "site test: it hangs (a page)"
    assert plan.reasons["stages.keep.env.B"] == "site test sets it"


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text + "\n")


def test_cores_as_linux_numbers_them(tmp_path: Path) -> None:
    """Two NUMA domains, one L3 cache each, two threads per core: core n has the threads n and n + 4."""
    for cpu in range(8):
        core = cpu % 4
        write(tmp_path, f"cpu/cpu{cpu}/topology/thread_siblings_list", f"{core},{core + 4}")
        write(tmp_path, f"cpu/cpu{cpu}/cache/index3/shared_cpu_list", "0-1,4-5" if core < 2 else "2-3,6-7")
    write(tmp_path, "node/node0/cpulist", "0-1,4-5")
    write(tmp_path, "node/node1/cpulist", "2-3,6-7")
    write(tmp_path, "node/node2/cpulist", "")  # memory without cores
    found = cpu_topology(tmp_path, allowed=[5, 2, 6])
    assert found == CpuTopology((0, 1, 2, 3), 2, ((0, 1), (2, 3)), ((0, 1), (2, 3)), (1, 2))


def test_cores_where_the_system_tells_nothing(tmp_path: Path) -> None:
    assert cpu_topology(tmp_path, allowed=[3, 1]) == CpuTopology((1, 3), 1, (), (), (1, 3))
