"""Nodes and cores."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.planner import SITE, Planner, line_of, with_launcher
from workflow.errors import SpecError
from workflow.plan.placement.nodes import (
    Demand,
    Range,
    node_count,
    node_plan,
    nodes_needed,
    nodes_text,
    place_nodes,
    share_one_node,
)
from workflow.plan.plan_model import NodePlan, Placement, Plan
from workflow.plan.plan_notes import Notes, Problems
from workflow.site.queue_model import SiteCost
from workflow.site.site_model import Site
from workflow.spec.origins import Origins
from workflow.spec.yaml_tree.node import Node, SourcePosition

CLUSTER = with_launcher("srun", site="cluster", nodes=4, cores_per_node=8, launch_single=True)
TWO_NODES = CLUSTER.model_copy(update={"nodes": 2})


def cores(plan: Plan) -> list[list[int]]:
    return [stage.placement.cores for stage in plan.stages]


def nodes(plan: Plan) -> list[tuple[int, int]]:
    return [stage.placement.nodes[0] for stage in plan.stages]


def placement_reasons(plan: Plan) -> dict[str, str]:
    return {key: reason for key, reason in plan.reasons.items() if key.endswith((".cores", ".nodes"))}


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


@pytest.mark.parametrize(("others", "has"), [([2, 3], "2 usable"), ([0, 1, 2, 3], "0 usable")])
def test_cores_that_other_runs_use_are_named(others: list[int], has: str, plan_of: Planner) -> None:
    site = SITE.model_copy(update={"others": others})
    with pytest.raises(SpecError) as caught:
        plan_of(sets=("stages.walk.ranks=4", "stages.count.place.cores_per_rank=0"), site=site)
    (problem,) = caught.value.problems
    used = f"site test has {has}, and other runs use {len(others)} cores"
    assert problem.message == f"4 cores are needed at the same time, {used}: walk 4 ranks × 1 core"


def test_one_core_is_needed(plan_of: Planner) -> None:
    site = SITE.model_copy(update={"others": [0, 1, 2, 3]})
    with pytest.raises(SpecError, match=": 1 core is needed at the same time, site test has 0 usable"):
        plan_of(stages_of(one="ranks: 1"), site=site)


@pytest.mark.parametrize(("count", "more"), [(6, ""), (7, ", and 1 more stage"), (8, ", and 2 more stages")])
def test_six_of_the_stages_that_want_too_many_cores_are_named(count: int, more: str, plan_of: Planner) -> None:
    with pytest.raises(SpecError) as caught:
        plan_of(stages_of(**{f"s{index}": "ranks: 1" for index in range(count)}))
    named = ", ".join(f"s{index} 1 rank × 1 core" for index in range(6))
    (problem,) = caught.value.problems
    assert problem.message == f"{count} cores are needed at the same time, site test has 4: {named}{more}"


def test_oversubscribed_stages_are_bound_nowhere(plan_of: Planner) -> None:
    plan = plan_of(sets=("oversubscribe=true", "stages.walk.ranks=3", "stages.count.ranks=2"))
    assert cores(plan) == [[], [], []]
    assert any("5 cores are requested and site test has 4" in line for line in plan.advice)
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


def placed(
    demands: list[Demand], overlap: dict[str, int], site_nodes: int = 4, oversubscribe: bool = False, gpus: int = 0
) -> tuple[list[Range], set[str], list[str]]:
    """The nodes of each stage, the stages on nodes in use, and the problems."""
    notes = Notes(Problems(Origins(Node({}, SourcePosition("p.yaml", 1, 1)))))
    site = CLUSTER.model_copy(update={"nodes": site_nodes, "gpus_per_node": gpus})
    ranges, squeezed = place_nodes(demands, overlap, site, oversubscribe, notes)
    return [ranges[each.name] for each in demands], squeezed, [str(each) for each in notes.problems.found]


def demand(position: int, ranks: int, nodes: int | None = None, home: str = "", cores: int = 1) -> Demand:
    name = "abcdef"[position]
    return Demand(name, position, ranks, cores, nodes, home or name)


def test_a_stage_is_kept_apart_from_the_guests_of_its_neighbours_too() -> None:
    """b sits beside a. c runs at the same time as one of them only, whichever is placed first."""
    for overlapping in ("a", "b"):
        guests = {"a": 0, "b": 0, "c": 1 << "ab".index(overlapping)} | {overlapping: 0b100}
        assert placed([demand(0, 4), demand(1, 4, home="a"), demand(2, 4)], guests)[0] == [(0, 1), (0, 1), (1, 2)]
    for overlapping in ("b", "c"):
        guests = {"a": 1 << "abc".index(overlapping), "b": 0, "c": 0} | {overlapping: 0b001}
        assert placed([demand(0, 4), demand(1, 4), demand(2, 4, home="b")], guests)[0] == [(0, 1), (1, 2), (1, 2)]


def test_a_gap_that_fits_exactly_is_used() -> None:
    """a is over when c starts, and b, on the second node, is not."""
    overlap = {"a": 0b010, "b": 0b101, "c": 0b010}
    before = [demand(0, 4), demand(1, 4)]
    assert placed([*before, demand(2, 4)], overlap) == ([(0, 1), (1, 2), (0, 1)], set(), [])
    assert placed([*before, demand(2, 16)], overlap) == ([(0, 1), (1, 2), (2, 4)], set(), [])


def test_only_the_nodes_of_stages_that_run_at_the_same_time_are_in_use() -> None:
    """a runs beside b and c, which follow each other."""
    overlap = {"a": 0b110, "b": 0b001, "c": 0b001}
    assert placed([demand(0, 4), demand(1, 4), demand(2, 4)], overlap)[0] == [(0, 1), (1, 2), (1, 2)]


def test_all_stages_on_nodes_in_use_are_named() -> None:
    overlap = {"a": 0b110, "b": 0b101, "c": 0b011}
    demands = [demand(0, 16), demand(1, 24), demand(2, 24)]
    ranges, squeezed, problems = placed(demands, overlap, oversubscribe=True)
    assert (ranges, squeezed, problems) == ([(0, 2), (0, 3), (0, 3)], {"a", "b", "c"}, [])
    two_pairs = {"a": 0b0010, "b": 0b0001, "c": 0b1000, "d": 0b0100}
    demands = [demand(0, 16), demand(1, 24), demand(2, 16), demand(3, 24)]
    assert placed(demands, two_pairs, oversubscribe=True)[1] == {"a", "b", "c", "d"}
    ranges, _, problems = placed([demand(0, 16), demand(1, 8), demand(2, 16)], overlap)
    assert ranges == [(0, 2), (2, 3), (0, 2)]
    assert problems == [
        "error: p.yaml:1:1: stages.c.place: needs 2 nodes of its own, but stages that run at the same time have "
        "3 of the 4 nodes of site cluster\n  use fewer ranks, `place: {share: STAGE}`, or `--set oversubscribe=true`"
    ]


def test_counts_of_nodes_are_checked_against_ranks_and_site() -> None:
    assert placed([demand(0, 8, nodes=4)], {"a": 0}) == ([(0, 4)], set(), [])
    assert placed([demand(0, 2, nodes=3)], {"a": 0})[2] == [
        "error: p.yaml:1:1: stages.a.place.nodes: 3 nodes for 2 ranks\n  give at least one rank per node"
    ]
    assert placed([demand(0, 8, nodes=5)], {"a": 0})[2] == [
        "error: p.yaml:1:1: stages.a.place.nodes: site cluster has 4 nodes, not 5\n  give at most 4, or another `site:`"
    ]
    assert placed([demand(0, 17, cores=1)], {"a": 0}, site_nodes=2)[2] == [
        "error: p.yaml:1:1: stages.a.ranks: 17 ranks × 1 core = 17 cores, site cluster has 2 nodes × 8 cores = 16\n"
        "  use fewer ranks, or `--set oversubscribe=true`"
    ]
    assert placed([demand(0, 17, cores=1)], {"a": 0}, site_nodes=1) == ([(0, 1)], set(), [])


def test_nodes_that_are_written_and_needed_agree() -> None:
    assert placed([demand(0, 8)._replace(ranks_per_node=2)], {"a": 0}) == ([(0, 4)], set(), [])
    assert placed([demand(0, 10)._replace(ranks_per_node=2)], {"a": 0})[2] == [
        "error: p.yaml:1:1: stages.a.place.ranks_per_node: 10 ranks, 2 on each node, need 5 nodes, and site cluster "
        "has 4\n  more on each node, fewer ranks, or another `site:`"
    ]
    assert placed([demand(0, 8, nodes=3)._replace(ranks_per_node=4)], {"a": 0})[2] == [
        "error: p.yaml:1:1: stages.a.place.ranks_per_node: 8 ranks, 4 on each node, are on 2 nodes, not on 3\n"
        "  remove it, or `nodes: 2`"
    ]


def with_gpus(position: int, ranks: int, each: int, **more: Any) -> Demand:
    return demand(position, ranks)._replace(gpus_per_rank=each, **more)


@pytest.mark.parametrize(
    ("gpus", "ranks", "each", "nodes"), [(2, 4, 2, 4), (2, 8, 1, 4), (3, 3, 2, 3), (3, 4, 2, 4), (4, 2, 1, 1)]
)
def test_as_many_ranks_on_a_node_as_have_gpus(gpus: int, ranks: int, each: int, nodes: int) -> None:
    assert placed([with_gpus(0, ranks, each)], {"a": 0}, gpus=gpus) == ([(0, nodes)], set(), [])


@pytest.mark.parametrize("oversubscribe", [False, True])
@pytest.mark.parametrize(
    ("gpus", "ranks", "each", "said", "most"),
    [
        (2, 5, 2, "5 ranks × 2 GPUs = 10 GPUs, site cluster has 4 nodes × 2 GPUs = 8", "4 ranks"),
        (
            3, 6, 2, "6 ranks × 2 GPUs = 12 GPUs, site cluster has 4 nodes × 3 GPUs = 12, enough for 1 rank on each",
            "4 ranks",
        ),
    ],
)  # fmt: skip
def test_more_ranks_than_have_gpus(gpus: int, ranks: int, each: int, said: str, most: str, oversubscribe: bool) -> None:
    """A core may be shared, a GPU may not."""
    _, _, problems = placed([with_gpus(0, ranks, each)], {"a": 0}, oversubscribe=oversubscribe, gpus=gpus)
    assert problems == [f"error: p.yaml:1:1: stages.a.place.gpus_per_rank: {said}\n  use at most {most}"]


def gpu_problems(plan_of: Planner, site: Site, *sets: str) -> list[tuple[str, str, str]]:
    site = site.model_copy(update={"gpu_variable": "GPUS"})
    with pytest.raises(SpecError) as caught:
        plan_of(TWO_STAGES, site=site, sets=sets)
    return [(each.key, each.message, each.hint) for each in caught.value.problems]


def test_too_many_gpus_are_one_mistake(plan_of: Planner) -> None:
    site = CLUSTER.model_copy(update={"nodes": 1, "gpus_per_node": 3})
    assert gpu_problems(plan_of, site, "stages.one.ranks=2", "stages.one.place.gpus_per_rank=2") == [
        (
            "stages.one.place.gpus_per_rank",
            "2 ranks × 2 GPUs = 4 GPUs, site cluster has 1 node × 3 GPUs = 3, enough for 1 rank on each",
            "use at most 1 rank",
        )
    ]


def test_gpus_beside_a_stage_that_wants_all_of_them(plan_of: Planner) -> None:
    """As many ranks with GPUs as there can be are no mistake of their own."""
    site = CLUSTER.model_copy(update={"nodes": 1, "gpus_per_node": 2})
    sets = ["stages.one.place.gpus_per_rank=1", "stages.two.ranks=2", "stages.two.place={share: one, gpus_per_rank: 1}"]
    said = "3 GPUs are needed at the same time, site cluster has 2: one 1 rank × 1 GPU, two 2 ranks × 1 GPU"
    assert gpu_problems(plan_of, site, *sets) == [("stages.two.place.gpus_per_rank", said, "use fewer ranks with GPUs")]


@pytest.mark.parametrize(
    ("count", "has", "way"),
    [
        (1, "2", "use fewer ranks with GPUs"),
        (2, "2 on a node", "put the stages on more nodes, or on nodes of their own"),
    ],
)
def test_gpus_that_stages_of_one_node_want_together(count: int, has: str, way: str, plan_of: Planner) -> None:
    site = CLUSTER.model_copy(update={"nodes": count, "gpus_per_node": 2})
    sets = ["stages.one.place.gpus_per_rank=2", "stages.two.place={share: one, gpus_per_rank: 1}"]
    assert gpu_problems(plan_of, site, *sets) == [
        (
            "stages.two.place.gpus_per_rank",
            f"3 GPUs are needed at the same time, site cluster has {has}: one 1 rank × 2 GPUs, two 1 rank × 1 GPU",
            way,
        )
    ]


def test_cores_may_be_oversubscribed_and_gpus_beside_them_not(plan_of: Planner) -> None:
    """two needs five nodes for its cores, and gets the four of one, whose GPUs are all taken."""
    site = CLUSTER.model_copy(update={"gpus_per_node": 2})
    sets = (
        "oversubscribe=true", "stages.one.ranks=8", "stages.one.place.gpus_per_rank=1", "stages.two.ranks=5",
        "stages.two.place={share: one, cores_per_rank: 8, gpus_per_rank: 1}",
    )  # fmt: skip
    ((key, message, _),) = gpu_problems(plan_of, site, *sets)
    assert key == "stages.two.place.gpus_per_rank"
    assert message.startswith("4 GPUs are needed at the same time, site cluster has 2 on a node: one 2 ranks × 1 GPU")


def test_a_guest_gets_the_first_of_its_hosts_nodes() -> None:
    overlap = {"a": 0b110, "b": 0b101, "c": 0b011}
    hosts = [demand(0, 8), demand(1, 24)]
    assert placed([*hosts, demand(2, 2, home="b")], overlap) == ([(0, 1), (1, 4), (1, 3)], set(), [])
    assert placed([*hosts, demand(2, 9, home="b")], overlap) == ([(0, 1), (1, 4), (1, 4)], set(), [])
    assert placed([*hosts, demand(2, 9, nodes=1, home="b")], overlap)[0][2] == (1, 2)
    ranges, _, problems = placed([*hosts, demand(2, 9, nodes=4, home="b")], overlap)
    assert ranges[2] == (1, 4)
    assert problems == ["error: p.yaml:1:1: stages.c.place.nodes: b has 3 nodes to share, not 4\n  give at most 3"]
    assert placed([*hosts, demand(2, 8, nodes=4, home="b")], overlap)[0][2] == (1, 4), "as many as there are"
    few = demand(2, 3, home="b")._replace(ranks_per_node=3)
    assert placed([*hosts, few], overlap) == ([(0, 1), (1, 4), (1, 2)], set(), [])
    ranges, _, problems = placed([*hosts, few._replace(ranks=8, ranks_per_node=2)], overlap)
    assert ranges[2] == (1, 4)
    assert problems == [
        "error: p.yaml:1:1: stages.c.place.ranks_per_node: b has 3 nodes to share, not 4\n"
        "  more on each node, or fewer ranks"
    ]


def test_a_circle_of_three_that_share_is_named_once(plan_of: Planner) -> None:
    sets = ("stages.walk.place.share=count", "stages.count.place.share=keep", "stages.keep.place.share=walk")
    with pytest.raises(SpecError) as caught:
        plan_of(sets=sets, site=CLUSTER)
    assert [problem.message for problem in caught.value.problems] == [
        "walk → count → keep → walk: none of these stages has nodes of its own"
    ]


def test_a_sink_has_a_core_where_the_launcher_shares_none(plan_of: Planner) -> None:
    assert plan_of().stage("keep").placement.cores_per_rank == 0
    flux = with_launcher("flux", cores_per_node=8, nodes=2)
    keep, count = (plan_of(site=flux).stage(name).placement for name in ("keep", "count"))
    assert (keep.cores_per_rank, keep.nodes) == (1, count.nodes), "beside its writer"
    assert not set(keep.cores) & set(count.cores)
    own = plan_of(site=flux, sets=("stages.keep.place.cores_per_rank=0",))
    assert own.stage("keep").placement.cores_per_rank == 0


def test_on_two_nodes_a_sink_sits_beside_its_writer(plan_of: Planner) -> None:
    assert nodes(plan_of(site=TWO_NODES)) == [(0, 1), (1, 2), (1, 2)]


def test_each_node_has_its_own_cores(plan_of: Planner) -> None:
    """The second node is not shared with the first one's stages, in the plan and in its reasons."""
    plan = plan_of(sets=("stages.walk.ranks=3", "stages.count.ranks=4"), site=TWO_NODES)
    assert cores(plan) == [[0, 1, 2], [0, 1, 2, 3], []]
    assert [stage.placement.ranks_per_node for stage in plan.stages] == [3, 4, 1]
    assert placement_reasons(plan) == {
        "stages.walk.cores": "3 ranks × 1 core on each node, which no other stage uses meanwhile",
        "stages.walk.nodes": "1 node of its own, 3 ranks on each",
        "stages.count.cores": "4 ranks × 1 core on each node, which no other stage uses meanwhile",
        "stages.count.nodes": "1 node of its own, 4 ranks on each",
        "stages.keep.cores": "cores_per_rank is 0: no core of its own, runs where there is room",
        "stages.keep.nodes": "1 node shared with count, 1 rank on each",
    }
    sets = ("stages.walk.ranks=8", "stages.count.place.share=walk")
    with pytest.raises(SpecError, match="9 cores are needed at the same time, site cluster has 8 on a node:"):
        plan_of(sets=sets, site=TWO_NODES)


def test_reasons_of_the_cores_of_one_node(plan_of: Planner) -> None:
    free = "cores_per_rank is 0: no core of its own, runs where there is room"
    assert placement_reasons(plan_of(sets=("stages.count.place.cores_per_rank=2",))) == {
        "stages.walk.cores": "1 rank × 1 core, which no other stage uses meanwhile",
        "stages.count.cores": "1 rank × 2 cores, which no other stage uses meanwhile",
        "stages.keep.cores": free,
    }
    crowded = "not bound: more ranks than cores on these nodes, as oversubscribe allows"
    assert placement_reasons(plan_of(sets=("stages.walk.ranks=5", "oversubscribe=true"))) == {
        "stages.walk.cores": crowded, "stages.count.cores": crowded, "stages.keep.cores": free,
    }  # fmt: skip


def test_on_one_node_sharing_changes_nothing(plan_of: Planner) -> None:
    assert cores(plan_of(sets=("stages.walk.place.share=count",))) == [[0], [1], []]


@pytest.mark.parametrize(
    ("ranks", "cores_per_rank", "ways"),
    [
        (1, 5, ["stages.walk.place.cores_per_rank"]),
        (2, 2, ["stages.walk.ranks", "stages.walk.place.cores_per_rank"]),
        (4, 1, ["stages.walk.ranks"]),
    ],
)
def test_what_to_reduce_where_the_cores_do_not_suffice(
    ranks: int, cores_per_rank: int, ways: list[str], plan_of: Planner
) -> None:
    """What is 1 already is not proposed."""
    with pytest.raises(SpecError) as caught:
        plan_of(sets=(f"stages.walk.ranks={ranks}", f"stages.walk.place.cores_per_rank={cores_per_rank}"))
    (problem,) = caught.value.problems
    assert re.findall(r"--set (\S+)=N", problem.hint) == ways


def test_nodes_are_counted() -> None:
    scattered = Placement(nodes=[(1, 3), (5, 6)], ranks_per_node=1, cores=[], cores_per_rank=1)
    assert node_count(scattered) == 3
    assert nodes_needed([scattered, scattered.model_copy(update={"nodes": [(0, 2)]})]) == 6
    assert nodes_needed([]) == 1


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        ([(0, 1)], "node 0"), ([(2, 3)], "node 2"), ([(0, 2)], "nodes 0-1"), ([(1, 4)], "nodes 1-3"),
        ([(0, 1), (2, 3)], "nodes 0, 2"), ([(0, 1), (2, 5)], "nodes 0, 2-4"),
    ],
)  # fmt: skip
def test_nodes_as_text(ranges: list[Range], text: str) -> None:
    assert nodes_text(ranges) == text


@pytest.mark.parametrize(
    ("each", "one"),
    [([[(1, 2)], [(1, 2)]], True), ([[(1, 2)], [(2, 3)]], False), ([[(0, 2)]], False), ([[(0, 1), (1, 2)]], False)],
)
def test_whether_stages_are_on_one_node(each: list[list[Range]], one: bool) -> None:
    placements = [Placement(nodes=nodes, ranks_per_node=1, cores=[], cores_per_rank=1) for nodes in each]
    assert share_one_node(placements) == one


def test_what_the_plan_keeps_of_a_node() -> None:
    site = CLUSTER.model_copy(update={
        "threads_per_core": 2, "reserved_cores": (0, 4), "others": (7,), "numa": [(0, 1, 2, 3), (4, 5, 6, 7)],
        "gpus_per_node": 2, "gpu_variable": "GPUS", "cost": SiteCost(per_node_hour=1.5, unit="EUR"),
    })  # fmt: skip
    assert node_plan(site) == NodePlan(
        cores=8, threads_per_core=2, reserved=[0, 4], others=[7], numa=[[0, 1, 2, 3], [4, 5, 6, 7]], gpus=2,
        gpu_variable="GPUS", memory=2**33, price=1.5, price_unit="EUR",
    )  # fmt: skip
    assert node_plan(CLUSTER) == NodePlan(cores=8, memory=2**33), "what is not known is empty"


TWO_STAGES = """
stages:
  one: {command: [./one], ranks: 1}
  two: {command: [./two], ranks: 1}
"""
BESIDE = (
    "stages.two: it has a node of its own, and would fit beside one: together 2 of the 8 cores of a node. "
    "`place: {share: one}` saves 1 node; stages on one node share its memory bandwidth and its network"
)


def sharing_notes(plan: Plan) -> list[str]:
    return [line for line in plan.advice if "place: {share:" in line]


def test_a_small_stage_with_a_node_of_its_own_is_noted(plan_of: Planner) -> None:
    site = CLUSTER.model_copy(update={"scheduler": "slurm"})
    plan = plan_of(TWO_STAGES, site=site)
    assert sharing_notes(plan) == [BESIDE]
    assert nodes(plan) == [(0, 1), (1, 2)]
    followed = plan_of(TWO_STAGES, site=site, sets=("stages.two.place.share=one",))
    assert (nodes(followed), sharing_notes(followed)) == ([(0, 1), (0, 1)], [])
    assert followed.allocation is not None
    assert followed.allocation.nodes == 1, "what the note promises"


@pytest.mark.parametrize(
    "sets",
    [
        ("stages.two.place.nodes=1",),  # the user has chosen
        ("stages.two.place.ranks_per_node=1",),
        ("stages.two.ranks=8",),  # there is no room
        ("stages.one.ranks=8",),
        ("stages.two.ranks=9",),  # two nodes
    ],
)
def test_nothing_is_noted_where_the_nodes_are_chosen_or_needed(sets: tuple[str, ...], plan_of: Planner) -> None:
    site = CLUSTER.model_copy(update={"scheduler": "slurm"})
    assert sharing_notes(plan_of(TWO_STAGES, site=site, sets=sets)) == []


def test_nothing_is_noted_without_a_scheduler_and_where_the_nodes_are_the_same(plan_of: Planner) -> None:
    assert sharing_notes(plan_of(TWO_STAGES, site=CLUSTER)) == []
    site = CLUSTER.model_copy(update={"scheduler": "slurm"})
    assert sharing_notes(plan_of(via="bp5", site=site)) == [], "one after the other"
    assert len(sharing_notes(plan_of(via="sst", site=site))) == 1


def test_stages_that_would_fit_beside_one_are_in_one_note_and_no_more_than_fit(plan_of: Planner) -> None:
    site = CLUSTER.model_copy(update={"scheduler": "slurm", "cores_per_node": 4})
    more = "".join(f"  {name}: {{command: [./{name}], ranks: 2}}\n" for name in ("three", "four"))
    (note,) = sharing_notes(plan_of(TWO_STAGES + more, site=site))
    assert note.startswith("stages.two: two, three have a node each, and would fit beside one: together 4 of the 4")
    assert "saves 2 nodes" in note


def test_gpus_of_lone_stages_are_counted(plan_of: Planner) -> None:
    site = CLUSTER.model_copy(update={"scheduler": "slurm", "gpus_per_node": 2})
    for gpus, count in ((1, 1), (2, 0)):
        sets = ("stages.one.place.gpus_per_rank=1", f"stages.two.place.gpus_per_rank={gpus}")
        assert len(sharing_notes(plan_of(TWO_STAGES, site=site, sets=sets))) == count


def stages_of(**stages: str) -> str:
    return "\nstages:\n" + "".join(f"  {name}: {{command: [sh], {line}}}\n" for name, line in stages.items())


def proposed_nodes(plan_of: Planner, site_nodes: int, streams: str = "", **stages: str) -> list[str]:
    """What the message on too few cores proposes for `host`. The site has nodes of 8 cores."""
    with pytest.raises(SpecError, match="cores are needed at the same time") as caught:
        plan_of(stages_of(**stages) + streams, site=CLUSTER.model_copy(update={"nodes": site_nodes}))
    (problem,) = caught.value.problems
    return re.findall(r"or (\d+) nodes: `--set stages.host.place.nodes=\1`", problem.hint)


@pytest.mark.parametrize(
    ("site_nodes", "stages", "nodes"),
    [
        (2, {"host": "ranks: 8", "a": "ranks: 8, place: {share: host}"}, ["2"]),  # 4 and 4 on each
        (1, {"host": "ranks: 8", "a": "ranks: 8, place: {share: host}"}, []),
        (3, {"host": "ranks: 8", "a": "ranks: 10, place: {share: host}"}, ["3"]),  # 4 and 5 are too many
        (2, {"host": "ranks: 8", "a": "ranks: 10, place: {share: host}"}, []),
        (3, {"host": "ranks: 8", "a": "ranks: 20, place: {share: host}"}, []),  # 3 and 7 are too many
        (4, {"host": "ranks: 8", "a": "ranks: 20, place: {share: host}"}, ["4"]),
        (9, {"host": "ranks: 2", "a": "ranks: 14, place: {share: host}"}, ["2"]),
        (9, {"host": "ranks: 2", "a": "ranks: 16, place: {share: host}"}, []),  # no more nodes than ranks
        # All ranks of the guest stay on one node: 4 and 5 are too many, too.
        (4, {"host": "ranks: 8", "a": "ranks: 5, place: {share: host, ranks_per_node: 5}"}, ["3"]),
    ],
)
def test_how_many_nodes_have_the_cores_of_all_that_share_them(
    site_nodes: int, stages: dict[str, str], nodes: list[str], plan_of: Planner
) -> None:
    assert proposed_nodes(plan_of, site_nodes, **stages) == nodes


@pytest.mark.parametrize("first", [False, True])
def test_the_nodes_of_other_stages_are_not_proposed(first: bool, plan_of: Planner) -> None:
    """Of five nodes, `other` has two, wherever it stands in the file."""
    for ranks, nodes in ((8, ["2"]), (10, ["3"]), (20, [])):
        stages = {"host": "ranks: 8", "a": f"ranks: {ranks}, place: {{share: host}}"}
        other = {"other": "ranks: 16"}
        assert proposed_nodes(plan_of, 5, **(other | stages if first else stages | other)) == nodes


def test_stages_that_follow_each_other_do_not_add_up(plan_of: Planner) -> None:
    """b begins when the others have ended, and may have all cores of the two nodes."""
    stages = {
        "host": "ranks: 8, writes: {h: {io: h}}",
        "a": "ranks: 8, place: {share: host}, writes: {a: {io: a}}",
        "b": "ranks: 16, place: {share: host, cores_per_rank: 1}, reads: {h: {io: h}, a: {io: a}}",
    }
    files = "streams:\n  h: {from: host, to: b.h, via: bp5}\n  a: {from: a, to: b.a, via: bp5}\n"
    assert proposed_nodes(plan_of, 4, files, **stages) == ["2"]
    assert proposed_nodes(plan_of, 4, files, first="ranks: 1", **stages) == ["2"]
    stages["a"] = stages["a"].replace("8", "10")  # 4 and 5 on two nodes
    assert proposed_nodes(plan_of, 4, files, first="ranks: 1", **stages) == ["3"]


def test_a_guest_of_all_nodes_is_compared_with_their_cores(plan_of: Planner) -> None:
    stages = {"host": "ranks: 8, place: {nodes: 2}", "a": "ranks: 16, place: {share: host}"}
    with pytest.raises(SpecError, match="12 cores are needed at the same time, site cluster has 8 on a node: host 4"):
        plan_of(stages_of(**stages), site=TWO_NODES)


def test_the_last_of_several_stages_that_want_gpus_is_named(plan_of: Planner) -> None:
    site = CLUSTER.model_copy(update={"gpus_per_node": 2, "gpu_variable": "GPUS"})
    guest = "ranks: 1, place: {share: host, gpus_per_rank: 1}"
    with pytest.raises(SpecError) as caught:
        plan_of(stages_of(host="ranks: 1, place: {gpus_per_rank: 1}", a=guest, b=guest), site=site)
    assert [each.key for each in caught.value.problems] == ["stages.b.place.gpus_per_rank"]


def test_a_rank_may_have_all_gpus_of_a_node(plan_of: Planner) -> None:
    site = CLUSTER.model_copy(update={"gpus_per_node": 2, "gpu_variable": "GPUS"})
    (problem,) = gpu_problems(plan_of, site, *(f"stages.{name}.place.gpus_per_rank=2" for name in ("one", "two")),
                              "stages.two.place.share=one")  # fmt: skip
    assert problem[1].startswith("4 GPUs are needed at the same time, site cluster has 2 on a node")
    fits = plan_of(TWO_STAGES, site=site, sets=("stages.one.place.gpus_per_rank=2",)).stage("one").placement
    assert (fits.gpus, fits.gpus_per_rank, fits.threads_per_rank) == ([0, 1], 2, 0)
