"""Which stage waits for which, determined from open ends, counts and queues. Pure.

ADIOS2 reports nothing while it waits: a writer in open for its readers, a reader for the next step, a writer
for room in its queue all look like a process that sleeps.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace

from workflow.run.state.run_state import EndState, RunState
from workflow.run.verdict.wait_graph import Wait, WaitPath, circle_of, find_deadlock, find_path, turn_to_cause

# A wait proves a deadlock only after it has lasted so long: until then the records of other stages may not be read yet.
CONFIRMED_S = 3.0


def diagnose(state: RunState, name: str, t: float) -> tuple[str, str]:
    """(the stage that keeps all from going on, the chain of waits that leads from `name` to it)."""
    path, root = find_path(_graph_from(state, name), name)
    said = [f"{link.waiter} {link.wait.text}" for link in path]
    if root is None:
        circle = circle_of(path)
        cause = turn_to_cause(circle, list(state.stages))[-1].wait.stage
        return cause, "; ".join(said) + f": {_members(circle)} wait for each other{_neglect(state, cause)}"
    said.append(_occupation(state, root, t, {link.waiter for link in path}))
    return root, "; ".join(said)


def deadlock(state: RunState, t: float) -> tuple[str, str] | None:
    """(the stage that is the cause, who waits for whom) where stages wait for each other and none can continue.

    Only what the programs report counts: each is inside a call that returns when the next one has acted, and the next
    one has reported that it has not.
    """
    graph = {stage: list(_reported_waits(state, stage, t - CONFIRMED_S)) for stage in state.stages}
    circle = find_deadlock(graph, list(state.stages))
    if circle is None:
        return None
    cause = circle[-1].wait.stage
    said = "; ".join(f"{link.waiter} {link.wait.text}" for link in circle)
    return cause, f"deadlock: {said}: {_members(circle)} wait for each other{_neglect(state, cause)}"


def next_deadlock_check(state: RunState, t: float) -> float | None:
    """When the next reported wait will have lasted for `CONFIRMED_S`; None: none will."""
    begun = (end.waiting for end in state.ends.values() if end.waiting is not None)
    return min((since + CONFIRMED_S for since in begun if since + CONFIRMED_S > t), default=None)


def _graph_from(state: RunState, name: str) -> dict[str, tuple[Wait, ...]]:
    """What this stage waits for, and the stages that it waits for, and so on."""
    graph: dict[str, tuple[Wait, ...]] = {}
    left = [name]
    while left:
        if (stage := left.pop()) not in graph:
            graph[stage] = waits_of(state, stage)
            left += [wait.stage for wait in graph[stage]]
    return graph


def _members(circle: WaitPath) -> str:
    return " and ".join(link.waiter for link in circle)


def _neglect(state: RunState, name: str) -> str:
    """`; corr has not read forcing`: what a stage has not begun while others wait for it; empty if there is nothing."""
    reading = [end for end in state.ends_of(name) if end.side == "read" and end.live]
    closed = [end.stream for end in reading if end.opened is None and is_in_open(state, state.writer(end.stream))]
    full = [end for end in reading if end.opened is not None and end in _slow_readers(state, state.writer(end.stream))]
    unread = [end.stream for end in full if not end.steps]
    texts = [f"has not opened {', '.join(closed)}"] if closed else []
    texts += [f"has not read {', '.join(unread)}"] if unread else []
    return f"; {name} {' and '.join(texts)}" if texts else ""


def waits_of(state: RunState, name: str) -> tuple[Wait, ...]:
    """What a stage waits for: as its program reports it, or else as far as it can be inferred.

    One that is stopped by a signal does not go on whatever the others do.
    """
    if state.stages[name].suspended is not None:
        return ()
    if reported := tuple(_reported_waits(state, name, state.t)):
        return reported
    wait = waits_for(state, name) or _data_wait(state, name)
    return () if wait is None else (wait,)


def _data_wait(state: RunState, name: str) -> Wait | None:
    """That a stage has a step and cannot get its data: its writer, from whose memory they are fetched, is stopped."""
    stage = state.stages[name]
    for end in state.ends_of(name) if stage.runs else ():
        is_open = end.side == "read" and end.opened is not None and end.closed is None and not end.from_spool
        if is_open and state.plan.stream(end.stream).traits.over_network:
            writer = state.writer(end.stream)
            if state.stages[writer.stage].runs and state.stages[writer.stage].suspended is not None:
                return Wait(writer.stage, f"may wait for data of {end.stream} from {writer.stage}")
    return None


def _reported_waits(state: RunState, name: str, before: float) -> Iterator[Wait]:
    """What the calls wait for in which the program has been since before that time."""
    stage = state.stages[name]
    if not stage.runs or stage.is_over:
        return
    for end in state.ends_of(name):
        if end.waiting is None or end.waiting > before or end.trouble is not None or end.closed is not None:
            continue
        if end.opened is None:
            found = _open_waits(state, end)
        elif end.side == "read":
            found = [wait] if (wait := _step_wait(state, end)) else []
        else:
            found = [_room_wait(state, end, reader) for reader in _slow_readers(state, end)]
        yield from (replace(wait, proven=_is_proven(state, end, wait)) for wait in found)


def _is_proven(state: RunState, end: EndState, wait: Wait) -> bool:
    """Whether the progress of the other end is reported: one that cannot be seen, or only by a log, may have acted."""
    other = state.ends[end.stream, wait.stage, "read" if end.side == "write" else "write"]
    return all(each.reported and each.live for each in (end, other))


def _open_waits(state: RunState, end: EndState) -> list[Wait]:
    """What an open waits for. Not for an end that is being opened, too: the two then connect to each other."""
    others = [state.writer(end.stream)] if end.side == "read" else _expected(state, end.stream)
    unopened = [other for other in others if other.opening is None and other.offered is None and other.opened is None]
    said = "waits" if end.side == "read" else "waits in open"
    return [Wait(other.stage, f"{said} for {other.stage} to open {end.stream}", rank=0) for other in unopened]


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
    writing = [end for end in ends if end.side == "write"]
    full = next((_room_wait(state, end, slow) for end in writing for slow in _slow_readers(state, end)), None)
    empty = next((wait for end in ends if (wait := _step_wait(state, end))), None)
    if full is not None and (empty is None or last is None or last.side == "read"):
        return full
    return None if last is not None and _computes(state, name, last) else empty


def _open_wait(state: RunState, end: EndState) -> Wait | None:
    if end.side == "read":
        writer = state.writer(end.stream)
        if writer.offered is None and writer.opened is None and writer.live:
            hint = f" ({writer.hint})" if writer.hint else ""
            return Wait(writer.stage, f"waits for {writer.stage} to open {end.stream}{hint}", rank=0)
        return None
    late = [reader.stage for reader in _expected(state, end.stream) if reader.opened is None]
    if is_in_open(state, end) and late:
        hint = f" ({end.hint})" if end.hint else ""
        return Wait(late[0], f"waits in open for {' and '.join(late)} to open {end.stream}{hint}", rank=0)
    return None


def _expected(state: RunState, stream: str) -> list[EndState]:
    """The readers for which the writer of a stream waits in open."""
    return [reader for reader in state.readers(stream) if not reader.not_awaited]


def is_in_open(state: RunState, end: EndState) -> bool:
    """Whether this writer waits in open until its readers have come."""
    begun = end.offered is not None or end.opening is not None
    return begun and end.live and end.opened is None and state.plan.stream(end.stream).traits.in_memory


def _slow_readers(state: RunState, writer: EndState) -> list[EndState]:
    """The readers that must take a step before the writer can add one to its full queue, the slowest one first."""
    queue = state.plan.stream(writer.stream).queue
    if queue is None or queue.when_full != "block":
        return []
    readers = sorted(state.readers(writer.stream), key=lambda reader: reader.steps)
    return [
        reader for reader in readers
        if reader.closed is None and writer.steps - reader.steps + _held(reader, writer) >= queue.limit
    ]  # fmt: skip


def _room_wait(state: RunState, writer: EndState, reader: EndState) -> Wait:
    queue = state.plan.stream(writer.stream).queue
    assert queue is not None
    taken = f"waits for {reader.stage} to take step {reader.steps + 1} of {writer.stream}"
    text = f"{taken} (queue {queue.limit}/{queue.limit})"
    return Wait(reader.stage, text, rank=2 if reader.steps else 1)


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
    timed_out = end.trouble == "timeout"
    if end.side == "write" or (end.closed is not None and not timed_out):
        return None
    writer = state.writer(end.stream)
    # A writer that has itself timed out meanwhile leaves its streams without an end.
    left = writer.closed is not None and timed_out and not writer.complete
    if not writer.live or (writer.closed is not None and not left):
        return None
    if end.steps < writer.steps and not _took_what_was_not_dropped(state, end):
        return None
    queue = state.plan.stream(end.stream).queue
    held = f" (queue 0/{queue.limit})" if queue else ""
    return Wait(writer.stage, f"waits for step {end.steps + 1} of {end.stream}{held}")


def _took_what_was_not_dropped(state: RunState, end: EndState) -> bool:
    """Of a tap: its relay has written nothing since its last step, and does not wait for it to take the rest either."""
    relay = state.writer(end.stream).stage
    if state.plan.stage(relay).added != "relay" or end.next_written is None or end.last_step is None:
        return False
    return end.next_written <= end.last_step and _rest_wait(state, relay) is None


def _computes(state: RunState, name: str, last: EndState) -> bool:
    """It took a step and has not yet written the one that follows from it."""
    outputs = [end for end in state.ends_of(name) if end.side == "write" and end.live]
    return last.side == "read" and any(end.steps == last.steps - 1 for end in outputs)


def _occupation(state: RunState, name: str, t: float, named: Container[str] = ()) -> str:
    """What a stage does that waits for nobody; stages that are `named` already are not named again."""
    stage = state.stages[name]
    if stage.started is None:
        before = ", ".join(state.plan.stage(name).starts_after)
        return f"{name} has not started" + (f": it starts after {before}" if before else "")
    if stage.exited is not None:
        return f"{name} has ended"
    if stage.suspended is not None:
        return f"{name} has been stopped by a signal (SIGSTOP) and not continued for {_seconds(t - stage.suspended)}"
    ends = state.ends_of(name)
    closed = [end.stream for end in ends if end.opened is None and (end.live or _is_awaited(state, end))]
    if closed:
        said = f"{name} has run for {_seconds(t - stage.started)} and has not opened {', '.join(closed)}"
        waiting = [end for end in ends if _is_awaited(state, end) and state.writer(end.stream).stage not in named]
        return said + "".join(f" ({state.writer(end.stream).stage} waits for {end.stream})" for end in waiting)
    if not ends:
        return f"{name} has run for {_seconds(t - stage.started)}; it has no streams"
    last = max((end for end in ends if end.last_step is not None), key=lambda end: end.last_step or 0.0, default=None)
    if (last is None or last.last_step is None) and not all(end.live for end in ends):
        return f"{name} has run for {_seconds(t - stage.started)}; its steps cannot be seen"
    if last is None or last.last_step is None:
        return f"{name} has been busy for {_seconds(t - (stage.opened or stage.started))} without a first step"
    return f"{name} has been computing for {_seconds(t - last.last_step)} since step {last.steps} of {last.stream}"


def _is_awaited(state: RunState, end: EndState) -> bool:
    """A reader of which nothing can be seen has not opened a stream either whose writer still waits for it."""
    return end.side == "read" and end.opened is None and is_in_open(state, state.writer(end.stream))


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
