"""Nodes and cores."""

from __future__ import annotations

import pytest

from tests.support.planner import SITE, Planner, line_of
from workflow.errors import SpecError
from workflow.plan.plan_model import Plan

CLUSTER = SITE.model_copy(
    update={"site": "cluster", "nodes": 4, "cores_per_node": 8, "launcher": "srun", "launch_single": True}
)


def cores(plan: Plan) -> list[list[int]]:
    return [stage.placement.cores for stage in plan.stages]


def nodes(plan: Plan) -> list[tuple[int, int]]:
    return [stage.placement.nodes[0] for stage in plan.stages]


def test_stages_of_one_node_get_different_cores(plan_of: Planner) -> None:
    assert cores(plan_of(sets=("stages.walk.ranks=3",))) == [[0, 1, 2], [3], []]
    assert cores(plan_of(sets=("stages.walk.place.cores_per_rank=2", "stages.keep.place.cores_per_rank=1"))) == [
        [0, 1], [2], [3],
    ]  # fmt: skip


def test_stages_that_follow_each_other_may_use_the_same_cores(plan_of: Planner) -> None:
    plan = plan_of(via="bp5", sets=("stages.walk.ranks=4", "stages.count.ranks=2"))
    assert cores(plan) == [[0, 1, 2, 3], [0, 1], []]
    assert plan.stage("walk").placement.ranks_per_node == 4


def test_the_sum_is_shown_and_the_way_out(plan_of: Planner) -> None:
    with pytest.raises(SpecError) as caught:
        plan_of(sets=("stages.walk.ranks=3", "stages.count.ranks=2"))
    (problem,) = caught.value.problems
    assert problem.message == (
        "5 cores are needed at the same time, site test has 4: walk 3 ranks × 1 core, count 2 ranks × 1 core"
    )
    assert "--set oversubscribe=true" in problem.hint
    assert "--set stages.walk.ranks=N" in problem.hint


def test_oversubscribed_stages_are_bound_nowhere(plan_of: Planner) -> None:
    plan = plan_of(sets=("oversubscribe=true", "stages.walk.ranks=3", "stages.count.ranks=2"))
    assert cores(plan) == [[], [], []]
    assert any("5 cores are asked for and site test has 4" in line for line in plan.advice)
    assert plan.stage("count").placement.cores_per_rank == 1
    fits = plan_of(sets=("oversubscribe=true",))
    assert cores(fits) == [[0], [1], []]
    assert fits.advice == []


def test_stages_get_nodes_of_their_own_and_sinks_sit_beside_their_writer(plan_of: Planner) -> None:
    plan = plan_of(sets=("stages.walk.ranks=16",), site=CLUSTER)
    assert nodes(plan) == [(0, 2), (2, 3), (2, 3)]
    assert cores(plan) == [list(range(8)), [0], []]
    assert plan.stage("walk").placement.ranks_per_node == 8
    assert line_of(plan, "walk")[:5] == [
        "srun", "--ntasks=16", "--nodes=2", "--ntasks-per-node=8", "--relative=0",
    ]  # fmt: skip


def test_share_is_the_same_nodes_and_other_cores(plan_of: Planner) -> None:
    sets = (
        "stages.walk.ranks=12",
        "stages.walk.place.nodes=3",
        "stages.count.ranks=6",
        "stages.count.place.share=walk",
    )
    plan = plan_of(sets=sets, site=CLUSTER)
    assert nodes(plan) == [(0, 3), (0, 3), (0, 1)]
    assert cores(plan) == [[0, 1, 2, 3], [4, 5], []]
    assert plan.stage("count").placement.ranks_per_node == 2
    assert plan.reasons["stages.count.nodes"] == "3 nodes shared with walk, 2 ranks on each"


def test_shared_nodes_can_be_too_full(plan_of: Planner) -> None:
    sets = ("stages.walk.ranks=8", "stages.count.ranks=2", "stages.count.place.share=walk")
    with pytest.raises(SpecError, match="10 cores are needed at the same time, site cluster has 8 on a node"):
        plan_of(sets=sets, site=CLUSTER)
    plan = plan_of(sets=(*sets, "oversubscribe=true"), site=CLUSTER)
    assert cores(plan) == [[], [], []]


def test_nodes_are_used_again_by_stages_that_follow(plan_of: Planner) -> None:
    sets = ("stages.walk.ranks=32", "stages.count.ranks=32")
    plan = plan_of(via="bp5", sets=sets, site=CLUSTER)
    assert nodes(plan) == [(0, 4), (0, 4), (0, 1)]
    with pytest.raises(
        SpecError, match="needs 4 nodes of its own, but stages that run at the same time have 4 of the 4"
    ):
        plan_of(sets=sets, site=CLUSTER)
    crowded = plan_of(sets=(*sets, "oversubscribe=true"), site=CLUSTER)
    assert nodes(crowded)[:2] == [(0, 4), (0, 4)]
    assert cores(crowded) == [[], [], []]
    assert any("stage count is on nodes that other stages use" in line for line in crowded.advice)


def test_more_than_the_whole_site(plan_of: Planner) -> None:
    with pytest.raises(SpecError, match=r"33 ranks × 1 core = 33 cores, site cluster has 4 nodes × 8 cores = 32"):
        plan_of(sets=("stages.walk.ranks=33",), site=CLUSTER)
    plan = plan_of(sets=("stages.walk.ranks=33", "oversubscribe=true"), site=CLUSTER)
    assert plan.stage("walk").placement.ranks_per_node == 9
    assert plan.stage("walk").placement.cores == []
    with pytest.raises(SpecError, match="site cluster has 4 nodes, not 5"):
        plan_of(sets=("stages.walk.ranks=8", "stages.walk.place.nodes=5"), site=CLUSTER)
    with pytest.raises(SpecError, match="2 nodes for 1 rank"):
        plan_of(sets=("stages.walk.place.nodes=2",), site=CLUSTER)


def test_chain_of_sharing(plan_of: Planner) -> None:
    sets = ("stages.count.place.share=walk", "stages.keep.place={share: count, cores_per_rank: 1}")
    plan = plan_of(sets=sets, site=CLUSTER)
    assert nodes(plan) == [(0, 1)] * 3
    assert cores(plan) == [[0], [1], [2]]
    with pytest.raises(SpecError, match="walk → count → walk: none of these stages has nodes of its own"):
        plan_of(sets=("stages.count.place.share=walk", "stages.walk.place.share=count"), site=CLUSTER)


def test_a_guest_takes_no_more_nodes_than_its_host_has(plan_of: Planner) -> None:
    sets = ("stages.count.place={share: walk, nodes: 2}", "stages.count.ranks=2")
    with pytest.raises(SpecError, match="walk has 1 node to share, not 2"):
        plan_of(sets=sets, site=CLUSTER)


@pytest.mark.parametrize(
    ("ranks", "cores_per_rank", "expected", "per_node"),
    [(4, 8, (0, 4), 1), (8, 4, (0, 4), 2), (4, 4, (0, 2), 2), (5, 3, (0, 3), 2), (3, 5, (0, 3), 1), (9, 1, (0, 2), 5)],
)
def test_ranks_of_several_cores_get_as_many_nodes_as_they_need(
    plan_of: Planner, ranks: int, cores_per_rank: int, expected: tuple[int, int], per_node: int
) -> None:
    sets = (
        f"stages.walk.ranks={ranks}", f"stages.walk.place.cores_per_rank={cores_per_rank}",
        "stages.count.place.cores_per_rank=0",
    )  # fmt: skip
    plan = plan_of(sets=sets, site=CLUSTER)
    assert nodes(plan)[0] == expected
    assert plan.stage("walk").placement.ranks_per_node == per_node


def test_ranks_of_several_cores_that_exceed_the_site(plan_of: Planner) -> None:
    message = r"17 ranks × 2 cores = 34 cores, site cluster has 4 nodes × 8 cores = 32"
    sets = ("stages.walk.ranks=17", "stages.walk.place.cores_per_rank=2", "stages.count.place.share=walk")
    with pytest.raises(SpecError, match=message):
        plan_of(sets=sets, site=CLUSTER)


def test_a_stage_that_starts_later_uses_the_first_gap_that_is_large_enough(plan_of: Planner) -> None:
    """walk holds node 0, and there is no gap before it: count gets the nodes behind it, keep the one that is left."""
    sets = (
        "stages.walk.ranks=8", "stages.count.ranks=16", "stages.keep.place={nodes: 1, cores_per_rank: 1}",
    )  # fmt: skip
    assert nodes(plan_of(sets=sets, site=CLUSTER)) == [(0, 1), (1, 3), (3, 4)]
