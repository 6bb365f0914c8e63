"""A tap that fails or hangs is reported, and the others go on. Pure."""

from __future__ import annotations

from workflow.plan.plan_model import Plan
from workflow.run.state import RunState


def is_spare(plan: Plan, name: str) -> bool:
    """Whether nothing else depends on a stage: a tap that no stream begins at, and that has a launcher of its own."""
    alone = all(name not in group.stages for group in plan.groups)
    return alone and plan.stage(name).added == "tap" and all(stream.writer != name for stream in plan.streams)


def lets_go_on(state: RunState, name: str) -> bool:
    """Whether the others go on without a stage that failed.

    One that fails before its stream is open stops the run: a mistake in what was asked for shows at once, and its
    relay would wait for it for ever.
    """
    return is_spare(state.plan, name) and state.stages[name].opened is not None


def can_be_ended(state: RunState, name: str) -> bool:
    """Whether a stage that hangs can be ended alone: the others go on without it, and none of them waits for it.

    One with `when_full: block` is waited for, as was asked, and those that wait give up when the deadline passes.
    """
    queues = [state.plan.stream(end.stream).queue for end in state.ends_of(name)]
    waited = any(queue is not None and queue.when_full == "block" for queue in queues)
    return lets_go_on(state, name) and state.stages[name].runs and not waited


def failed_taps(state: RunState) -> list[str]:
    """Failed stages without which the others went on."""
    return [stage.name for stage in state.stages.values() if stage.status == "failed" and lets_go_on(state, stage.name)]
