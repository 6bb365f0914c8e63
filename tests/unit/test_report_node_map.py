"""The node map, as text and as drawings: equal nodes are shown once, and a large plan stays light."""

from __future__ import annotations

import time

from tests.support.planner import SITE, Planner
from tests.unit.test_plan_placement import MACHINE
from workflow.plan.node_groups import NodeGroup, node_groups
from workflow.plan.plan_model import AllocationPlan, NodePlan, Placement, Plan
from workflow.report.html.node_drawings import node_drawings
from workflow.report.show.node_map import has_node_map, node_count_text, node_map

GPUS = (
    "stages.walk.ranks=7", "stages.walk.place.nodes=2", "stages.walk.place.cores_per_rank=2",
    "stages.walk.place.gpus_per_rank=1", "stages.count.place.share=walk",
)  # fmt: skip


def with_spares(plan: Plan, nodes: int) -> Plan:
    return plan.model_copy(update={"nodes": nodes})


def test_a_map_of_two_kinds_of_nodes_and_a_spare_one(plan_of: Planner) -> None:
    plan = with_spares(plan_of(sets=GPUS, site=MACHINE), 4)
    assert node_map(plan) == [
        "4 nodes of 16 cores, 4 GPUs and 8.59 GB",
        "  node 0",
        "    a walk   4 ranks × 2 cores + 1 GPU, cores 12-13 9-10 4-5 1-2, GPUs 0 1 2 3",
        "    b count  1 rank × 1 core, cores 3",
        "    c keep   1 rank, without cores of its own",
        "  cores  #aabaa.. #aa.aa..",
        "  GPUs   aaaa",
        "  node 1",
        "    a walk  3 ranks × 2 cores + 1 GPU, cores 12-13 9-10 4-5, GPUs 0 1 2",
        "  cores  #...aa.. #aa.aa..",
        "  GPUs   aaa.",
        "  nodes 2-3: spare",
        "  # reserved, . free",
    ]


def test_one_node_without_devices_needs_no_map(plan_of: Planner) -> None:
    assert not has_node_map(plan_of())
    assert has_node_map(plan_of(site=SITE.model_copy(update={"nodes": 2})))


def test_what_the_nodes_cost(plan_of: Planner) -> None:
    plan = with_spares(plan_of(), 100).model_copy(
        update={
            "node": NodePlan(cores=8, memory=2**30, price=2.5, price_unit="core-hours"),
            "allocation": AllocationPlan(scheduler="slurm", nodes=100, walltime_s=1800, grace_s=60),
        }
    )
    said = "100 nodes of 8 cores and 1.07 GB; 50 node-hours in 30 min 00 s, which cost 125 core-hours"
    assert node_count_text(plan) == said


def test_stages_that_never_run_together_are_marked(plan_of: Planner) -> None:
    plan = plan_of(via="bp5", sets=("stages.count.place.share=walk",), site=MACHINE)
    (strip,) = [line for line in node_map(plan) if line.startswith("  cores")]
    assert strip == "  cores  #*...... #......."
    assert node_map(plan)[-1] == "  # reserved, . free, * stages that never run together"


def test_cores_of_other_runs_are_not_free(plan_of: Planner) -> None:
    """As the plan of a repetition that shares its node: cores 6 to 9 are its own, 0 and 8 are those of the system."""
    others = tuple(core for core in range(16) if core not in (0, 6, 7, 8, 9))
    plan = plan_of(site=MACHINE.model_copy(update={"others": others, "nodes": 1}))
    (strip,) = [line for line in node_map(plan) if "cores  " in line]
    assert strip.split("cores  ")[1] == "#%%%%%ab #.%%%%%%"
    assert node_map(plan)[-1].strip() == "# reserved, % used by other runs, . free"
    (drawing,) = node_drawings(plan)
    assert "<title>core 1: used by other runs</title>" in drawing.chart


def test_drawings_name_every_square(plan_of: Planner) -> None:
    first, second = node_drawings(with_spares(plan_of(sets=GPUS, site=MACHINE), 4))
    assert (first.nodes, [stage.name for stage in first.stages]) == ("node 0", ["walk", "count", "keep"])
    assert first.chart.count("<title>") == 16 + 4
    for title in ("core 0: reserved", "core 12: walk, rank 0 of the node", "core 14: free", "GPU 3: walk, rank 3"):
        assert f"<title>{title}" in first.chart
    assert "<title>GPU 3: free</title>" in second.chart
    assert first.chart.count('class="reserved"') == 2


def test_a_square_has_a_largest_size_and_a_drawing_a_largest_width(plan_of: Planner) -> None:
    plan = plan_of(sets=GPUS, site=MACHINE)

    def widths(cores: int) -> set[str]:
        node = plan.node.model_copy(update={"cores": cores})
        return {
            each.chart.partition("max-width: ")[2].partition(";")[0].partition('"')[0]
            for each in node_drawings(plan.model_copy(update={"node": node}))
        }

    assert (widths(16), widths(64)) == ({f"{16 * 22}px"}, {"900px"})


def test_cores_are_drawn_for_both_of_two_stages_that_share_them(plan_of: Planner) -> None:
    (drawing,) = node_drawings(plan_of(via="bp5", sets=("stages.count.place.share=walk",), site=MACHINE))
    assert "<title>core 1: walk, rank 0 of the node, count, rank 0 of the node</title>" in drawing.chart


def test_groups_are_linear_in_nodes_and_stages(plan_of: Planner) -> None:
    """2,000 stages on 10,000 nodes: a scan of all stages for each group would take a minute."""
    plan = plan_of()
    one = plan.stages[0]
    place = one.placement
    stages = [one.model_copy(update={"name": f"s{i}", "ranks": 5, "placement": _at(place, 5 * i)}) for i in range(2000)]
    begin = time.process_time()
    groups: list[NodeGroup] = list(node_groups(plan.model_copy(update={"stages": stages, "nodes": 10_000})))
    assert len(groups) == 2000
    assert time.process_time() - begin < 5


def _at(place: Placement, first: int) -> Placement:
    return place.model_copy(update={"nodes": [(first, first + 5)], "ranks_per_node": 1})
