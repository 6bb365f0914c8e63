"""All ways in which a run can fail while its stages run: each is a function here, or in `passed_deadlines`. Pure.

To add one, write a function that returns a `RunFailure`, and call it in `failure_reported` (something has been
reported) or in `passed_deadlines.failure_by_deadline` (time has passed). How a stage can fail by its exit is in
`completion_check`; which of several failed stages is the cause is in `failure_origin`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workflow.run.state.events import Event, NoRankStarted, StreamTransport, StreamTrouble
from workflow.run.state.lifecycle_events import Deadline
from workflow.run.state.run_state import RunState
from workflow.run.verdict.broken_streams import broken_stream
from workflow.run.verdict.failed_stages import others_go_on
from workflow.run.verdict.transport_check import wrong_transport
from workflow.run.verdict.wait_diagnosis import deadlock, diagnose


@dataclass(frozen=True)
class RunFailure:
    """Why the run must stop. `stage` is the cause; `deadline` is set if a deadline has passed."""

    stage: str
    text: str
    deadline: Deadline | None = None
    reported: bool = False
    """Whether a stage noticed the deadline, not the supervisor."""


def failure_reported(state: RunState, events: Sequence[Event], t: float) -> RunFailure | None:
    """A failure that follows from what a stage or the log of ADIOS2 has reported."""
    if any(isinstance(event, StreamTransport) for event in events):
        wrong = wrong_transport(state)
        if wrong is not None:
            return RunFailure(*wrong)
    for event in events:
        if isinstance(event, NoRankStarted):
            limit = f"within {state.plan.deadlines.start:g} s (`deadlines.start`)"
            return RunFailure(event.stage, f"{event.launcher} has started no rank of {event.stage} {limit}", "start")
        if isinstance(event, StreamTrouble) and event.trouble in ("misplaced", "copies"):
            return RunFailure(event.stage, event.text)
    return _reported_timeout(state, t)


def failure_by_deadlock(state: RunState, t: float) -> RunFailure | None:
    """Stages that wait for each other for ever, if that is certain: no deadline need pass."""
    found = deadlock(state, t)
    return None if found is None else RunFailure(*found)


def failure_by_loss(state: RunState) -> RunFailure | None:
    """A stream whose steps do not arrive any more, by the counts of its two ends."""
    found = broken_stream(state)
    return None if found is None else RunFailure(*found)


def _reported_timeout(state: RunState, t: float) -> RunFailure | None:
    """Stages that use `workflow.stage` have the deadlines of the run, and may notice first that one has passed."""
    # In the plan's order: stages that time out at the same time are found in any order.
    for end in [state.ends[key] for key in state.ends if key in state.timeouts] if state.timeouts else []:
        stage, chain = diagnose(state, end.stage, t)
        if stage == end.stage and others_go_on(state, stage):
            continue  # it ends for that
        if state.stages[stage].runs or state.stages[state.writer(end.stream).stage].runs:
            deadline: Deadline = "start" if end.opened is None else "step"
            return RunFailure(stage, f"{end.trouble_text}: {chain}", deadline, reported=True)
    return None
