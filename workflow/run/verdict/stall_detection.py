"""Which stage has made no step for too long? Pure.

Only what can be seen counts: a stage that waits for one that cannot be seen looks as one that hangs.
"""

from __future__ import annotations

from workflow.run.state import EndState, RunState
from workflow.run.verdict.wait_diagnosis import diagnose


def silent_stage(state: RunState, since: float, t: float) -> str | None:
    """A stage that has suffered from silence since before that time: where to begin the diagnosis."""
    # To a tap of every tenth step a relay may write rarely: that neither moves proves nothing.
    for stream in (stream for stream in state.plan.streams if state.plan.stage(stream.writer).added != "relay"):
        for reader in state.readers(stream.name) if stream.coupling == "live" else []:
            if _is_stuck(state, state.writer(stream.name), reader, since):
                return reader.stage
    silent = (name for name in state.stages if _is_silent(state, name, since))
    # What is waited for, in the end, is silent as well: one that is busy elsewhere may be slow, but does not hang.
    return next((name for name in silent if _is_silent(state, diagnose(state, name, t)[0], since)), None)


def _is_stuck(state: RunState, writer: EndState, reader: EndState, since: float) -> bool:
    """Nothing goes in or out of a stream whose two ends are open."""
    both = (writer, reader)
    if any(not end.live or end.opened is None or end.closed is not None for end in both):
        return False
    if not all(state.stages[end.stage].runs and not state.stages[end.stage].is_over for end in both):
        return False
    return max(end.last_sign or 0.0 for end in both) < since


def _is_silent(state: RunState, name: str, since: float) -> bool:
    """It has something open, all that it could wait for is seen, and no end of it has moved."""
    stage, ends = state.stages[name], state.ends_of(name)
    seen = [end for end in ends if end.live]
    if not stage.runs or stage.is_over or stage.opened is None or any(end.opened is None for end in seen):
        return False
    readers = [end for out in ends if out.side == "write" for end in state.readers(out.stream)]
    if all(end.closed is not None for end in seen) or not all(_is_clear(state, end) for end in ends):
        return False
    # One that waited in close for its readers needs time to notice that they are done, or dead.
    left = [max(end.closed or 0.0, state.stages[end.stage].exited or 0.0) for end in readers]
    return max([stage.opened, *left, *(max(end.last_sign or 0.0, end.due or 0.0) for end in seen)]) < since


def _is_clear(state: RunState, end: EndState) -> bool:
    """Whether it is known if this end waits for its other ones: they are seen, or have ended, or come later."""
    if end.closed is not None or state.plan.stream(end.stream).coupling != "live":
        return True
    others = state.readers(end.stream) if end.side == "write" else [state.writer(end.stream)]
    ended = all(other.closed is not None or state.stages[other.stage].exited is not None for other in others)
    return ended or (end.live and all(other.live for other in others))
