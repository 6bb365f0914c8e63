"""A stage that nobody needs, such as a tap, is reported when it fails or hangs, and the others go on. Pure."""

from __future__ import annotations

from workflow.run.state.run_state import RunState, lets_go_on


def can_be_ended(state: RunState, name: str) -> bool:
    """Whether a stage that hangs can be ended alone: the others go on without it, and none of them waits for it.

    The others do wait for one with `when_full: block`; those that wait fail when the deadline passes.
    """
    queues = [state.plan.stream(end.stream).queue for end in state.ends_of(name)]
    waited = any(queue is not None and queue.when_full == "block" for queue in queues)
    return lets_go_on(state.plan, state.stages, name) and state.stages[name].runs and not waited


def failed_taps(state: RunState) -> list[str]:
    """Failed stages without which the others went on: taps, relays of taps, spools, and those that may be ignored."""
    return [name for name in state.failed if lets_go_on(state.plan, state.stages, name)]


def required_failures(state: RunState) -> list[str]:
    """Those of them that let the run fail in the end."""
    return [name for name in failed_taps(state) if not state.plan.stage(name).optional]


def tap_warnings(state: RunState) -> list[str]:
    """What to say of those without which the run succeeds."""
    found = []
    for stage in (state.plan.stage(name) for name in failed_taps(state)):
        why = "`on_failure: ignore`" if stage.added is None else "`required: true` in the tap makes this a failure"
        if stage.added == "spool":
            why = "stages behind it are not started again any more"
        who = f"{stage.added} {stage.name}" if stage.added else stage.name
        if stage.optional:
            found.append(f"{who} {state.stages[stage.name].reason}; the others went on without it ({why})")
    return found


def awaited_streams(state: RunState, name: str) -> list[str]:
    """The streams that a failed stage has not opened, for which their writers wait in open."""
    return [
        end.stream for end in state.ends_of(name)
        if end.side == "read" and end.opened is None and state.plan.stream(end.stream).traits.queued
        and not state.is_gone(state.plan.stream(end.stream).writer)
    ]  # fmt: skip
