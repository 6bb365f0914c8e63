"""A tap that fails or hangs is reported, and the others go on. Pure."""

from __future__ import annotations

from workflow.run.state import RunState, lets_go_on


def can_be_ended(state: RunState, name: str) -> bool:
    """Whether a stage that hangs can be ended alone: the others go on without it, and none of them waits for it.

    The others do wait for one with `when_full: block`; those that wait fail when the deadline passes.
    """
    queues = [state.plan.stream(end.stream).queue for end in state.ends_of(name)]
    waited = any(queue is not None and queue.when_full == "block" for queue in queues)
    return lets_go_on(state.plan, state.stages, name) and state.stages[name].runs and not waited


def failed_taps(state: RunState) -> list[str]:
    """Failed stages without which the others went on: taps, and relays of taps."""
    return [name for name in state.failed if lets_go_on(state.plan, state.stages, name)]


def required_failures(state: RunState) -> list[str]:
    """Those of them that let the run fail in the end."""
    return [name for name in failed_taps(state) if not state.plan.stage(name).optional]


def tap_warnings(state: RunState) -> list[str]:
    """What to say of those without which the run succeeds."""
    hint = "the others went on without it (`required: true` in the tap makes this a failure)"
    failed = [name for name in failed_taps(state) if state.plan.stage(name).optional]
    return [f"{state.plan.stage(name).added} {name} {state.stages[name].reason}; {hint}" for name in failed]


def awaited_streams(state: RunState, name: str) -> list[str]:
    """The streams that a failed stage has not opened, for which their writers wait in open."""
    return [
        end.stream for end in state.ends_of(name)
        if end.side == "read" and end.opened is None and state.plan.stream(end.stream).traits.queued
        and not state.is_gone(state.plan.stream(end.stream).writer)
    ]  # fmt: skip
