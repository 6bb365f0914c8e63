"""Cores of the plan → cores of this machine; what is refused where it lacks them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.chains import make_plan, make_stage, write_run
from tests.support.planner import with_launcher
from workflow.core_set import CoresMissingError, real_cores
from workflow.errors import RunError
from workflow.launch.allocation import Allocation, Host
from workflow.launch.launchers import ProcessSpec
from workflow.plan.placement.nodes import node_plan
from workflow.plan.plan_model import LaunchPlan, NodePlan, Placement
from workflow.run.processes.stage_processes import StageProcesses
from workflow.run.run_allocation import granted_nodes
from workflow.run.supervisor import supervise

needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no binding on this system")
SHOW = "import os; print(sorted(os.sched_getaffinity(0)))"
HERE = Allocation("local", "", (Host("here"),))


def test_numbers_are_those_of_the_plan_where_all_of_them_may_be_used() -> None:
    assert real_cores([1, 2], [0, 1, 2, 3], by_index=True) == [1, 2]
    assert real_cores([1, 2], [1, 2], by_index=False) == [1, 2]
    assert real_cores([], [3], by_index=True) == []


def test_all_stages_are_counted_in_one_way() -> None:
    """Core 1 may be used here, but core 0 of another stage may not: both are counted among those that may."""
    assert real_cores([0, 1], [1, 2], by_index=True) == [1, 2]


@pytest.mark.parametrize(
    ("planned", "by_index", "message"),
    [
        ([0, 1, 2, 3], True, "the plan has core 2, 3, and cores that may be used here are 3, 5"),
        ([1, 3], False, "the plan has core 1, and cores that may be used here are 3, 5"),
        (range(64), True, "the plan has core 2, 3, 4, 5, 6, 7, 8, 9, …, and cores that may be used here are 3, 5"),
    ],
)
def test_a_core_that_is_not_there_is_refused(planned: range | list[int], by_index: bool, message: str) -> None:
    with pytest.raises(CoresMissingError) as caught:
        real_cores(planned, [3, 5], by_index)
    assert str(caught.value) == message


@needs_affinity
def test_a_process_is_bound(tmp_path: Path) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    spec = ProcessSpec("sim", [sys.executable, "-c", SHOW], tmp_path, str(tmp_path), "none", cores=allowed[-1:])
    with StageProcesses(tmp_path) as processes:
        processes.start(spec)
        assert processes.wait(60) == ["sim"]
        processes.collect("sim")
    assert (tmp_path / "stdout.log").read_text() == f"{allowed[-1:]}\n"
    assert sorted(os.sched_getaffinity(0)) == allowed


SITE_KEYS = "correct `cores_per_node` and `reserved_cores` of site local, or ask for whole nodes"


@needs_affinity
@pytest.mark.parametrize(
    ("kept", "hint"),
    [
        ({}, SITE_KEYS),
        ({"reserved": [0]}, SITE_KEYS),
        (
            {"others": [0]},
            "other runs use the same nodes: give each repetition whole ones with `side_by_side: nodes`",
        ),
    ],
)
def test_a_run_whose_cores_are_not_there_does_not_start(tmp_path: Path, kept: dict[str, list[int]], hint: str) -> None:
    cores = Placement(nodes=[(0, 1)], ranks_per_node=1, cores=[4095], cores_per_rank=1)
    plan = make_plan([make_stage("md", [sys.executable, "-c", SHOW], placement=cores)])
    node = NodePlan(cores=4096, **kept)
    run_dir = write_run(plan.model_copy(update={"node": node}), tmp_path)
    with pytest.raises(RunError, match="this is not what the plan asks for: the plan has core 4095") as caught:
        list(supervise(run_dir, HERE))
    assert caught.value.hint == hint
    assert not (run_dir / "stages/md/stdout.log").exists()


@needs_affinity
def test_cores_on_other_nodes_keep_their_numbers() -> None:
    """srun binds there; what this process may use says nothing of it."""
    far = Placement(nodes=[(0, 1)], ranks_per_node=1, cores=[4095], cores_per_rank=1)
    stage = make_stage("md", ["prog"], placement=far, launch=LaunchPlan(launcher="srun", executable="srun"))
    received = granted_nodes(make_plan([stage]), HERE)
    assert received.cores_of(stage) == [4095]


def test_a_part_of_a_node_is_noticed() -> None:
    site = with_launcher("srun", cores_per_node=8, reserved_cores=(0,))
    plan = make_plan([make_stage("md", ["prog"])]).model_copy(update={"node": node_plan(site)})
    for cores, whole in ((8, True), (7, True), (16, True), (6, False), (None, True)):
        assert granted_nodes(plan, Allocation("slurm", "1", (Host("a", cores),))).whole_nodes is whole


def test_a_part_of_a_node_is_noticed_where_hardware_threads_are_counted() -> None:
    node = node_plan(with_launcher("srun", cores_per_node=64, threads_per_core=2))
    plan = make_plan([make_stage("md", ["prog"])]).model_copy(update={"node": node})
    for counted, whole in ((128, True), (64, False), (127, False)):
        received = granted_nodes(plan, Allocation("slurm", "1", (Host("a", counted),), counts_threads=True))
        assert (received.whole_nodes, received.cpus_per_core) == (whole, 2)
    received = granted_nodes(plan, Allocation("slurm", "1", (Host("a", 64),)))
    assert (received.whole_nodes, received.cpus_per_core) == (True, 1)
