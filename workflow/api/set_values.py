"""Changing values of a stage while its run goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from workflow.errors import RunError
from workflow.formats.steering_files import Value, ValueChange
from workflow.formatting import plural

if TYPE_CHECKING:
    from workflow.plan.plan_model import Plan

# So long a supervisor may take to read a request, and a stage to begin its next step, until nobody waits any more.
WAIT_S = 30.0
# Who waits for longer is told for what.
SILENT_S = 1.0
# A stage that has a step to come notes within this time that it has passed.
LOOK_S = 3.0


class Steered(NamedTuple):
    """What a stage has taken: from this step on it computes with `new` instead of `old`; `is_exact`: not of a program
    that reads a file, of which the step is known by about."""

    stage: str
    step: int
    old: Mapping[str, Value]
    new: Mapping[str, Value]
    is_exact: bool = True


def set_values(
    run_dir: Path,
    plan: Plan,
    stage: str,
    values: Mapping[str, Any],
    at_step: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Steered | None:
    """Change values of a stage of a running run, and wait until it has taken them.

    Args:
        run_dir, plan: of the run, as `find_running` finds it.
        stage: its name.
        values: name → new value.
        at_step: the first step that is computed with them, counted from 0; None: the next one.
        say: is told once what this waits for, if that takes longer than SILENT_S.

    Returns:
        What it has taken; None where it takes it later: at `at_step`, or at the end of a long step.

    Raises:
        RunError: it is refused, with the reason, or the run has ended before.
    """
    from workflow.run.control.follow import follow_events
    from workflow.run.records.control_requests import ask_for_values, requester
    from workflow.run.records.events_file import read_events
    from workflow.run.state.events import StageSteered, SteeringAsked, SteeringRefused
    from workflow.run.state.reducer import fold
    from workflow.run.state.run_state import initial_state
    from workflow.run.steering_requests import refusal

    if not values:
        raise RunError(f"no value of {stage} is given", f"for example `stages.{stage}.steer.NAME=VALUE`")
    if at_step is not None and (isinstance(at_step, bool) or not isinstance(at_step, int) or at_step < 0):
        raise RunError(f"at_step: expected the number of a step, counted from 0, got {at_step!r}")
    state = fold(initial_state(plan), read_events(run_dir))
    if mistake := refusal(state, stage, values, at_step):
        raise RunError(*mistake)
    change = ValueChange(os.urandom(6).hex(), dict(values), at_step, requester())
    ask_for_values(run_dir, stage, change)
    begin, waits_for, has_said = time.monotonic(), f"the supervisor of {run_dir.name}", False
    deadline = begin + WAIT_S
    for stored in follow_events(run_dir):
        for event in (each.event for each in stored):
            if isinstance(event, SteeringAsked) and event.id == change.id:
                waits_for = f"the next step of {stage}"
                if at_step is not None:
                    deadline = time.monotonic() + LOOK_S
                    waits_for = f"{stage} to say whether step {at_step} is yet to come"
            if isinstance(event, SteeringRefused) and event.id == change.id:
                raise RunError(f"{run_dir.name} has refused it: {event.reason}")
            if isinstance(event, StageSteered) and event.id == change.id:
                return Steered(stage, event.step, event.old, event.new, event.exact)
        if time.monotonic() > deadline:
            return None
        if not has_said and time.monotonic() - begin > SILENT_S:
            say(f"waiting for {waits_for}, {deadline - time.monotonic():.0f} s at most")
            has_said = True
    raise RunError(f"{run_dir.name} has ended before {stage} took {plural(len(values), 'value')}")
