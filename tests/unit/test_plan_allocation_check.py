"""Received = requested: which plans are refused on which allocation, and what is said of the others."""

from __future__ import annotations

import dataclasses

import pytest

from tests.support.planner import CHAIN, SITE, Planner
from workflow.errors import Problem
from workflow.launch.allocation import Allocation, Host
from workflow.plan.batch_job import NodeNeed, allocation_problems, node_needs
from workflow.plan.plan_model import Plan
from workflow.site.site_model import Site

NOW = 1000.0
MACHINE = SITE.model_copy(update={"nodes": 8, "cores_per_node": 16, "launcher": "srun", "launch_single": True})
# walk on nodes 0 and 1 with 5 cores on each, count on node 2, keep beside it without cores
THREE = ("stages.walk.ranks=10", "stages.walk.place.nodes=2")


def job(count: int, cores: int | None = 16, memory: int | None = None, gpus: int | None = None) -> Allocation:
    return Allocation("slurm", "77", tuple(Host(f"n{i}", cores, memory, gpus) for i in range(1, count + 1)))


@pytest.fixture
def plan(plan_of: Planner) -> Plan:
    return plan_of(sets=THREE, site=MACHINE)


def said(plan: Plan, allocation: Allocation, site: Site | None = MACHINE, suggestion: str = "") -> list[Problem]:
    return allocation_problems(plan, allocation, NOW, site, suggestion)


def test_what_each_node_is_needed_for(plan: Plan) -> None:
    needs = [(need.first, need.end, need.cores, need.gpus) for need in node_needs(plan)]
    assert needs == [(0, 2, 5, 0), (2, 3, 1, 0)]


def test_an_allocation_that_fits_says_nothing(plan: Plan) -> None:
    assert said(plan, job(3)) == []
    assert said(plan, job(3, cores=None)) == []
    assert said(plan, job(3, cores=32)) == [], "hardware threads"


def test_fewer_nodes(plan: Plan) -> None:
    (problem,) = said(plan, job(2))
    assert str(problem) == (
        "error: the plan needs 3 nodes, and Slurm job 77 has 2: n1, n2\n"
        "  ask for 3: `sbatch --nodes=3` or `salloc -N3`; "
        "or let stages share nodes: `--set stages.STAGE.place.share=OTHER`"
    )


def test_no_job_at_all(plan: Plan) -> None:
    (problem,) = said(plan, Allocation("local", "", (Host("laptop", 2),)))
    assert problem.level == "error"
    assert problem.message == (
        "the plan needs 3 nodes, but wf does not run inside a batch job: it has only this machine"
    )


def test_a_job_whose_hosts_are_not_known(plan: Plan) -> None:
    (problem,) = said(plan, Allocation("local", "", (), notes=("PBS_NODEFILE=/x: Permission denied",)))
    assert (problem.level, problem.message) == ("error", "PBS_NODEFILE=/x: Permission denied")


def test_fewer_cores_than_the_plan_uses(plan: Plan) -> None:
    hosts = (*job(2).hosts[:1], Host("n2", 4), Host("n3", 1))
    (problem,) = said(plan, dataclasses.replace(job(3), hosts=hosts))
    assert str(problem) == (
        "error: the plan uses 5 cores on a node, and Slurm job 77 has 4 on n2\n"
        "  ask for whole nodes: `sbatch --exclusive`, and `-S 0` where the site reserves cores; or use fewer ranks"
    )


def test_fewer_cores_than_the_site_has(plan: Plan) -> None:
    (problem,) = said(plan, job(3, cores=8))
    assert str(problem) == (
        "note: Slurm job 77 has 8 cores of a node, where site test has 16; the plan uses no more\n"
        "  for whole nodes: `sbatch --exclusive`, and `-S 0` where the site reserves cores"
    )
    reserved = MACHINE.model_copy(update={"reserved_cores": tuple(range(8))})
    assert said(plan, job(3, cores=8), reserved) == []


def test_hardware_threads_are_not_cores(plan: Plan) -> None:
    """What Slurm counts on nodes with two of them a core."""
    site = MACHINE.model_copy(update={"threads_per_core": 2})
    plan = plan.model_copy(update={"node": plan.node.model_copy(update={"threads_per_core": 2})})
    threads = dataclasses.replace(job(3, cores=32), counts_threads=True)
    assert said(plan, threads, site) == []
    (note,) = said(plan, dataclasses.replace(threads, hosts=job(3, cores=16).hosts), site)
    assert note.message.startswith("Slurm job 77 has 8 cores of a node, where site test has 16")
    (error,) = said(plan, dataclasses.replace(threads, hosts=job(3, cores=8).hosts), site)
    assert error.message == "the plan uses 5 cores on a node, and Slurm job 77 has 4 on n1, n2"
    assert said(plan, job(3, cores=16), site) == [], "Slurm counts cores there"


def test_fewer_gpus(plan_of: Planner) -> None:
    site = MACHINE.model_copy(update={"gpus_per_node": 4})
    plan = plan_of(sets=("stages.walk.ranks=3",), site=site)
    walk = plan.stage("walk").model_copy(
        update={"placement": plan.stage("walk").placement.model_copy(update={"gpus": [0, 1, 2], "gpus_per_rank": 1})}
    )
    plan = plan.model_copy(update={"stages": [walk, *plan.stages[1:]]})
    assert said(plan, job(2, gpus=4), site) == []
    assert said(plan, job(2, gpus=None), site) == []
    (problem,) = said(plan, job(2, gpus=2), site)
    assert str(problem) == (
        "error: the plan uses 3 GPUs on a node, and Slurm job 77 has 2 on n1\n"
        "  ask for them: `sbatch --gpus-per-node=3`; or set `gpus_per_rank: 0`"
    )


def test_less_memory(plan_of: Planner) -> None:
    plan = plan_of(sets=(*THREE, "streams.positions.step_size=1 GiB"), site=MACHINE)
    held = max(need.memory for need in node_needs(plan))
    assert held >= 2**30
    (problem,) = said(plan, job(3, memory=2**30 // 2))
    assert problem.level == "error"
    assert problem.message.startswith("the queues of the streams may hold ")
    (note,) = said(plan, job(3, memory=held))
    assert (note.level, note.message.startswith("Slurm job 77 has ")) == ("note", True)
    assert said(plan, job(3, memory=int(0.95 * MACHINE.memory_per_node))) == []


@pytest.mark.parametrize(
    ("end", "level", "message"),
    [
        (NOW - 1, "error", "Slurm job 77 has ended"),
        (NOW + 60, "warning", "Slurm job 77 ends in 60.0 s, before the run's own limit of 10 min 00 s"),
    ],
)
def test_too_little_time(plan_of: Planner, end: float, level: str, message: str) -> None:
    plan = plan_of(CHAIN + "deadlines: {run: 10 min}\n", sets=THREE, site=MACHINE)
    (problem,) = said(plan, dataclasses.replace(job(3), end_time=end))
    assert (problem.level, problem.message) == (level, message)
    assert said(plan, dataclasses.replace(job(3), end_time=NOW + 700)) == []


def test_nodes_that_stay_idle(plan: Plan, plan_of: Planner) -> None:
    (note,) = said(plan, job(5))
    assert (note.level, note.message) == (
        "note", "Slurm job 77 has 5 nodes, and the plan for site test uses 3: 2 stay idle",
    )  # fmt: skip
    (warning,) = said(plan_of(site=SITE), job(2), SITE, suggestion="slurm")
    assert str(warning) == (
        "warning: Slurm job 77 has 2 nodes, and the plan for site test uses 1: 1 stays idle\n  use them: `--site slurm`"
    )


def test_what_was_asked_for(plan_of: Planner) -> None:
    """More than the stages need: spare nodes, and a time."""
    site = MACHINE.model_copy(update={"scheduler": "slurm"})
    plan = plan_of(CHAIN + "allocation: {nodes: 5, walltime: 2 h}\n", sets=THREE, site=site)
    whole = dataclasses.replace(job(5), end_time=NOW + 7190)
    assert said(plan, whole, site) == []
    (nodes,) = said(plan, dataclasses.replace(whole, hosts=job(4).hosts), site)
    assert (nodes.level, nodes.message) == ("note", "Slurm job 77 has 4 nodes, and 5 were requested; the stages need 3")
    (time,) = said(plan, dataclasses.replace(whole, end_time=NOW + 3600), site)
    assert (time.level, time.message) == (
        "note", "Slurm job 77 ends in 1 h 00 min, and 2 h 00 min were requested",
    )  # fmt: skip
    default = plan_of(sets=THREE, site=site)
    assert said(default, dataclasses.replace(job(3), end_time=NOW + 60), site) == [], "nobody asked for a time"


def test_many_stages_cost_little(plan: Plan) -> None:
    """Each on nodes of its own: what is compared grows with the stages, not with their pairs."""
    (walk, *_) = plan.stages
    stages = [
        walk.model_copy(
            update={"name": f"s{i}", "placement": walk.placement.model_copy(update={"nodes": [(2 * i, 2 * i + 2)]})}
        )
        for i in range(2000)
    ]
    needs = node_needs(plan.model_copy(update={"stages": stages, "streams": []}))
    assert needs[0] == NodeNeed(0, 2, 5, 0, 0)
    assert len(needs) == 2000
