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
    """Failed stages without which the others went on."""
    return [name for name in state.failed if lets_go_on(state.plan, state.stages, name)]
