"""Finds stages that have made no step for too long, or have closed their streams and do not end. Pure.

Only what can be seen counts: a stage that waits for one that cannot be seen looks like one that hangs.

A stage that has closed its streams may hang in MPI_Finalize, in the teardown of a GPU, in a flush; or somebody has
stopped it. One that uses CPU time works: it may write its own files. So an MPI that spins while it waits looks busy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from workflow.formatting import duration
from workflow.run.state.events import REPORTED_S, ProcessesLeft, RunWarning
from workflow.run.state.node_loss import node_limit
from workflow.run.state.run_state import EndState, RunState
from workflow.run.verdict.failed_stages import failure_warnings
from workflow.run.verdict.restarts import skip_warnings
from workflow.run.verdict.wait_diagnosis import diagnose

# So long a stage may take to end after it has closed its streams, before `wf status` says so.
LATE_S = 5.0


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
        # A relay may write rarely to a tap of every tenth step, and what passes on some steps, as `select`, never: that
        # neither moves proves nothing.
        writer = state.plan.stage(stream.writer)
        if stream.coupling != "live" or writer.added == "relay" or writer.end(stream.name, "write").passes:
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


def present_warnings(state: RunState) -> list[str]:
    """The warnings of stages that still run and have made no step since, of steps that are skipped, and of taps that
    have failed."""
    found: list[RunWarning] = [
        stage.silence for stage in state.stages.values() if stage.silence is not None and stage.runs
    ]
    found += [each for each in state.warnings if isinstance(each, ProcessesLeft) and state.finished is None]
    return [*silent_nodes(state), *(each.text for each in found), *skip_warnings(state), *failure_warnings(state)]


def silent_nodes(state: RunState) -> list[str]:
    """What to say of the nodes that give no sign of life, at most of three one by one."""
    since = {each.host: state.t - each.t + each.silence_s for each in state.silent.values()}
    quiet = sorted((host for host in since if since[host] >= REPORTED_S), key=lambda host: -since[host])
    if not quiet or state.finished is not None:
        return []
    limit = f"it is lost after {node_limit(state.plan).text}"
    texts = [f"node {host} is silent since {since[host]:.0f} s; {limit}" for host in quiet[:3]]
    return texts + ([f"{len(quiet) - 3} more nodes are silent"] if len(quiet) > 3 else [])


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
    return _latest([*left, *(t for end in seen for t in (end.last_sign, end.next_written))])


def _latest(times: Iterable[float | None]) -> float:
    return max(t for t in times if t is not None)


def _is_clear(state: RunState, end: EndState) -> bool:
    """Whether it is known if this end waits for its other ones: they are seen, or have ended, or come later."""
    if end.closed is not None or state.plan.stream(end.stream).coupling != "live":
        return True
    others = state.readers(end.stream) if end.side == "write" else [state.writer(end.stream)]
    ended = all(other.closed is not None or state.stages[other.stage].exited is not None for other in others)
    return ended or (end.live and all(other.live for other in others))


def idle_since(state: RunState) -> dict[str, float]:
    """Stage that has closed its streams, or has none, and runs → since when it has not been seen to use CPU time."""
    return {
        name: max(left, state.stages[name].worked or left)
        for name in state.stages if name in state.going and (left := state.unseen_since(name)) is not None
    }  # fmt: skip


def find_unended(state: RunState, before: float, t: float) -> Iterator[Stall]:
    """Those that have not been seen to use CPU time since before that time; `t` is now."""
    for name, since in idle_since(state).items():
        if since < before and not state.stages[name].is_over:
            yield Stall(name, name, since, unended_text(state, name, t))


def late_ends(state: RunState) -> list[str]:
    """What to say of those that still run a while after closing their streams, if no warning speaks of them."""
    left = {name: since for name in state.stages if (since := state.left_since(name)) is not None}
    late = [name for name, since in left.items() if state.t - since > LATE_S and state.stages[name].silence is None]
    return [unended_text(state, name, state.t) for name in late] if state.finished is None else []


def unended_text(state: RunState, name: str, t: float) -> str:
    """`md closed its streams 12 min ago and has not ended`."""
    if not state.plan.stage(name).ends:
        return f"{name} has not used a core for {duration(t - (idle_since(state).get(name) or t))} and has not ended"
    return f"{name} closed its streams {duration(t - (state.left_since(name) or t))} ago and has not ended"
