"""How many ranks write, and how many files that makes: on nodes that this machine does not have.

With 1 to 8 ranks on one node the same function is held against real files in tests/integration/test_output_files.py.
"""

from __future__ import annotations

import pytest

from tests.support.planner import SITE, Planner, end_of
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
        (32, "auto", cluster(), {"NumAggregators": "4"}, 4),  # 2 nodes: one for 8 ranks
        (32, "auto", cluster(gpus_per_node=4), {"NumAggregators": "8"}, 8),
        (32, "auto", cluster(nics_per_node=3), {"NumAggregators": "6"}, 6),
        (160, "auto", cluster(gpus_per_node=4), {"NumAggregators": "10"}, 10),  # many nodes
        (16 * 4500, "auto", cluster(), {"NumAggregators": "4500", "NumSubFiles": "4000"}, 4000),
        (32, "{per_gpu: 2}", cluster(gpus_per_node=2), {"NumAggregators": "8"}, 8),
        (40, "{per_node: 4}", cluster(), {"NumAggregators": "12"}, 12),  # 16 + 16 + 8 ranks
        (33, "{per_node: 4}", cluster(), {"NumAggregators": "12"}, 12),  # 11 + 11 + 11
        (34, "{ratio: 4}", cluster(), {"NumAggregators": "8"}, 6),  # 8 on 3 nodes: 2 on each
        (160, "{subfiles: 2}", cluster(), {"NumAggregators": "10", "NumSubFiles": "2"}, 2),
        (160, "{strategy: EveryoneWrites, count: 3}", cluster(), {"NumAggregators": "3"}, 3),
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


def test_stripes_are_mentioned_on_several_nodes(plan_of: Planner) -> None:
    assert any("lfs setstripe" in line for line in plan_of(FILE % (32, "auto", "", "bp5"), site=cluster()).advice)
    assert not any("lfs" in line for line in plan_of(FILE % (4, "auto", "", "bp5")).advice)


def test_as_many_on_each_node_is_mentioned(plan_of: Planner) -> None:
    plan = plan_of(FILE % (32, "{count: 3}", "", "bp5"), site=cluster())
    assert plan.stream("positions").subfiles == 2
    assert any("3 aggregators on 2 nodes become 2" in line for line in plan.advice)


def test_bp4_has_no_strategies(plan_of: Planner) -> None:
    plan = plan_of(FILE % (4, "{count: 2, strategy: EveryoneWrites}", "", "bp4"))
    assert end_of(plan, "walk", "positions").parameters == {"NumAggregators": "2"}
    assert any("strategy has no effect on stream positions" in line for line in plan.advice)


def test_a_serial_adios2_writes_one_file(plan_of: Planner) -> None:
    serial = SITE.model_copy(update={"parallel_adios2": False})
    plan = plan_of(FILE % (4, "{count: 2}", "", "bp5"), site=serial)
    assert plan.stream("positions").subfiles == 1
    assert "built without MPI" in plan.reasons["streams.positions.subfiles"]
    assert any("rank 0 writes for all; aggregation has no effect" in line for line in plan.advice)
    assert not any("no effect" in line for line in plan_of(FILE % (4, "{count: 2}", "", "bp5")).advice)


def test_streams_have_no_files(plan_of: Planner) -> None:
    assert plan_of(FILE % (4, "{count: 2}", "", "sst")).stream("positions").subfiles is None
    assert count_subfiles("HDF5", {}, 4, 4) is None
