"""Who waits for whom, read off open ends, counts and queues. Pure.

ADIOS2 reports nothing while it waits: a writer in open for its readers, a reader for the next step, a writer
for room in its queue all look like a process that sleeps.
"""

from __future__ import annotations

from dataclasses import dataclass

from workflow.run.state import EndState, RunState


@dataclass(frozen=True)
class Wait:
    """`text` says what a stage waits for; `stage` is whose turn it is."""

    stage: str
    text: str


def diagnose(state: RunState, name: str, t: float) -> tuple[str, str]:
    """(the stage that keeps all from going on, the chain of waits that leads from `name` to it)."""
    said, seen = [], [name]
    while (wait := waits_for(state, seen[-1])) is not None:
        said.append(f"{seen[-1]} {wait.text}")
        if wait.stage in seen:
            return name, "; ".join(said) + f": {' and '.join(seen)} wait for each other"
        seen.append(wait.stage)
    said.append(_occupation(state, seen[-1], t))
    return seen[-1], "; ".join(said)


def waits_for(state: RunState, name: str) -> Wait | None:
    """What a stage waits for, as far as it can be seen; None when it is its own turn."""
    ends = [end for end in state.ends_of(name) if end.live and state.plan.stream(end.stream).coupling == "live"]
    for end in ends:
        if end.opened is None:
            wait = _open_wait(state, end)
            if wait is not None:
                return wait
    # A reader that has timed out may have closed the stream and ended since.
    timed_out = [end for end in ends if end.trouble == "timeout" and end.opened is not None]
    if (wait := next(filter(None, (_step_wait(state, end) for end in timed_out)), None)) is not None:
        return wait
    if not state.stages[name].runs or any(end.opened is None for end in ends):
        return None
    if (rest := _rest_wait(state, name)) is not None:
        return rest
    last = max((end for end in ends if end.last_step is not None), key=lambda end: end.last_step or 0.0, default=None)
    full = next((wait for end in ends if (wait := _room_wait(state, end))), None)
    empty = next((wait for end in ends if (wait := _step_wait(state, end))), None)
    if full is not None and (empty is None or last is None or last.side == "read"):
        return full
    return None if last is not None and _computes(state, name, last) else empty


def _open_wait(state: RunState, end: EndState) -> Wait | None:
    if end.side == "read":
        writer = state.writer(end.stream)
        if writer.offered is None and writer.opened is None and writer.live:
            return Wait(writer.stage, f"waits for {writer.stage} to open {end.stream}")
        return None
    late = [reader.stage for reader in state.readers(end.stream) if reader.opened is None]
    if is_in_open(state, end) and late:
        return Wait(late[0], f"waits in open for {' and '.join(late)} to open {end.stream}")
    return None


def is_in_open(state: RunState, end: EndState) -> bool:
    """Whether this writer waits in open until its readers have come."""
    begun = end.offered is not None or end.opening is not None
    return begun and end.live and end.opened is None and state.plan.stream(end.stream).engine in ("SST", "SSC")


def _room_wait(state: RunState, end: EndState) -> Wait | None:
    queue = state.plan.stream(end.stream).queue
    if end.side == "read" or queue is None or queue.when_full != "block":
        return None
    readers = [reader for reader in state.readers(end.stream) if reader.closed is None]
    slow = min(readers, key=lambda reader: reader.steps, default=None)
    if slow is None or end.steps - slow.steps + _held(slow, end) < queue.limit:
        return None
    text = f"waits for {slow.stage} to take step {slow.steps + 1} of {end.stream} (queue {queue.limit}/{queue.limit})"
    return Wait(slow.stage, text)


def _rest_wait(state: RunState, name: str) -> Wait | None:
    """A relay that has read all there is waits in close, for a reader that has not taken what is left for it."""
    ends = state.ends_of(name)
    inputs = [(end, state.writer(end.stream)) for end in ends if end.side == "read"]
    if state.plan.stage(name).added != "relay" or any(w.closed is None or end.steps < w.steps for end, w in inputs):
        return None
    for out in ends:
        for reader in state.readers(out.stream) if out.side == "write" and out.closed is None else []:
            if reader.closed is None and reader.steps < out.steps and state.stages[reader.stage].runs:
                return Wait(reader.stage, f"waits for {reader.stage} to take what is left of {out.stream}")
    return None


def _held(reader: EndState, writer: EndState) -> int:
    """1 when the reader's count has a step that it may still hold: logs tell of begins, metrics of ends."""
    return int(not reader.reported and writer.reported and 0 < reader.steps < writer.steps)


def _step_wait(state: RunState, end: EndState) -> Wait | None:
    if end.side == "write" or (end.closed is not None and end.trouble != "timeout"):
        return None
    writer = state.writer(end.stream)
    if not writer.live or writer.closed is not None:
        return None
    if end.steps < writer.steps and not _took_what_was_not_dropped(state, end):
        return None
    queue = state.plan.stream(end.stream).queue
    held = f" (queue 0/{queue.limit})" if queue else ""
    return Wait(writer.stage, f"waits for step {end.steps + 1} of {end.stream}{held}")


def _took_what_was_not_dropped(state: RunState, end: EndState) -> bool:
    """Of a tap: its relay has written nothing since its last step, and does not wait for it to take the rest either."""
    relay = state.writer(end.stream).stage
    if state.plan.stage(relay).added != "relay" or end.due is None or end.last_step is None:
        return False
    return end.due <= end.last_step and _rest_wait(state, relay) is None


def _computes(state: RunState, name: str, last: EndState) -> bool:
    """It took a step and has not yet written the one that follows from it."""
    outputs = [end for end in state.ends_of(name) if end.side == "write" and end.live]
    return last.side == "read" and any(end.steps == last.steps - 1 for end in outputs)


def _occupation(state: RunState, name: str, t: float) -> str:
    stage = state.stages[name]
    if stage.started is None:
        before = ", ".join(state.plan.stage(name).starts_after)
        return f"{name} has not started" + (f": it starts after {before}" if before else "")
    if stage.exited is not None:
        return f"{name} has ended"
    ends = state.ends_of(name)
    closed = [end.stream for end in ends if end.opened is None and (end.live or _is_awaited(state, end))]
    if closed:
        return f"{name} has run for {_seconds(t - stage.started)} and has not opened {', '.join(closed)}"
    last = max((end for end in ends if end.last_step is not None), key=lambda end: end.last_step or 0.0, default=None)
    if (last is None or last.last_step is None) and not all(end.live for end in ends):
        return f"{name} has run for {_seconds(t - stage.started)}; its steps cannot be seen"
    if last is None or last.last_step is None:
        return f"{name} has been busy for {_seconds(t - (stage.opened or stage.started))} without a first step"
    return f"{name} has been computing for {_seconds(t - last.last_step)} since step {last.steps} of {last.stream}"


def _is_awaited(state: RunState, end: EndState) -> bool:
    """A reader of which nothing can be seen has not opened a stream either whose writer still waits for it."""
    return end.side == "read" and is_in_open(state, state.writer(end.stream))


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
