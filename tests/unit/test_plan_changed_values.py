"""What was changed between two parts of a run."""

from __future__ import annotations

from tests.support.planner import CHAIN, Planner
from tests.support.sample_run import make_plan
from workflow.plan.changed_values import changed_settings


def test_equal_plans_have_no_changes() -> None:
    assert changed_settings(make_plan(), make_plan()) == []


def test_settings_are_named_with_what_they_were_and_are() -> None:
    before = make_plan()
    first = before.stages[0].model_copy(update={"parameters": {"n": 64}, "ranks": 2})
    stages = [first, *before.stages[1:]]
    old = before.stages[0].model_copy(update={"parameters": {"n": 32}})
    before = before.model_copy(update={"stages": [old, *before.stages[1:]]})
    changes = changed_settings(before, before.model_copy(update={"stages": stages}))
    name = first.name
    assert f"stages.{name}.parameters.n: 32 → 64" in changes
    assert len(changes) == 2 - (old.ranks == 2)


def test_where_a_part_begins_is_no_setting() -> None:
    plan = make_plan()
    stages = [
        stage.model_copy(update={"ends": [end.model_copy(update={"first_step": 7}) for end in stage.ends]})
        for stage in plan.stages
    ]
    assert changed_settings(plan, plan.model_copy(update={"stages": stages})) == []


def test_of_another_engine_only_that_is_said(plan_of: Planner) -> None:
    before, now = plan_of(), plan_of(CHAIN.replace("to: keep}", "to: keep, via: bp5}"))
    assert changed_settings(before, now) == ["streams.counts.via: sst → bp5"]


def test_sizes_follow_from_what_is_written(plan_of: Planner) -> None:
    before, now = plan_of(), plan_of(CHAIN.replace("variable: position", "variable: position, bins: 12"))
    assert changed_settings(before, now) == ["stages.count.parameters.bins: 10 → 12"]
