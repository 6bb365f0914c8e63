"""Which new values a stage of a running run may have: pure."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.chains import chain
from tests.support.imagined_run import Run
from workflow.formats.steering_files import ValueChange
from workflow.plan.plan_model import ChangePlan, Plan, SteerPlan
from workflow.run.actions import PassValues
from workflow.run.state.events import Interrupted, SteeringAsked, SteeringRefused
from workflow.run.steering_requests import newest_step, refusal, taken_from_file

STEER = {
    "feed": SteerPlan(type="float", value=0.03, minimum=0, maximum=0.1, unit="1/s"),
    "count": SteerPlan(type="int", value=3, minimum=1),
    "mode": SteerPlan(type="string", value="slow", choices=["slow", "fast"]),
    "on": SteerPlan(type="bool", value=False),
}
OF_FILE = {"feed": SteerPlan(type="float", value=0.03, file="/r/control.txt", around=["", ""], signal="USR1")}


def plan(steer: dict[str, SteerPlan], changes: list[ChangePlan] | None = None) -> Plan:
    """md → saxs → keep; md can be steered."""
    made = chain("sst", start=1e6, step=1e6, warn=1e6, run=1e6)
    update = {"steer": steer, "changes": changes or []}
    stages = [stage.model_copy(update=update if stage.name == "md" else {}) for stage in made.stages]
    return made.model_copy(update={"stages": stages})


def asked(run: Run, stage: str = "md", step: int | None = None, **values: Any) -> str:
    """Ask for values; why they are refused, or nothing."""
    before = len(run.decisions(SteeringRefused))
    run.feed(SteeringAsked(run.t, "1", stage, values, "ada@n1", step))
    refused = run.decisions(SteeringRefused)[before:]
    return "".join(each.reason for each in refused)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"feed": 0.05, "count": 4, "mode": "fast", "on": True}, ""),
        ({"feed": 0}, ""),
        ({"feed": 0.2}, "md: feed: expected at most 0.1 (1/s), got 0.2; it is declared from 0 to 0.1"),
        ({"feed": float("nan")}, "md: feed: expected a finite number, got nan; for example `feed=0.03`"),
        ({"feed": True}, "md: feed: expected a number, got true; for example `feed=0.03`"),
        ({"count": 0}, "md: count: expected at least 1, got 0; the pipeline declares this bound"),
        ({"count": 1.5}, "md: count: expected a whole number, got 1.5; for a value that takes fractions declare the "
                         "one at the start as `3.0`"),
        ({"mode": "quick"}, 'md: mode: expected one of fast, slow, got "quick"; for example `mode=slow`'),
        ({"on": 1}, "md: on: expected true or false, got 1; for example `on=false`"),
        ({"fed": 1}, "md declares no value `fed` to steer; did you mean `feed`?"),
        ({"feed": 0.05, "x": 1}, "md declares no value `x` to steer; these can be changed: count, feed, mode, on"),
    ],
)  # fmt: skip
def test_values_are_those_that_the_stage_declares(values: dict[str, Any], expected: str) -> None:
    run = Run(plan(STEER)).open_all()
    assert asked(run, **values) == expected
    assert len(run.values) == (expected == "")


def test_what_is_passed_on_has_the_declared_type() -> None:
    run = Run(plan(STEER)).open_all()
    asked(run, step=7, feed=0)
    assert run.values == [PassValues("md", ValueChange("1", {"feed": 0.0}, 7, "ada@n1"))]
    assert isinstance(run.values[0].change.values["feed"], float)


def test_a_step_that_is_written_has_passed() -> None:
    run = Run(plan(STEER)).open_all().steps(atoms_md=5)
    assert newest_step(run.state, "md") == 5
    assert asked(run, step=4, feed=0.05) == "step 4 has passed: md has written 5 steps; a step from 5 on"
    assert asked(run, step=5, feed=0.05) == "", "the stage may not have begun it: it has the last word"


def test_who_cannot_take_it_any_more() -> None:
    run = Run(plan(STEER))
    assert asked(run, feed=0.05) == "", "before its streams are open it finds it when it begins"
    run.open_all().steps(atoms_md=3, atoms_saxs=3)
    assert asked(run, "saxs", feed=0.05).startswith("no value of saxs can be changed while it runs")
    assert asked(run, "sax", feed=0.05) == "there is no stage `sax`; did you mean `saxs`?"
    assert asked(run, "x", feed=0.05) == "there is no stage `x`; can be steered: md"
    stopped = Run(plan(STEER)).open_all()
    stopped.feed(Interrupted(stopped.t, "SIGINT"))
    assert asked(stopped, feed=0.05) == "the run is being stopped"
    run.feed(*run.done("md", 3))
    assert asked(run, feed=0.05) == "md has ended"


def test_a_program_that_reads_a_file() -> None:
    run = Run(plan(OF_FILE, [ChangePlan(id="files", values={"feed": 0.04}, step=None, by="part1")]))
    assert "md has no stream open, and the signal could end its program" in asked(run, feed=0.05)
    run.open_all().steps(atoms_md=5)
    assert "at a step that only its program knows" in asked(run, step=9, feed=0.05)
    assert refusal(run.state, "md", {"feed": 0.05}, None) is None
    taken = taken_from_file(run.state, "md", ValueChange("1", {"feed": 0.05}, None, "ada"), 9.0)
    assert taken is not None
    assert (taken.step, taken.old, taken.new, taken.exact) == (5, {"feed": 0.04}, {"feed": 0.05}, False)
    run.feed(taken)
    again = taken_from_file(run.state, "md", ValueChange("2", {"feed": 0.06}, None, "ada"), 9.0)
    assert again is not None and again.old == {"feed": 0.05}
