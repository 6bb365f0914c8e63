"""`when` as an ordinary stage that selects, and an ordinary stream."""

from __future__ import annotations

import pytest

from tests.support.planner import Planner, end_of
from workflow.errors import SpecError
from workflow.plan.plan_model import Plan
from workflow.spec.models.pipeline import Queue

STREAM = "positions: {from: walk, to: count, STREAM}"
WHEN = f"""
stages:
  walk: {{component: walker}}
  count:
    component: tally
    with: {{variable: position}}
    when: {{stream: positions, variable: position, max: "> 0.9", before: 5, after: 10, times: once}}
    on_failure: RULE
  keep: {{component: keep}}
streams:
  {STREAM}
  counts: {{from: count, to: keep}}
"""


def text(stream: str = "via: sst", rule: str = "stop") -> str:
    return WHEN.replace("STREAM", stream).replace("RULE", rule)


def links(plan: Plan) -> dict[str, tuple[str, list[str]]]:
    return {stream.name: (stream.writer, stream.readers) for stream in plan.streams}


def test_a_stage_that_selects_is_between(plan_of: Planner) -> None:
    plan = plan_of(text())
    assert links(plan) == {
        "positions": ("walk", ["count-when"]), "count-when": ("count-when", ["count"]), "counts": ("count", ["keep"]),
    }  # fmt: skip
    stage = plan.stage("count-when")
    assert stage.component == "select"
    assert stage.parameters == {
        "variable": "position", "max": "> 0.9", "min": "", "mean": "", "step": "", "before": 5, "after": 10,
        "times": "once",
    }  # fmt: skip
    assert stage.placement.cores_per_rank == 0
    assert end_of(plan, "count-when", "positions").port == "input"
    assert end_of(plan, "count-when", "count-when").passes == "input"
    assert end_of(plan, "count", "count-when").port == "positions"


def test_other_readers_and_streams_are_as_without_it(plan_of: Planner) -> None:
    other = "all: {component: keep, with: {path: all.bp}"
    many = text().replace("to: count,", "to: [all, count.positions],").replace("stages:", f"stages:\n  {other}}}")
    assert links(plan_of(many))["positions"] == ("walk", ["all", "count-when"])
    found = links(plan_of(many.replace(other, f"{other}, when: {{stream: positions, step: 3}}")))
    assert found["positions"] == ("walk", ["all-when", "count-when"])
    assert (found["all-when"], found["count-when"]) == (("all-when", ["all"]), ("count-when", ["count"]))


def test_the_selected_steps_take_the_same_way_and_none_is_discarded(plan_of: Planner) -> None:
    plan = plan_of(text("via: sst, queue: {limit: 7, when_full: discard}"))
    queues = {stream.name: stream.queue for stream in plan.streams}
    assert queues["positions"] == Queue(limit=7, when_full="discard")
    assert queues["count-when"] == Queue(limit=7, when_full="block")
    files = plan_of(text("via: bp5, keep: false"))
    assert {stream.name: (stream.engine, stream.coupling) for stream in files.streams if stream.name != "counts"} == {
        "positions": ("BP5", "after"), "count-when": ("BP5", "after"),
    }  # fmt: skip
    assert plan_of(text(), via="bp5").stream("count-when").engine == "BP5"


def test_failures_of_the_stage(plan_of: Planner) -> None:
    restarted = plan_of(text("keep: true", "restart"))
    assert restarted.stream("count-when").spool == "count-when-spool"
    assert restarted.stage("count-when").restart is None
    plan = plan_of(text("keep: true"))
    assert (plan.stream("count-when").spool, plan.stream("positions").spool != "") == ("", True)


def test_what_is_ignored_is_ignored_with_what_selects_for_it(plan_of: Planner) -> None:
    plan = plan_of("""
stages:
  walk: {component: walker}
  keep: {component: keep, when: {stream: positions, step: 3}, on_failure: ignore}
streams:
  positions: {from: walk, to: keep}
""")
    assert plan.stage("keep").optional and plan.stage("keep-when").optional


def test_a_program_finds_its_steps_under_the_name_of_the_stream(plan_of: Planner) -> None:
    plan = plan_of("""
stages:
  walk: {component: walker}
  own: {command: [own, "${{ streams.positions.path }}"], when: {stream: positions, step: 3}}
streams:
  positions: {from: walk, to: own}
""")
    assert plan.stage("own").program[-1].endswith("/streams/own-when")


def test_the_port_that_is_named_as_the_stream_is_still_the_one(plan_of: Planner) -> None:
    plan = plan_of("""
stages:
  walk: {component: walker}
  also: {component: walker}
  own:
    command: [own]
    reads: {positions: {}, others: {}}
    when: {stream: positions, step: 3}
streams:
  positions: {from: walk, to: own}
  others: {from: also, to: own}
""")
    assert (end_of(plan, "own", "own-when").port, end_of(plan, "own", "others").port) == ("positions", "others")


def test_each_member_has_a_trigger_of_its_own(plan_of: Planner) -> None:
    plan = plan_of("""
stages:
  walk: {component: walker, members: 2}
  count:
    component: tally
    members: [{least: 1}, {least: 2}]
    with: {variable: position}
    when: {stream: positions, variable: position, max: "> ${{ member.least }}"}
  keep: {component: keep}
streams:
  positions: {from: walk, to: count, collect: each}
  counts: {from: count, to: keep, collect: any}
""")
    found = links(plan)
    for index in range(2):
        assert found[f"positions-{index}"] == (f"walk-{index}", [f"count-when-{index}"])
        assert found[f"count-when-{index}"] == (f"count-when-{index}", [f"count-{index}"])
        stage = plan.stage(f"count-when-{index}")
        assert stage.parameters["max"] == f"> {index + 1}"
        assert stage.member is not None and stage.member.ensemble == "count-when"


def test_it_selects_from_what_members_are_merged_to(plan_of: Planner) -> None:
    plan = plan_of("""
stages:
  walk: {component: walker, members: 2}
  keep: {component: keep, when: {stream: positions, step: 3}}
streams:
  positions: {from: walk, to: keep, collect: any}
""")
    found = links(plan)
    assert found["positions"] == ("positions-merge", ["keep-when"])
    assert found["keep-when"] == ("keep-when", ["keep"])


def test_a_mistake_in_the_stream_of_a_member_is_said_once_and_in_the_words_of_the_file(plan_of: Planner) -> None:
    with pytest.raises(SpecError) as caught:
        plan_of("""
stages:
  walk: {component: walker, members: 2}
  keep: {component: keep, members: 2, when: {stream: position, step: 3}}
streams:
  positions: {from: walk, to: keep, collect: each}
""")
    (problem,) = caught.value.problems
    assert (problem.key, problem.line) == ("stages.keep.when.stream", 6)
    assert problem.message == "there is no stream `position` (both members)"
    assert problem.hint == "did you mean `positions`?"


def test_the_origin_of_what_was_added_is_the_trigger(plan_of: Planner) -> None:
    origins = plan_of.load(text("queue: {limit: 7}")).origins
    assert origins.written("stages.count-when") == "stages.count.when"
    assert origins.written("stages.count-when.with.max") == "stages.count.when.max"
    assert origins.written("streams.count-when.via") == "streams.positions.via"
    assert origins.written("streams.count-when.queue.limit") == "streams.positions.queue.limit"
    assert origins.written("streams.count-when.queue.when_full") == "stages.count.when"
