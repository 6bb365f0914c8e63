"""Which new values a stage of a running run may have, and when a program that reads a file has them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workflow.formats.steering_files import Value, ValueChange
from workflow.formatting import plural
from workflow.plan.plan_model import Plan, StagePlan
from workflow.plan.steerable_values import converted, last_value, values_mistake
from workflow.run.actions import Decisions, PassValues
from workflow.run.state.events import Event, StageSteered, SteeringAsked, SteeringRefused
from workflow.run.state.run_state import RunState
from workflow.spec.suggest import did_you_mean, listing


def refusal(state: RunState, stage: str, values: Mapping[str, Value], step: int | None) -> tuple[str, str] | None:
    """Why a stage cannot have new values from a step on, None: from the next one: (message, hint).

    What it has written is known for certain, what it computes now is not: the program has the last word.
    """
    members = [each.name for each in state.plan.stages if each.member is not None and each.member.ensemble == stage]
    if members:
        return f"{stage} has {plural(len(members), 'member')}", f"name one: {listing(members)}"
    if stage not in state.stages:
        known = [each.name for each in state.plan.stages if each.steer]
        return f"there is no stage `{stage}`", did_you_mean(stage, state.stages) or f"can be steered: {listing(known)}"
    plan, now = state.plan.stage(stage), state.stages[stage]
    if mistake := values_mistake(plan.steer, stage, values):
        return mistake
    if now.is_over or now.awaits_verdict:
        return f"{stage} has ended", ""
    if state.stopping is not None:
        return "the run is being stopped", ""
    files = [name for name in values if plan.steer[name].file]
    if files and step is not None:
        text = f"{stage} reads {files[0]} from a file, at a step that only its program knows"
        return text, "leave the step out"
    if step is not None and step < (done := newest_step(state, stage)):
        return f"step {step} has passed: {stage} has written {plural(done, 'step')}", f"a step from {done} on"
    if any(plan.steer[name].signal for name in files) and not _is_open(state, stage):
        return f"{stage} has no stream open, and the signal could end its program", "try again when it writes steps"
    return None


def newest_step(state: RunState, stage: str) -> int:
    """How many steps a stage has written or, where it writes none, read."""
    ends = state.ends_of(stage)
    written = [end.steps for end in ends if end.side == "write"]
    return max(written or [end.steps for end in ends], default=0)


def _is_open(state: RunState, stage: str) -> bool:
    ends = state.ends_of(stage)
    return any(end.opened is not None for end in ends) and any(end.closed is None for end in ends)


def pass_values(decisions: Decisions, asked: SteeringAsked) -> None:
    """Pass on what may be passed on, and refuse the rest."""
    if mistake := refusal(decisions.state, asked.stage, asked.values, asked.step):
        reason = "; ".join(filter(None, mistake))
        decisions.decide(SteeringRefused(decisions.t, asked.id, asked.stage, asked.values, asked.by, reason))
        return
    values = converted(decisions.state.plan.stage(asked.stage).steer, asked.values)
    decisions.actions.append(PassValues(asked.stage, ValueChange(asked.id, values, asked.step, asked.by)))


class KnownRequests:
    """The requests that a run knows: of earlier parts, and those that it has passed on or refused.

    A stage that is started again makes its requests again, with the ids that they had. They are not passed on again:
    others may have changed the values since then.
    """

    def __init__(self, plan: Plan) -> None:
        self._known = {(stage.name, id_) for stage in plan.stages for id_ in stage.answered}
        self._known |= {(stage.name, change.id) for stage in plan.stages for change in stage.changes}

    def without_known(self, events: Iterable[Event]) -> list[Event]:
        """The events without requests that are known; the others are known from now on."""
        found = []
        for event in events:
            if isinstance(event, SteeringAsked):
                if (event.stage, event.id) in self._known:
                    continue
                self._known.add((event.stage, event.id))
            found.append(event)
        return found


def to_asked(stage: str, change: ValueChange, t: float) -> SteeringAsked:
    """A request as an event."""
    return SteeringAsked(t, change.id, stage, dict(change.values), change.by, change.step)


def taken_from_file(state: RunState, stage: str, change: ValueChange, t: float) -> StageSteered | None:
    """That a program finds new values in its files, which have been written; None for one that says itself when it
    takes them."""
    plan = state.plan.stage(stage)
    new = {name: value for name, value in change.values.items() if plan.steer[name].file}
    if not new:
        return None
    old = {name: present_value(state, plan, name) for name in new}
    return StageSteered(t, change.id, stage, newest_step(state, stage), old, new, change.by, exact=False)


def present_value(state: RunState, plan: StagePlan, name: str) -> Value:
    """What a program that reads a file finds there now."""
    return state.steered.get(plan.name, {}).get(name, last_value(plan.steer, plan.changes, name))
