"""Which deadline of `deadlines:` has passed: start, step, exit, run, and which stage is the cause. Pure.

To add one, write a function that returns a `RunFailure`, and call it in `failure_by_deadline`. A deadline that a stage
has noticed first is in `failure_checks`.
"""

from __future__ import annotations

from collections.abc import Iterator

from workflow.run.state.run_state import EndState, RunState
from workflow.run.verdict.failed_stages import can_be_ended, tolerated_failures
from workflow.run.verdict.failure_checks import RunFailure
from workflow.run.verdict.stall_detection import (
    LATE_S,
    Silences,
    find_stalls,
    find_unended,
    idle_since,
    unended_text,
)
from workflow.run.verdict.wait_diagnosis import diagnose

# Of `deadlines.start`: until then a tap has to open its stream.
_TAP_SHARE = 0.8


def failure_by_deadline(state: RunState, silences: Silences, t: float) -> RunFailure | None:
    """The first deadline that has passed."""
    found = _start_deadline(state, t) or _reopened(state) or _step_deadline(state, silences, t)
    return found or _exit_deadline(state, t) or _run_deadline(state, t)


def first_open_limit(state: RunState) -> float:
    """Seconds after which a stage that has not opened its streams may be ended: a tap before the deadline, which the
    other readers of its relay would reach while they wait for it."""
    has_tap = any(stage.added == "tap" for stage in state.plan.stages)
    return state.plan.deadlines.start * (_TAP_SHARE if has_tap else 1.0)


def _start_deadline(state: RunState, t: float) -> RunFailure | None:
    limit, first = state.plan.deadlines.start, first_open_limit(state)
    for name, begin in opening_stages(state):
        if state.waited_s(begin) <= first:
            continue
        stage, chain = diagnose(state, name, t)
        # Who waits for a stage that was started again gives it the time of its new attempt.
        begin = max(begin, _started_again(state, stage, t))
        waited_s = state.waited_s(begin)
        if waited_s <= first:
            continue
        if waited_s > limit or can_be_ended(state, stage):
            passed = limit if waited_s > limit else first
            return RunFailure(stage, f"streams not open within {passed:g} s: {chain}", "start")
    return None


def _reopened(state: RunState) -> RunFailure | None:
    for end, since in reopened_streams(state):
        if since < state.back(state.plan.deadlines.start):
            readers = state.plan.stream(end.stream).readers
            ended = f"{' and '.join(readers)} {'has' if len(readers) == 1 else 'have'} ended"
            text = (
                f"{end.stage} has opened {end.stream} anew, after it had closed it, and waits for a reader, but {ended}"
            )
            hint = "a stream in memory ends when it is closed; keep it open for all steps, or use `via: bp5`"
            return RunFailure(end.stage, f"{text}: {hint}", "start")
    return None


def reopened_streams(state: RunState) -> Iterator[tuple[EndState, float]]:
    """Writing ends of streams in memory that were opened anew, after they had been closed, and since when all of their
    readers have ended (Unix seconds): nobody will read them."""
    for end in state.ends.values():
        again = end.reopened
        if end.side == "read" or again is None or not state.stages[end.stage].runs:
            continue
        stream = state.plan.stream(end.stream)
        exits = [state.stages[reader].exited for reader in stream.readers]
        if stream.traits.in_memory and None not in exits:
            yield end, max([again, *(each for each in exits if each is not None)])


def _started_again(state: RunState, name: str, t: float) -> float:
    """When the newest attempt of a stage was started, or is about to be; 0: it is the first one."""
    stage = state.stages.get(name)
    if stage is None or stage.attempt == 1:
        return 0.0
    return t if stage.started is None else stage.started


def _step_deadline(state: RunState, silences: Silences, t: float) -> RunFailure | None:
    limit = state.plan.deadlines.step
    stall = None if limit is None else next(find_stalls(state, silences, state.back(limit), t), None)
    return None if stall is None else RunFailure(stall.stage, f"no step for {limit:g} s: {stall.chain}", "step")


def _exit_deadline(state: RunState, t: float) -> RunFailure | None:
    limit = state.plan.deadlines.exit
    stall = None if limit is None else next(find_unended(state, state.back(limit), t), None)
    return None if stall is None else RunFailure(stall.stage, f"no sign of work for {limit:g} s: {stall.chain}", "exit")


def _run_deadline(state: RunState, t: float) -> RunFailure | None:
    limit = state.plan.deadlines.run
    if limit is None or state.started is None or t - state.started <= limit:
        return None
    running = [stage.name for stage in state.stages.values() if stage.runs]
    # Of stages without streams nobody waits for another: that one comes first in the file says nothing.
    first = (
        next((name for name in running if state.plan.stage(name).ends), "")
        or (running if len(running) == 1 else [""])[0]
    )
    stage, chain = diagnose(state, first, t) if first else ("", "nothing runs")
    if running and not first:
        idle = idle_since(state)
        chain = "; ".join(
            unended_text(state, name, t) if name in idle and t - idle[name] > LATE_S else f"{name} runs"
            for name in running
        )
    return RunFailure(stage, f"not done within {limit:g} s: {chain}", "run")


def opening_stages(state: RunState) -> Iterator[tuple[str, float]]:
    """The stages that open their streams at present, each with its start or its last sign of life (Unix seconds).

    Those that have waited for a tap which was ended, or has failed, have their time from then on.
    """
    freed = [state.stages[name].failed or 0.0 for name in tolerated_failures(state)]
    for name in state.stages:
        stage = state.stages[name]
        if stage.status == "starting" and stage.started is not None:
            signs = [sign for end in state.ends_of(name) if (sign := end.last_sign) is not None]
            yield name, max([stage.started, *signs, *freed])
