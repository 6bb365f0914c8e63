"""Whether stages are started again after a failure, or why not. Pure.

A failure that comes back at the same step is one of the program or of its data: it would come back again. A signal from
outside is not: nothing says that the step has to do with it.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence

from workflow.formatting import duration, plural
from workflow.launch.rank_ends import EndCause
from workflow.run.state.lifecycle_events import RestartDecided
from workflow.run.state.run_state import RunState
from workflow.run.verdict.end_causes import first_end
from workflow.run.verdict.failed_stages import lost_input, lost_text
from workflow.run.verdict.failure_origin import settled_at
from workflow.run.verdict.spare_nodes import ended_there_s

# The scheduler is ending more than the stage: a next attempt would end in the same way.
_OF_JOB: frozenset[EndCause] = frozenset({"cancelled", "preempted", "requeued", "time_limit"})
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def next_restart(state: RunState, culprit: str, t: float) -> RestartDecided | str:
    """The restart that follows from the failure of a stage, or why there is none; "" where its rule is to stop."""
    rule = state.plan.stage(culprit).restart
    if rule is None:
        return ""
    unit = _still_there(state, rule.stages)
    streams = [state.plan.stream(end.stream) for name in unit for end in state.plan.stage(name).ends]
    # A writer that is started again with them sends the steps itself.
    spools = {stream.spool for stream in streams if stream.writer not in unit}
    if gone := [name for name in state.failed if name in spools and name not in unit]:
        return f"{gone[0]}, which kept its steps, has failed"
    if writer := lost_input(state, culprit):
        return lost_text(writer)
    # Those that are started again by themselves are next.
    others = [name for name in state.failed if name not in unit and not state.plan.stage(name).optional]
    if others := [name for name in others if not _is_apart(state, name, unit)]:
        return f"{others[0]} has failed, too"
    if begun := [
        each.name for each in state.plan.stages if {*each.starts_after} & {*unit} and state.stages[each.name].started
    ]:
        return f"{begun[0]} reads its output, and has already begun"
    reason, step = state.stages[culprit].reason, current_step(state, culprit)
    before = [
        each for each in state.restarts if each.stage == culprit or _still_there(state, each.stages) == unit
    ]  # fmt: skip
    counted = [each for each in before if rule.within_s is None or t - each.t <= rule.within_s]
    lost = [node for name in unit for node in state.lost_under(name)]
    if not lost and (why := _ended_by_scheduler(state, culprit)):
        return why
    outside = state.stages[culprit].signal in _FROM_OUTSIDE or bool(lost)
    last, skips = before[-1] if before else None, None
    if last is not None and (last.stage, last.step) == (culprit, step) and not outside and not last.from_outside:
        if last.skips == step:
            return f"it failed at step {step}, which it was to skip"
        if rule.same_step == "stop" or not _has_begun(state, culprit, step):
            # The reason of this time is said of the stage anyway.
            return f"it failed twice at step {step}{_time_before(reason, last)}"
        skips = step
    if len(counted) >= rule.times:
        within = "" if rule.within_s is None else f" within {duration(rule.within_s)}"
        text = f"it was started again {plural(len(counted), 'time')}{within}: `on_failure.times` is {rule.times}"
        if skips is None and all(each.skips is None for each in counted):
            return text
        more = f"`--set stages.{culprit}.on_failure.times={2 * rule.times}` allows more"
        return f"{text}; each step that it skips takes two of them: {more}"
    # What is about to be started again, and shares stages with these, is started with them, and once.
    pending = [each for each in state.restarting if {*each.stages} & {*unit}]
    begun_with = {*unit, *(name for each in pending for name in each.stages)}
    stages = [stage.name for stage in state.plan.stages if stage.name in begun_with]
    times = [each.at for each in pending] + [node.silent_since + ended_there_s(state) for node in lost]
    at = max([t if not before else t + rule.backoff_s, *times])
    return RestartDecided(t, culprit, stages, reason, step, at, outside, skips)


def _still_there(state: RunState, stages: Sequence[str]) -> list[str]:
    """Those of these stages that are not left out for good."""
    return [name for name in stages if not state.stages[name].ignored]


def _is_apart(state: RunState, name: str, unit: Sequence[str]) -> bool:
    """Whether a stage that has failed, too, has a restart of its own that has nothing to do with these stages."""
    own = state.plan.stage(name).restart
    return own is not None and not {*own.stages} & {*unit}


def _ended_by_scheduler(state: RunState, name: str) -> str:
    """Why a stage is not started again that the scheduler has ended; "" where it has not."""
    said = first_end(state.stages[name].said)
    if said is None:
        return ""
    if said.cause == "node_lost":
        return "no guard has said which node was lost"
    return "its scheduler has ended it" if said.cause in _OF_JOB else ""


def _has_begun(state: RunState, name: str, step: int) -> bool:
    """Whether a stage may have had this step: it failed neither before the first one nor after the last one."""
    read = [end for end in state.ends_of(name) if end.side == "read"]
    return all(end.opened is not None and state.writer(end.stream).steps > step for end in read)


def _time_before(reason: str, before: RestartDecided) -> str:
    """Why a stage has failed the time before; "" where the reason was the same."""
    return "" if before.reason == reason else f"; the time before, it {before.reason}"


def skipped_steps(state: RunState) -> list[tuple[str, int, str]]:
    """(stage, step, why) for each step that a stage skips. Of those of earlier parts of the run nobody knows why."""
    reasons = {}
    for number, each in enumerate(state.restarts):
        before = next((one for one in reversed(state.restarts[:number]) if one.stage == each.stage), None)
        if each.skips is not None and before is not None:
            reasons[each.stage, each.skips] = each.reason + (_time_before(each.reason, before) or " both times")
    return [
        (name, step, reasons.get((name, step), "in an earlier part of the run"))
        for name, steps in state.skipped.items()
        for step in steps
    ]


def skip_warnings(state: RunState) -> list[str]:
    """What to say of the steps that are missing in what stages have written."""
    return [f"{name}: step {step} was skipped: {why}" for name, step, why in skipped_steps(state)]


def current_step(state: RunState, name: str) -> int:
    """The index of the step that a stage was at: the first one that it has not finished at all its inputs."""
    return min((end.steps for end in state.ends_of(name) if end.side == "read"), default=0)


def can_restart(state: RunState, name: str) -> bool:
    """Whether a stage that hangs may be ended for it."""
    return name in state.stages and state.plan.stage(name).restart is not None and state.stages[name].runs


def due_restarts(state: RunState, t: float) -> list[RestartDecided]:
    """Those that were decided, all of whose stages have ended, and whose time has come."""
    return [
        each for each in state.restarting
        if t >= restarts_at(state, each) and not any(state.stages[name].runs for name in each.stages)
    ]  # fmt: skip


def restarts_at(state: RunState, decided: RestartDecided) -> float:
    """When the next attempt begins: not before nothing is left on nodes that were lost since it was decided."""
    lost = [node for name in decided.stages for node in state.left_nodes(name)]
    return max([decided.at, *(node.silent_since + ended_there_s(state) for node in lost)])


def broken_spool(state: RunState, t: float) -> tuple[str, str] | None:
    """(spool, reader) where a spool has failed, by itself, and a stage that was started again reads from it."""
    for stream in state.plan.streams:
        if stream.spool in state.failed and (settled := settled_at(state, stream.spool)) is not None and t >= settled:
            for end in state.readers(stream.name):
                if end.from_spool and end.closed is None:
                    return stream.spool, end.stage
    return None
