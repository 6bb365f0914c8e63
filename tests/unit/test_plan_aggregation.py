"""How many ranks write, and how many files that makes: on nodes that this machine does not have.

With 1 to 8 ranks on one node the same function is held against real files in tests/integration/test_output_files.py.
"""

from __future__ import annotations

import pytest

from tests.support.planner import SITE, Planner, end_of
from workflow.errors import SpecError
from workflow.plan.placement.nodes import node_count
from workflow.plan.streams.aggregation import count_subfiles
from workflow.site.site_model import Site

FILE = """
stages:
  walk: {component: walker, ranks: %d, output: {aggregation: %s}%s}
  keep: {component: keep}
streams:
  positions: {from: walk, to: keep, via: %s}
"""


def cluster(**more: object) -> Site:
    return SITE.model_copy(update={"nodes": 5000, "cores_per_node": 16, "memory_per_node": 2**38, **more})


@pytest.mark.parametrize(
    ("ranks", "policy", "site", "parameters", "files"),
    [
        (4, "auto", SITE, {"NumAggregators": "1"}, 1),
        (4, "{count: 4}", SITE, {"NumAggregators": "4"}, 4),  # every rank
        (4, "{ratio: 4}", SITE, {"NumAggregators": "1"}, 1),
        (32, "auto", cluster(), {"NumAggregators": "4"}, 4),  # 2 nodes: one for 8 ranks
        (32, "auto", cluster(gpus_per_node=4), {"NumAggregators": "8"}, 8),
        (32, "auto", cluster(nics_per_node=3), {"NumAggregators": "6"}, 6),
        (64, "auto", cluster(), {"NumAggregators": "8"}, 8),  # 4 nodes are few
        (65, "auto", cluster(), {"NumAggregators": "5"}, 5),  # 5 nodes are many
        (160, "auto", cluster(gpus_per_node=4), {"NumAggregators": "10"}, 10),
        (16 * 4000, "auto", cluster(), {"NumAggregators": "4000"}, 4000),
        (16 * 4500, "auto", cluster(), {"NumAggregators": "4500", "NumSubFiles": "4000"}, 4000),
        (32, "{per_gpu: 2}", cluster(gpus_per_node=2), {"NumAggregators": "8"}, 8),
        (40, "{per_node: 4}", cluster(), {"NumAggregators": "12"}, 12),  # 16 + 16 + 8 ranks
        (33, "{per_node: 4}", cluster(), {"NumAggregators": "12"}, 12),  # 11 + 11 + 11
        (34, "{ratio: 4}", cluster(), {"NumAggregators": "8"}, 6),  # 8 on 3 nodes: 2 on each
        (160, "{subfiles: 2}", cluster(), {"NumAggregators": "10", "NumSubFiles": "2"}, 2),
        (4, "{subfiles: 2}", SITE, {"NumAggregators": "2", "NumSubFiles": "2"}, 2),  # not one for the one node
        (4, "{count: 2, subfiles: 2}", SITE, {"NumAggregators": "2", "NumSubFiles": "2"}, 2),
        (4, "{count: 2, subfiles: 1}", SITE, {"NumAggregators": "2", "NumSubFiles": "1"}, 1),
        (160, "{strategy: EveryoneWrites, count: 3}", cluster(), {"NumAggregators": "3"}, 3),
        (160, "{strategy: DataSizeBased, count: 3}", cluster(), {"NumAggregators": "3", "NumSubFiles": "3"}, 3),
    ],
)
def test_policies(
    ranks: int, policy: str, site: Site, parameters: dict[str, str], files: int, plan_of: Planner
) -> None:
    plan = plan_of(FILE % (ranks, policy, "", "bp5"), site=site)
    decided = end_of(plan, "walk", "positions").parameters
    assert {key: value for key, value in decided.items() if key.startswith("Num")} == parameters
    assert plan.stream("positions").subfiles == files


def test_auto_says_its_rule_and_source(plan_of: Planner) -> None:
    reason = plan_of(FILE % (32, "auto", "", "bp5"), site=cluster(gpus_per_node=4)).reasons
    said = reason["streams.positions.write.NumAggregators"]
    assert "auto: one per GPU (4 per node × 2 nodes)" in said
    assert "ADIOS2's guide, Aggregation" in said


@pytest.mark.parametrize(
    ("ranks", "policy", "site", "said"),
    [
        (32, "auto", cluster(nics_per_node=3), "output.aggregation: auto: one per NIC (3 per node × 2 nodes)"),
        (32, "auto", cluster(), "output.aggregation: auto: one per 8 ranks (2 per node × 2 nodes)"),
        (32, "{per_gpu: 2}", cluster(gpus_per_node=2), "output.aggregation: 2 per GPU × 2 × 2 nodes"),
        (16 * 4500, "auto", cluster(), "output.aggregation: auto: one per node × 4500 nodes"),
    ],
)
def test_the_reason_is_the_rule(ranks: int, policy: str, site: Site, said: str, plan_of: Planner) -> None:
    reasons = plan_of(FILE % (ranks, policy, "", "bp5"), site=site).reasons
    assert reasons["streams.positions.write.NumAggregators"].startswith(said)


def test_a_strategy_is_where_it_was_written(plan_of: Planner) -> None:
    reasons = plan_of(FILE % (4, "{count: 2, strategy: DataSizeBased}", "", "bp5")).reasons
    assert reasons["streams.positions.write.AggregationType"] == "output.aggregation.strategy"
    assert reasons["streams.positions.write.NumSubFiles"].startswith("count 2; ")


@pytest.mark.parametrize("policy", ["count: 2", "per_node: 2", "per_gpu: 1", "ratio: 2"])
def test_more_files_than_aggregators_are_refused(policy: str, plan_of: Planner) -> None:
    with pytest.raises(SpecError) as caught:
        plan_of(FILE % (4, f"{{{policy}, subfiles: 3}}", "", "bp5"), site=SITE.model_copy(update={"gpus_per_node": 2}))
    assert [(problem.key, problem.message) for problem in caught.value.problems] == [
        ("stages.walk.output.aggregation.subfiles", "3 files for 2 aggregators: each writes one at most")
    ]


def test_more_files_than_ranks_are_refused(plan_of: Planner) -> None:
    with pytest.raises(SpecError) as caught:
        plan_of(FILE % (2, "{subfiles: 3}", "", "bp5"))
    assert [(problem.key, problem.message, problem.hint) for problem in caught.value.problems] == [
        (
            "stages.walk.output.aggregation.subfiles",
            "3 files, but stage walk has 2 ranks: each writes one at most",
            "give at most 2",
        )
    ]
    parameters = end_of(plan_of(FILE % (2, "{subfiles: 2}", "", "bp5")), "walk", "positions").parameters
    assert parameters["NumSubFiles"] == "2", "one file for each rank"


@pytest.mark.parametrize(
    ("ranks", "nodes", "parallel", "advised"),
    [
        (9, 1, True, True),
        (8, 1, True, False),  # as many as one aggregator is for
        (9, 1, None, True),  # not known whether this ADIOS2 has MPI
        (9, 1, False, False),  # rank 0 writes for all
        (64, 4, True, True),
        (65, 5, True, False),  # one per node is best on many nodes
    ],
)
def test_advice_where_the_default_is_slow(
    ranks: int, nodes: int, parallel: bool | None, advised: bool, plan_of: Planner
) -> None:
    text = f"""
stages:
  walk: {{component: walker, ranks: {ranks}}}
  keep: {{component: keep}}
streams:
  positions: {{from: walk, to: keep, via: bp5}}
"""
    plan = plan_of(text, site=cluster(parallel_adios2=parallel))
    assert node_count(plan.stage("walk").placement) == nodes
    said = [line for line in plan.advice if "ADIOS2 lets one rank per node write for its" in line]
    assert [line.partition(":")[0] for line in said] == (["stream positions"] if advised else [])


def test_stripes_are_mentioned_on_several_nodes(plan_of: Planner) -> None:
    assert any("lfs setstripe" in line for line in plan_of(FILE % (32, "auto", "", "bp5"), site=cluster()).advice)
    assert not any("lfs" in line for line in plan_of(FILE % (4, "auto", "", "bp5")).advice)


def test_as_many_on_each_node_is_mentioned(plan_of: Planner) -> None:
    plan = plan_of(FILE % (32, "{count: 3}", "", "bp5"), site=cluster())
    assert plan.stream("positions").subfiles == 2
    assert any("3 aggregators on 2 nodes become 2" in line for line in plan.advice)


@pytest.mark.parametrize("policy", ["{count: 4}", "{count: 3, strategy: EveryoneWrites}", "{count: 3, subfiles: 2}"])
def test_where_all_aggregators_are_used_nothing_is_mentioned(policy: str, plan_of: Planner) -> None:
    plan = plan_of(FILE % (32, policy, "", "bp5"), site=cluster())
    assert not any("as many on each" in line for line in plan.advice)


def test_bp4_has_no_strategies(plan_of: Planner) -> None:
    plan = plan_of(FILE % (4, "{count: 2, strategy: EveryoneWrites}", "", "bp4"))
    assert end_of(plan, "walk", "positions").parameters == {"NumAggregators": "2"}
    assert any("strategy has no effect on stream positions" in line for line in plan.advice)


@pytest.mark.parametrize(("policy", "count"), [("auto", 4000), ("{per_node: 1}", 4500)])
def test_bp4_has_one_file_for_each_aggregator(policy: str, count: int, plan_of: Planner) -> None:
    """So `auto` bounds their number. What is written stays."""
    plan = plan_of(FILE % (16 * 4500, policy, "", "bp4"), site=cluster())
    assert end_of(plan, "walk", "positions").parameters == {"NumAggregators": str(count)}
    assert plan.stream("positions").subfiles == count


def test_a_serial_adios2_writes_one_file(plan_of: Planner) -> None:
    serial = SITE.model_copy(update={"parallel_adios2": False})
    plan = plan_of(FILE % (4, "{count: 2}", "", "bp5"), site=serial)
    assert plan.stream("positions").subfiles == 1
    assert "built without MPI" in plan.reasons["streams.positions.subfiles"]
    assert any("rank 0 writes for all; aggregation has no effect" in line for line in plan.advice)
    assert not any("no effect" in line for line in plan_of(FILE % (4, "{count: 2}", "", "bp5")).advice)


def test_streams_have_no_files(plan_of: Planner) -> None:
    assert plan_of(FILE % (4, "{count: 2}", "", "sst")).stream("positions").subfiles is None


@pytest.mark.parametrize(
    ("engine", "parameters", "files"),
    [
        ("HDF5", {}, None),
        ("BP5", {}, 3),  # one for each node
        ("BP5", {"NumAggregators": "4"}, 3),  # as many on each
        ("BP4", {}, 3),
        ("BP4", {"NumAggregators": "4"}, 4),
        ("BP5", {"AggregationType": "EveryoneWrites"}, 3),
        ("BP5", {"AggregationType": "EveryoneWrites", "NumAggregators": "4"}, 4),
        ("BP5", {"AggregationType": "DataSizeBased"}, 3),
        ("BP5", {"AggregationType": "DataSizeBased", "NumAggregators": "4"}, 3),
        ("BP5", {"AggregationType": "DataSizeBased", "NumAggregators": "4", "NumSubFiles": "4"}, 4),
    ],
)
def test_files_of_9_ranks_with_4_on_each_node(engine: str, parameters: dict[str, str], files: int | None) -> None:
    assert count_subfiles(engine, parameters, ranks=9, per_node=4) == files
