"""Finds stages that have made no step for too long. Pure.

Only what can be seen counts: a stage that waits for one that cannot be seen looks like one that hangs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from workflow.formatting import duration
from workflow.run.state.events import StrangeReader
from workflow.run.state.lifecycle_events import StageSilent
from workflow.run.state.run_state import EndState, RunState, RunWarning
from workflow.run.verdict.tap_failures import tap_warnings
from workflow.run.verdict.wait_diagnosis import diagnose


@dataclass(frozen=True)
class Silences:
    """What does not move at present, and since when (Unix seconds)."""

    streams: Mapping[str, tuple[str, float]]  # stream, open at both ends → its reader, since when
    stages: Mapping[str, float]

    def times(self) -> list[float]:
        """The beginnings of all silences."""
        return [*(since for _, since in self.streams.values()), *self.stages.values()]


@dataclass(frozen=True)
class Stall:
    """A silence that lasts too long: `chain` names the waits that lead from `waiting` to `stage`."""

    waiting: str
    stage: str
    since: float
    chain: str


def find_silences(state: RunState) -> Silences:
    """All that does not move: a step made later ends its silence."""
    streams: dict[str, tuple[str, float]] = {}
    for stream in state.plan.streams:
        # A relay may write rarely to a tap of every tenth step: that neither moves proves nothing.
        if stream.coupling != "live" or state.plan.stage(stream.writer).added == "relay":
            continue
        for reader in state.readers(stream.name):
            since = _stuck_since(state, state.writer(stream.name), reader)
            if stream.name not in streams or since < streams[stream.name][1]:
                streams[stream.name] = reader.stage, since
    stages = {name: _silence_since(state, name) for name in state.stages if name in state.going}
    return Silences(
        {name: (reader, since) for name, (reader, since) in streams.items() if since < math.inf},
        {name: since for name, since in stages.items() if since < math.inf},
    )


def find_stalls(state: RunState, silences: Silences, before: float, t: float) -> Iterator[Stall]:
    """The silences that began before that time, the most certain ones first; `t` is now."""
    for reader, since in silences.streams.values():
        if since < before and (stall := _stall(state, reader, since, t)).since < before:
            yield stall
    for name, since in silences.stages.items():
        # A stage that is busy elsewhere may be slow, but does not hang: then nothing is known.
        if since >= before:
            continue
        stall = _stall(state, name, since, t)
        if max(stall.since, silences.stages.get(stall.stage, math.inf)) < before:
            yield stall


def warning_text(warning: RunWarning) -> str:
    """The warning in words: `no step for 20 min: saxs waits for step 41 of atoms; md has been computing for …`."""
    if isinstance(warning, StageSilent):
        what = "sign of work" if warning.left else "step"
        return f"no {what} for {duration(warning.t - warning.since)}: {warning.diagnosis}"
    return warning.text


def present_warnings(state: RunState) -> list[str]:
    """The warnings of stages that still run and have made no step since, or have a reader that nobody planned, and of
    taps that have failed."""
    found: list[RunWarning] = [
        stage.silence for stage in state.stages.values() if stage.silence is not None and stage.runs
    ]
    found += [each for each in state.warnings if isinstance(each, StrangeReader) and state.stages[each.stage].runs]
    return [*(warning_text(warning) for warning in found), *tap_warnings(state)]


def _stall(state: RunState, name: str, since: float, t: float) -> Stall:
    stage, chain = diagnose(state, name, t)
    # A stage that all have waited for together with it has had its turn only since it was given a step to read.
    return Stall(name, stage, _latest([since, *(end.untaken_since for end in state.ends_of(stage))]), chain)


def _stuck_since(state: RunState, writer: EndState, reader: EndState) -> float:
    """Since when nothing goes in or out of a stream whose two ends are open; infinity where that is not so."""
    both = (writer, reader)
    if any(not end.live or end.opened is None or end.closed is not None for end in both):
        return math.inf
    if not all(state.stages[end.stage].runs and not state.stages[end.stage].is_over for end in both):
        return math.inf
    return _latest(end.last_sign for end in both)


def _silence_since(state: RunState, name: str) -> float:
    """Since when no end of a stage has moved; infinity unless something is open and all it may wait for is seen."""
    stage, ends = state.stages[name], state.ends_of(name)
    seen = [end for end in ends if end.live]
    if not stage.runs or any(end.opened is None for end in seen):
        return math.inf
    if all(end.closed is not None for end in seen) or not all(_is_clear(state, end) for end in ends):
        return math.inf
    # A writer that waits in close for its readers needs time to notice that they are done, or dead.
    readers = [end for out in ends if out.side == "write" for end in state.readers(out.stream)]
    left = [t for end in readers for t in (end.closed, state.stages[end.stage].exited)]
    return _latest([*left, *(t for end in seen for t in (end.last_sign, end.due))])


def _latest(times: Iterable[float | None]) -> float:
    return max(t for t in times if t is not None)


def _is_clear(state: RunState, end: EndState) -> bool:
    """Whether it is known if this end waits for its other ones: they are seen, or have ended, or come later."""
    if end.closed is not None or state.plan.stream(end.stream).coupling != "live":
        return True
    others = state.readers(end.stream) if end.side == "write" else [state.writer(end.stream)]
    ended = all(other.closed is not None or state.stages[other.stage].exited is not None for other in others)
    return ended or (end.live and all(other.live for other in others))
