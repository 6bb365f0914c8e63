"""How a run goes on: `step(state, event)` → the state after the event and what is to be done now.

Pure: no clock, no processes; time arrives in the events. The supervisor performs the actions and brings
back what came of them as further events. Every deadlock or wrong verdict becomes a test of this first.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace

from workflow.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_RUN_FAILED
from workflow.run.events import (
    Deadline,
    DeadlinePassed,
    Event,
    Interrupted,
    RunFinished,
    StageFailed,
    StageOpen,
    StageStarted,
    StageStopped,
    StageSucceeded,
    StopRequested,
)
from workflow.run.state import RunState
from workflow.run.state_reducer import apply, with_stage
from workflow.run.verdict.completion_check import judge
from workflow.run.verdict.stall_detection import silent_stage
from workflow.run.verdict.tap_failures import can_be_ended, failed_taps
from workflow.run.verdict.transport_check import wrong_transport
from workflow.run.verdict.wait_diagnosis import blame, diagnose, live_writers, lost_writers

# Wait so long after a failure for the death that may have caused it, which can be seen a little later; and
# longer when a reader says that its writer is gone, but its launcher still lives.
SETTLE_S = 0.3
PATIENCE_S = 1.0
# A process that survives SIGKILL for so long is stuck in the kernel: report without it.
GIVE_UP_S = 1.0


@dataclass(frozen=True)
class Start:
    """Start this stage."""

    stage: str


@dataclass(frozen=True)
class Signal:
    """Send this signal to all that runs of these stages."""

    stages: tuple[str, ...]
    number: int


@dataclass(frozen=True)
class End:
    """Kill all that runs of this stage, and nothing else."""

    stage: str


@dataclass(frozen=True)
class Record:
    """Append this event to the run's events. It is already part of the state."""

    event: Event


@dataclass(frozen=True)
class Finish:
    """Remove what is left, then bring this verdict back as an event."""

    event: RunFinished


Action = Start | Signal | End | Record | Finish


def step(state: RunState, event: Event) -> tuple[RunState, list[Action]]:
    """The state after `event` with all that follows from it, and the actions to take, in order."""
    turn = _Turn(apply(state, event), event.t)
    if turn.state.finished is not None or turn.state.started is None:
        return turn.state, []
    if isinstance(event, Interrupted):
        _interrupt(turn, state.stopping is not None)
    if isinstance(event, StageStarted) and state.stopping is not None:
        turn.actions.append(Signal((event.stage,), signal.SIGTERM))
    _judge(turn)
    if turn.state.stopping is None:
        _check_transports(turn)
    if turn.state.stopping is None:
        _open_and_start(turn)
        _check_deadlines(turn)
        _end_hung(turn)
        _settle(turn)
    _stop(turn)
    _finish(turn)
    return turn.state, turn.actions


def wake_at(state: RunState) -> float | None:
    """When the next decision is due by time alone (but for deadlines, which can wait for the next look)."""
    if state.stopping is not None:
        rungs = _ladder(state)
        return rungs[state.rung][0] if state.rung < len(rungs) else rungs[-1][0] + GIVE_UP_S
    return None if state.failing is None else state.failing + _settle_s(state)


class _Turn:
    """One call of `step`: the state as it changes, the actions as they are decided."""

    def __init__(self, state: RunState, t: float) -> None:
        self.state, self.t = state, t
        self.actions: list[Action] = []

    def decide(self, event: Event) -> None:
        self.state = apply(self.state, event)
        self.actions.append(Record(event))


def _interrupt(turn: _Turn, again: bool) -> None:
    if again:
        turn.actions.append(Signal(tuple(turn.state.stages), signal.SIGKILL))
        turn.state = replace(turn.state, rung=len(_ladder(turn.state)))
    elif turn.state.failing is None:
        turn.decide(StopRequested(turn.t, f"interrupted by {turn.state.interrupted}"))


def _judge(turn: _Turn) -> None:
    for stage in list(turn.state.stages.values()):
        if stage.exited is None or stage.is_over:
            continue
        asked = turn.state.stopping is not None and stage.exited >= turn.state.stopping
        problem = judge(turn.state, stage.name)
        if asked and stage.name == turn.state.culprit:
            turn.decide(StageFailed(turn.t, stage.name, turn.state.reason))
        elif asked and problem != "":
            turn.decide(StageStopped(turn.t, stage.name))
        elif problem == "":
            turn.decide(StageSucceeded(turn.t, stage.name))
        elif problem is not None and _ended_with_others(turn.state, stage.name):
            turn.decide(StageStopped(turn.t, stage.name))
        elif problem is not None:
            turn.decide(StageFailed(turn.t, stage.name, problem))
        elif turn.state.stopping is not None:
            turn.decide(StageStopped(turn.t, stage.name))


def _ended_with_others(state: RunState, name: str) -> bool:
    """Whether a stage that shares its launch line has failed before: the launcher then ends all that it has started."""
    group = state.plan.group_of(name)
    return group is not None and any(state.stages[other].status == "failed" for other in group.stages)


def _check_transports(turn: _Turn) -> None:
    wrong = wrong_transport(turn.state) if turn.state.failing is None else None
    if wrong is not None:
        stage, text = wrong
        turn.decide(StopRequested(turn.t, text, stage))


def _open_and_start(turn: _Turn) -> None:
    for stage in list(turn.state.stages.values()):
        if stage.status == "starting" and stage.runs and not _unopened(turn.state, stage.name):
            turn.decide(StageOpen(turn.t, stage.name))
        after = turn.state.plan.stage(stage.name).starts_after
        ready = turn.state.failing is None and all(turn.state.stages[name].status == "succeeded" for name in after)
        if stage.status == "waiting" and ready:
            turn.state = with_stage(turn.state, stage.name, status="starting")
            turn.actions.append(Start(stage.name))


def _check_deadlines(turn: _Turn) -> None:
    passed = None if turn.state.failing is not None else _passed(turn.state, turn.t)
    if passed is None:
        return
    deadline, name, said = passed
    seconds = getattr(turn.state.plan.deadlines, deadline)
    culprit, text = diagnose(turn.state, name, turn.t) if name else ("", "nothing runs")
    what = {"start": "streams not open within", "step": "no step for", "run": "not done within"}[deadline]
    diagnosis = f"{said or f'{what} {seconds:g} s'}: {text}"
    turn.decide(DeadlinePassed(turn.t, deadline, diagnosis, culprit))
    if deadline == "step" and not said and can_be_ended(turn.state, culprit):
        turn.decide(StageFailed(turn.t, culprit, f"was ended: {diagnosis}"))
        turn.actions.append(Signal((culprit,), signal.SIGTERM))
    else:
        turn.decide(StopRequested(turn.t, diagnosis, culprit))


def _end_hung(turn: _Turn) -> None:
    """Kill a tap that was told to end and has not, and what the launcher of one that has ended may have left."""
    for name in failed_taps(turn.state):
        stage = turn.state.stages[name]
        due = not stage.runs or turn.t >= (stage.failed or 0.0) + turn.state.plan.deadlines.stop
        if due and not stage.killed:
            turn.state = with_stage(turn.state, name, killed=True)
            turn.actions.append(End(name))


def _passed(state: RunState, t: float) -> tuple[Deadline, str, str] | None:
    """The first deadline that is over, a stage that suffers from it, and what that says itself."""
    limits = state.plan.deadlines
    for end in state.ends.values():
        # A stage that uses `workflow.stage` has the same limits, and may notice first.
        if end.trouble == "timeout" and end.side == "read" and state.stages[state.writer(end.stream).stage].runs:
            return "start" if end.opened is None else "step", end.stage, end.trouble_text
    for stage in state.stages.values():
        signs = [sign for end in state.ends_of(stage.name) if (sign := end.last_sign) is not None]
        if stage.status == "starting" and stage.started is not None and t - max([stage.started, *signs]) > limits.start:
            return "start", stage.name, ""
    if (silent := silent_stage(state, t - limits.step, t)) is not None:
        return "step", silent, ""
    if state.started is not None and t - state.started > limits.run:
        return "run", next((stage.name for stage in state.stages.values() if stage.runs), ""), ""
    return None


def _settle(turn: _Turn) -> None:
    """After a failure: name the stage it began with, as soon as that is certain, and stop the others."""
    state = turn.state
    if state.failing is None or state.stopping is not None:
        return
    if turn.t - state.failing < _settle_s(state) and any(stage.runs for stage in state.stages.values()):
        return
    culprit = blame(state)
    turn.decide(StopRequested(turn.t, f"{culprit} {state.stages[culprit].reason}", culprit))


def _settle_s(state: RunState) -> float:
    if state.interrupted:
        return 0.0
    culprit = blame(state)
    if state.stages[culprit].signal == signal.SIGKILL:
        return 0.0
    if lost_writers(state, culprit):
        return PATIENCE_S
    return SETTLE_S if any(state.stages[name].runs for name in live_writers(state, culprit)) else 0.0


def _stop(turn: _Turn) -> None:
    state = turn.state
    if state.stopping is None:
        return
    running = tuple(stage.name for stage in state.stages.values() if stage.runs)
    for due, number in _ladder(state)[state.rung :]:
        if turn.t >= due and running:
            turn.state = replace(turn.state, rung=turn.state.rung + 1)
            turn.actions.append(Signal(running, number))


def _ladder(state: RunState) -> list[tuple[float, int]]:
    """When to send which signal."""
    begin, stop_s = state.stopping or 0.0, state.plan.deadlines.stop
    return [(begin, signal.SIGINT), (begin + stop_s / 3, signal.SIGTERM), (begin + stop_s, signal.SIGKILL)]


def _finish(turn: _Turn) -> None:
    state = turn.state
    stages = list(state.stages.values())
    stuck = state.stopping is not None and turn.t >= _ladder(state)[-1][0] + GIVE_UP_S
    if state.stopping is None and not all(stage.is_over for stage in stages):
        return
    given_up = turn.t - state.plan.deadlines.stop - GIVE_UP_S
    left = [stage for stage in stages if not (stage.killed and (stage.failed or 0.0) < given_up)]
    if any(stage.runs or (stage.status == "starting" and stage.exited is None) for stage in left) and not stuck:
        return
    for stage in stages:
        if not stage.is_over:
            turn.decide(StageStopped(turn.t, stage.name))
    if state.stopping is None and (taps := failed_taps(state)):
        said = f"{taps[0]} {state.stages[taps[0]].reason}; it is a tap, and the stages beside the taps succeeded"
        verdict = RunFinished(turn.t, "failed", EXIT_RUN_FAILED, said, taps[0])
    elif state.stopping is None:
        verdict = RunFinished(turn.t, "succeeded", EXIT_OK, "", "")
    elif state.interrupted and not state.culprit:
        verdict = RunFinished(turn.t, "interrupted", EXIT_INTERRUPTED, state.reason, "")
    else:
        verdict = RunFinished(turn.t, "failed", EXIT_RUN_FAILED, state.reason, state.culprit)
    turn.actions.append(Finish(verdict))


def _unopened(state: RunState, name: str) -> bool:
    return any(end.live and end.opened is None for end in state.ends_of(name))
