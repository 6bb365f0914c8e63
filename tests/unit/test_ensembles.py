"""`members` and `collect` as ordinary stages and streams, and where the members go."""

from __future__ import annotations

import pytest

from tests.support.planner import SITE, Planner, end_of
from workflow.plan.plan_model import Plan
from workflow.spec.models.pipeline import Ensemble

ENSEMBLE = """
stages:
  sim:
    members: MEMBERS
    command: [sim, "${{ member.index }}", "--at=${{ streams.field.path }}"]
    writes: {field: {}}
  read: {command: [read], reads: {field: {}}}
streams:
  field: {from: sim, to: read, collect: COLLECT}
"""


def ensemble(members: str = "3", collect: str = "any") -> str:
    return ENSEMBLE.replace("MEMBERS", members).replace("COLLECT", collect)


def links(plan: Plan) -> dict[str, tuple[str, list[str]]]:
    return {stream.name: (stream.writer, stream.readers) for stream in plan.streams}


def test_the_values_of_members() -> None:
    assert Ensemble(count=2).each == [{}, {}]
    assert Ensemble(matrix={"F": [1, 2], "k": ["a", "b"]}).each == [
        {"F": 1, "k": "a"}, {"F": 1, "k": "b"}, {"F": 2, "k": "a"}, {"F": 2, "k": "b"},
    ]  # fmt: skip


def test_members_become_stages_with_values_of_their_own(plan_of: Planner) -> None:
    plan = plan_of(ensemble())
    assert links(plan) == {
        "field-0": ("sim-0", ["field-merge"]), "field-1": ("sim-1", ["field-merge"]),
        "field-2": ("sim-2", ["field-merge"]), "field": ("field-merge", ["read"]),
    }  # fmt: skip
    for index in range(3):
        stage = plan.stage(f"sim-{index}")
        assert stage.program == ["sim", str(index), f"--at=${{{{ run.dir }}}}/streams/field-{index}.bp"]
        assert stage.member is not None
        assert (stage.member.ensemble, stage.member.index) == ("sim", index)
        assert end_of(plan, f"sim-{index}", f"field-{index}").port == "field"
        assert end_of(plan, "field-merge", f"field-{index}").does_without
    assert plan.stage("field-merge").placement.cores_per_rank == 0


def test_each_member_has_a_reader_of_its_own(plan_of: Planner) -> None:
    assert links(plan_of(ensemble("2", "each"))) == {"field-0": ("sim-0", ["read-0"]), "field-1": ("sim-1", ["read-1"])}


def test_groups_have_every_second_member(plan_of: Planner) -> None:
    found = links(plan_of(ensemble("4", "{groups: 2}")))
    assert found["field-2"] == ("sim-2", ["field-group-0-merge"])
    assert found["field-3"] == ("sim-3", ["field-group-1-merge"])
    assert found["field-group-1"] == ("field-group-1-merge", ["read-1"])


def test_a_text_keeps_the_type_of_a_value(plan_of: Planner) -> None:
    plan = plan_of("""
stages:
  walk: {component: walker, members: [{n: 5}, {n: 7}], with: {walkers: "${{ member.n }}"}}
  count: {component: tally, with: {variable: position}}
  keep: {component: keep}
streams:
  positions: {from: walk, to: count, collect: any}
  counts: {from: count, to: keep}
""")
    assert [plan.stage(f"walk-{index}").parameters["walkers"] for index in range(2)] == [5, 7]


def test_members_share_nodes_as_many_as_fit(plan_of: Planner) -> None:
    site = SITE.model_copy(update={"nodes": 4, "cores_per_node": 4})
    text = ensemble("7").replace("    command: [sim", "    ranks: 2\n    command: [sim")
    plan = plan_of(text.replace("{command: [read],", "{command: [read], place: {cores_per_rank: 0},"), site=site)
    nodes = [plan.stage(f"sim-{index}").placement.nodes for index in range(7)]
    assert nodes == [[(at, at + 1)] for at in (0, 0, 1, 1, 2, 2, 3)]
    cores = [plan.stage(f"sim-{index}").placement.cores for index in range(2)]
    assert cores == [[0, 1], [2, 3]]


def test_a_member_that_is_ignored_needs_a_reader_that_does_without(plan_of: Planner) -> None:
    rule = "    on_failure: {do: restart, then: ignore}\n    members:"
    stage = plan_of(ensemble().replace("    members:", rule)).stage("sim-1")
    assert stage.restart is not None and stage.restart.then == "ignore"
    assert stage.optional
    with pytest.raises(Exception, match="the others cannot go on without sim-1: read-1 reads its stream field-1"):
        plan_of(ensemble(collect="each").replace("    members:", rule))


PAIRS = """
stages:
  sim:
    members: 3
    command: [sim, "${{ streams.field.path }}"]
    writes: {field: {}}
  read:
    members: [{at: 5}, {at: 6}, {at: 7}]
    command: [read, "${{ member.at }}", "${{ streams.field.path }}"]
    reads: {field: {}}
streams:
  field: {from: sim, to: read, collect: HOW, via: sst}
"""


@pytest.mark.parametrize(
    ("how", "written_by"),
    [
        ("neighbour", [0, 1, 2]),
        ("{neighbour: 0}", [0, 1, 2]),
        ("{neighbour: 1}", [2, 0, 1]),
        ("{neighbour: 2}", [1, 2, 0]),
        ("{neighbour: -1}", [1, 2, 0]),
        ("each", [0, 1, 2]),
    ],
)
def test_members_read_members(how: str, written_by: list[int], plan_of: Planner) -> None:
    plan = plan_of(PAIRS.replace("HOW", how))
    expected = {f"field-{writer}": (f"sim-{writer}", [f"read-{reader}"]) for reader, writer in enumerate(written_by)}
    assert links(plan) == expected
    for reader, writer in enumerate(written_by):
        path = f"${{{{ run.dir }}}}/streams/field-{writer}"
        assert plan.stage(f"read-{reader}").program == ["read", str(5 + reader), path]
        assert plan.stage(f"sim-{writer}").program == ["sim", path]
        assert end_of(plan, f"read-{reader}", f"field-{writer}").port == "field"


def test_pairs_run_at_once_as_pairs(plan_of: Planner) -> None:
    text = PAIRS.replace("HOW", "neighbour").replace("members: 3", "members: {count: 3, at_once: 1}")
    plan = plan_of(text)
    assert sorted(plan.stage("sim-1").starts_after) == ["read-0", "sim-0"]
    assert sorted(plan.stage("read-2").starts_after) == ["read-1", "sim-1"]


def test_the_members_of_one_stage_in_a_circle(plan_of: Planner) -> None:
    plan = plan_of("""
stages:
  sim: {members: 3, command: [sim], writes: {right: {}}, reads: {left: {}}}
streams:
  edge: {from: sim.right, to: sim.left, collect: {neighbour: 1}, via: sst}
""")
    assert links(plan) == {f"edge-{at}": (f"sim-{at}", [f"sim-{(at + 1) % 3}"]) for at in range(3)}
    assert end_of(plan, "sim-0", "edge-2").port == "left"
    assert end_of(plan, "sim-0", "edge-0").port == "right"
