"""One event more: `apply(state, event)` is the state after it. Pure; decides nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from workflow.formats.sides import Side
from workflow.plan.plan_model import Plan
from workflow.run.events import (
    Cleaned,
    Event,
    Interrupted,
    RunFinished,
    RunStarted,
    StageExited,
    StageFailed,
    StageOpen,
    StageStarted,
    StageStopped,
    StageSucceeded,
    StopRequested,
    StreamClosed,
    StreamOffered,
    StreamOpened,
    StreamOpening,
    StreamProgress,
    StreamTransport,
    StreamTrouble,
    read_events,
)
from workflow.run.state import RATE_WINDOW_S, SAMPLE_S, EndState, RunState, Sample, initial_state
from workflow.run.verdict.tap_failures import lets_go_on


def state_of(run_dir: Path, plan: Plan) -> RunState:
    """The state that the events on disk lead to. Raises RunError when there are none."""
    return fold(initial_state(plan), read_events(run_dir))


def fold(state: RunState, events: Iterable[Event]) -> RunState:
    """The state after all these events."""
    for event in events:
        state = apply(state, event)
    return state


def apply(state: RunState, event: Event) -> RunState:
    """The state after this event. Events of stages or streams that the plan lacks change nothing but the time."""
    t = event.t
    state = replace(state, t=max(state.t, t))
    match event:
        case RunStarted(run=run, pid=pid, host=host):
            return replace(state, run=run, pid=pid, host=host, started=t)
        case StageStarted(stage=stage, pid=pid):
            status = "starting" if state.stopping is None else "stopping"
            return with_stage(state, stage, status=status, started=t, pid=pid)
        case StageOpen(stage=stage):
            return with_stage(state, stage, status="running", opened=t)
        case StageExited(stage=stage, code=code, signal=signal, note=note):
            return with_stage(state, stage, exited=t, code=code, signal=signal, note=note)
        case StageSucceeded(stage=stage):
            return with_stage(state, stage, status="succeeded")
        case StageStopped(stage=stage):
            return with_stage(state, stage, status="stopped")
        case StageFailed(stage=stage, reason=reason):
            state = with_stage(state, stage, status="failed", reason=reason, failed=t)
            goes_on = state.failing is not None or lets_go_on(state, stage)
            return state if goes_on else replace(state, failing=t)
        case Interrupted(signal=signal):
            return state if state.stopping is not None else replace(state, interrupted=signal)
        case StopRequested(reason=reason, stage=stage):
            return _stopping(replace(state, stopping=t, rung=0, reason=reason, culprit=stage))
        case Cleaned(paths=paths):
            return replace(state, cleaned=tuple(paths))
        case RunFinished(reason=reason, stage=stage):
            return replace(state, finished=event, reason=reason, culprit=stage)
    return _stream_event(state, event)


def _stream_event(state: RunState, event: Event) -> RunState:
    t = event.t
    match event:
        case StreamOpening(stream=stream, stage=stage, side=side):
            return _with_end(state, stream, stage, side, opening=t, live=True, counted=True, reported=True)
        case StreamOffered(stream=stream, stage=stage):
            return _with_end(state, stream, stage, "write", offered=t)
        case StreamTransport(stream=stream, stage=stage, plane=plane, why=why):
            return _with_end(state, stream, stage, "write", plane=plane, plane_why=why)
        case StreamOpened(stream=stream, stage=stage, side=side):
            return _with_end(state, stream, stage, side, opened=t, samples=(Sample(t, 0, 0),))
        case StreamTrouble(stream=stream, stage=stage, trouble=trouble, text=text):
            for key, end in state.ends.items():
                if key[:2] == (stream, stage) and end.trouble is None:
                    state = _with_end(state, stream, stage, key[2], trouble=trouble, trouble_text=text)
        case StreamProgress(stream=stream, stage=stage, side=side, steps=steps, bytes=count):
            return _progressed(state, (stream, stage, side), t, steps, count)
        case StreamClosed(stream=stream, stage=stage, side=side, steps=steps, complete=complete, bytes=count):
            state = _progressed(state, (stream, stage, side), t, steps, count)
            return _with_end(state, stream, stage, side, closed=t, complete=complete)
    return state


def with_stage(state: RunState, name: str, **changes: Any) -> RunState:
    """The state with some fields of one stage changed."""
    if name not in state.stages:
        return state
    return replace(state, stages={**state.stages, name: replace(state.stages[name], **changes)})


def _with_end(state: RunState, stream: str, stage: str, side: Side, **changes: Any) -> RunState:
    key = (stream, stage, side)
    if key not in state.ends:
        return state
    return replace(state, ends={**state.ends, key: replace(state.ends[key], **changes)})


def _progressed(state: RunState, key: tuple[str, str, Side], t: float, steps: int, count: int) -> RunState:
    end = state.ends.get(key)
    if end is None or (steps <= end.steps and count <= end.bytes):
        return state
    grown = replace(end, steps=max(end.steps, steps), bytes=max(end.bytes, count))
    if steps > end.steps:
        grown = replace(grown, last_step=t)
    ends = {**state.ends, key: _sampled(grown, t)}
    if grown.side == "write" and steps > end.steps:
        for reader in state.readers(end.stream):
            if reader.due is None or reader.due <= (reader.last_step or 0.0):
                ends[reader.stream, reader.stage, "read"] = replace(reader, due=t)
    return replace(state, ends=ends)


def _sampled(end: EndState, t: float) -> EndState:
    samples = end.samples
    if samples and t - samples[-1].t < SAMPLE_S:
        return end
    kept = tuple(sample for sample in samples if t - sample.t <= RATE_WINDOW_S)
    return replace(end, samples=(*kept, Sample(t, end.steps, end.bytes)))


def _stopping(state: RunState) -> RunState:
    for stage in state.stages.values():
        if stage.runs and not stage.is_over:
            state = with_stage(state, stage.name, status="stopping")
    return state
