"""What watching costs, in calls of functions: as much as what has changed, however many stages there are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from tests.support.many_stages import pairs, running, steps_of_all
from workflow.run.lifecycle import step
from workflow.run.state.events import NodeSeen, StreamProgress, Tick


def calls(work: Callable[[], object]) -> int:
    """How many functions are called by that, those written in C included."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("find", ["stage", "stream"])
def test_finding_a_stage_or_a_stream_of_the_plan_takes_no_look_at_the_others(find: str) -> None:
    plan = pairs(1000)
    names = [each.name for each in (plan.stages if find == "stage" else plan.streams)]
    getattr(plan, find)(names[0])
    assert calls(lambda: [getattr(plan, find)(name) for name in names]) < 10 * len(names)


def test_copy_of_a_plan_finds_its_own_stages() -> None:
    plan = pairs(4)
    assert plan.stage("writer0").ranks == 1
    stages = [stage.model_copy(update={"ranks": 2}) for stage in plan.stages]
    copy = plan.model_copy(update={"stages": stages})
    assert (copy.stage("writer0").ranks, plan.stage("writer0").ranks) == (2, 1)
    assert plan.model_validate_json(plan.to_json()) == plan, "what is kept beside the fields does not count"
    with pytest.raises(KeyError):
        plan.stage("nobody")


def test_a_tick_costs_the_same_with_1000_stages() -> None:
    few, many = running(10), running(1000)
    ticks = [calls(lambda run=run: step(run.state, Tick(2.0))) for run in (few, many)]  # type: ignore[misc]
    assert ticks[0] == ticks[1] < 120


def test_a_node_that_reports_costs_the_same_with_1000_stages() -> None:
    few, many = running(10), running(1000)
    for run in (few, many):
        assert not run.state.plan.uses_node(5000)  # looked up once
    seen = [calls(lambda run=run: step(run.state, NodeSeen(2.0, 5000, "n5001"))) for run in (few, many)]  # type: ignore[misc]
    assert seen[0] == seen[1] < 150


def test_a_step_costs_the_same_with_1000_stages() -> None:
    few, many = running(10), running(1000)
    event = StreamProgress(2.0, "data0", "writer0", "write", 1, 8)
    steps = [calls(lambda run=run: step(run.state, event)) for run in (few, many)]  # type: ignore[misc]
    assert steps[0] == steps[1] < 150


def test_steps_of_all_stages_cost_as_much_as_there_are() -> None:
    few, many = running(10), running(1000)
    each = [
        calls(lambda run=run: step(run.state, *steps_of_all(run, 1, 2.0))) / len(run.state.ends)  # type: ignore[misc]
        for run in (few, many)
    ]
    assert each[1] <= each[0] < 100
