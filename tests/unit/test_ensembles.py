"""`members` and `collect` as ordinary stages and streams, and where the members go."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from tests.support.planner import SITE, Planner, end_of
from workflow.errors import SpecError
from workflow.plan.plan_model import Plan
from workflow.spec.models.ensembles_and_triggers import DrawnValue, Ensemble

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


DRAWN = {"count": 3, "draw": {"F": {"from": 0.03, "to": 0.05}}, "seed": 7}
VALUES = [0.0323982614656, 0.032049483484, 0.0340083436278]


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


def test_members_without_streams(plan_of: Planner) -> None:
    plan = plan_of('stages: {sim: {command: [sim, "${{ member.index }}"], members: 2}}')
    assert [stage.program for stage in plan.stages] == [["sim", "0"], ["sim", "1"]]


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


def test_ensembles_are_packed_apart_from_each_other_and_by_their_gpus(plan_of: Planner) -> None:
    site = SITE.model_copy(update={"nodes": 7, "cores_per_node": 4, "gpus_per_node": 3, "gpu_variable": "GPUS"})
    plan = plan_of(
        """
stages:
  small: {command: [./a], members: 4, ranks: 2}
  with_gpus: {command: [./b], members: 2, place: {gpus_per_rank: 2}}
  large: {command: [./c], members: 2, ranks: 4}
  one: {command: [./d], members: 1, ranks: 4}
""",
        site=site,
    )
    assert [stage.placement.nodes for stage in plan.stages] == [[(at, at + 1)] for at in (0, 0, 1, 1, 2, 3, 4, 5, 6)]


@pytest.mark.parametrize(
    ("members", "via", "said"),
    [
        ("3", "hdf5", "wf cannot see the steps of a stream by HDF5 (all 3 members)\n  use `via: bp5` or `via: sst`"),
        (
            "{count: 3, at_once: 1}", "sst",
            "`at_once` of sim: the reader would wait for members that have not begun (2 of 3 members: sim-1, sim-2)\n"
            "  use `via: bp5`, or remove `at_once`",
        ),
    ],
)  # fmt: skip
def test_streams_that_cannot_be_merged_as_they_come(members: str, via: str, said: str, plan_of: Planner) -> None:
    with pytest.raises(SpecError) as caught:
        plan_of(ensemble(members).replace("collect: any", f"collect: any, via: {via}"))
    assert str(caught.value).endswith(f"streams.field.via: {said}"), str(caught.value)


def test_a_member_that_begins_later_waits_for_what_it_waits_for_anyhow(plan_of: Planner) -> None:
    text = ensemble("{count: 2, at_once: 1}")
    text = text.replace("stages:", "stages:\n  first: {command: [first], writes: {f: {}}}")
    text = text.replace("    writes: {field: {}}\n", "    writes: {field: {}}\n    reads: {f: {}}\n")
    plan = plan_of(text.replace("streams:", "streams:\n  f: {from: first, to: sim, via: bp5}"))
    assert [plan.stage(f"sim-{index}").starts_after for index in range(2)] == [["first"], ["first", "sim-0"]]


@pytest.mark.parametrize(
    ("nodes", "cores", "fit"), [(1, 4, "at_once: 3"), (1, 1, ""), (2, 1, "at_once: N")], ids=["one", "none", "nodes"]
)
def test_too_many_for_the_cores_says_how_many_would_fit_at_once(
    nodes: int, cores: int, fit: str, plan_of: Planner
) -> None:
    site = SITE.model_copy(update={"nodes": nodes, "cores_per_node": cores})
    text = ensemble("7").replace("{command: [read],", "{command: [read], place: {cores_per_rank: 1},")
    with pytest.raises(SpecError) as caught:
        plan_of(text, site=site)
    hint = caught.value.problems[0].hint
    assert ("run fewer members at the same time" in hint) == bool(fit)
    assert fit in hint
    if fit == "at_once: 3":
        plan_of(text.replace("members: 7", "members: {count: 7, at_once: 3}"), site=site)


def test_drawn_values_follow_from_the_seed_the_name_and_the_number() -> None:
    found = Ensemble.model_validate(DRAWN)
    # Written down: they are the same on each machine and with each version of Python.
    assert [each["F"] for each in found.each] == VALUES
    more = {"count": 9, "draw": {"k": {"from": 1, "to": 2}, "F": {"from": 0.03, "to": 0.05}}, "seed": 7}
    assert [each["F"] for each in Ensemble.model_validate(more).each][:3] == VALUES  # others change nothing
    other = Ensemble.model_validate({**DRAWN, "seed": 8})
    assert not {*VALUES} & {each["F"] for each in other.each}


def test_a_range_is_drawn_evenly_and_its_ends_are_not_left() -> None:
    def shares(**keys: object) -> list[float]:
        return [float(each["x"]) for each in Ensemble.model_validate({"count": 4000, "draw": {"x": keys}}).each]

    linear = shares(**{"from": -1, "to": 3})
    assert all(-1 <= value <= 3 for value in linear)
    assert abs(sum(linear) / 4000 - 1.0) < 5 * (4 / 12**0.5) / 4000**0.5
    decades = Counter(math.floor(math.log10(value)) for value in shares(**{"from": 0.01, "to": 100, "scale": "log"}))
    assert decades.keys() == {-2, -1, 0, 1}
    assert all(abs(count - 1000) < 5 * 750**0.5 for count in decades.values())
    dice = Counter(shares(**{"from": 1, "to": 6, "whole": True}))
    assert dice.keys() == {1, 2, 3, 4, 5, 6}
    assert all(abs(count - 4000 / 6) < 5 * 556**0.5 for count in dice.values())
    for value in (0.0, 1 - 2.0**-53):
        for scale in ("linear", "log"):
            whole = DrawnValue.model_validate({"from": 3, "to": 1000, "whole": True, "scale": scale}).at(value)
            assert (whole, type(whole)) == (3 if value == 0.0 else 1000, int)


def test_a_member_that_is_ignored_needs_a_reader_that_does_without(plan_of: Planner) -> None:
    rule = "    on_failure: {do: restart, then: ignore}\n    members:"
    stage = plan_of(ensemble().replace("    members:", rule)).stage("sim-1")
    assert stage.restart is not None and stage.restart.then == "ignore"
    assert stage.optional
    with pytest.raises(Exception, match=r"without sim-0: read-0 reads its stream field-0 \(all 3 members\)"):
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


def test_the_collected_stream_is_kept_and_not_those_of_the_members(plan_of: Planner) -> None:
    """Each kept stream is one more reader; what keeps nothing keeps nothing of the members either."""
    plan = plan_of(ensemble("2").replace("collect: any", "collect: all, via: sst, keep: true"))
    assert [stream.name for stream in plan.streams if stream.spool] == ["field"]
    plan = plan_of(ensemble("2").replace("collect: any", "collect: all, via: bp5, keep: false"))
    assert not any(stream.keep for stream in plan.streams if stream.name.startswith("field"))
