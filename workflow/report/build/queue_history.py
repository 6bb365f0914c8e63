"""How many steps a live stream held over time. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from workflow.formats.stage_file import Side
from workflow.plan.plan_model import StreamPlan
from workflow.report.read.run_records import Records

QueueLevel = tuple[float, int]  # (Unix time, steps in the queue from then on)
# So many changes between two looks at an end are drawn at most.
MOST_BETWEEN = 50
Change = tuple[float, int, float]  # (Unix time, number of the end, steps that it has done)


def queue_history(plan: StreamPlan, records: Records) -> list[QueueLevel]:
    """(Unix time, steps written and not yet released by the slowest reader) at each change, in order.

    Never more than the queue's limit: a reader releases a step a moment before it records the step. Between hosts
    the history is as exact as their clocks. Empty without readers, and where it is not known: an end that is not
    observed, or a full queue that discarded steps (readers count the steps that they get, not those that were written).
    Of a long run only the beginning: later steps have no time of their own. A reader that has closed the stream holds
    no step. SST's writer closes when its readers have released all steps: then the queue is empty.
    """
    ends = [_progress(plan, plan.writer, "write", records)]
    ends += [_progress(plan, name, "read", records) for name in plan.readers]
    totals = {end[-1][1] if end else 0 for end in ends}
    discarded = plan.queue is not None and plan.queue.when_full == "discard" and len(totals) > 1
    if not plan.readers or not ends[0] or discarded or not _all_seen(plan, records):
        return []
    reached: list[float] = [0] * len(ends)
    history: list[QueueLevel] = []
    until = recorded_until(plan, records)
    limit = math.inf if plan.queue is None else plan.queue.limit
    for t, index, steps in sorted([*_changes(ends, _held(plan, records)), *_closings(plan, records)]):
        if t > until:
            break
        reached[index] = max(reached[index], steps)
        length = int(min(max(0, reached[0] - min(reached[1:])), limit))
        if history and history[-1][0] == t:
            history.pop()
        if not history or history[-1][1] != length:
            history.append((t, length))
    return history


def longest(history: list[QueueLevel]) -> int | None:
    """The longest queue. None without data."""
    return max((length for _, length in history), default=None)


def _changes(ends: list[list[QueueLevel]], held: list[int]) -> Iterator[Change]:
    """The steps of each end that have left it, the writer's first."""
    return ((t, index, max(0, steps - held[index])) for index, end in enumerate(ends) for t, steps in end)


def _held(plan: StreamPlan, records: Records) -> list[int]:
    """How many of its steps each end still holds, the writer's first.

    An engine's log has the steps of a reader when they begin: the last one is still in the queue.
    """
    by_log = [
        plan.traits.counted_by == "log" and not records.metrics[name].of(plan.name, "read") for name in plan.readers
    ]
    return [0, *(int(is_held) for is_held in by_log)]


def _closings(plan: StreamPlan, records: Records) -> Iterator[Change]:
    """The end of each reader: it holds nothing any more. Of a queue in memory also that of the writer, for all."""
    for index, name in enumerate(plan.readers, 1):
        if (t := _closed(plan, name, "read", records)) is not None:
            yield t, index, math.inf
    if plan.queue is not None and (t := _closed(plan, plan.writer, "write", records)) is not None:
        yield from ((t, index, math.inf) for index in range(1, len(plan.readers) + 1))


def _closed(plan: StreamPlan, stage: str, side: Side, records: Records) -> float | None:
    own = records.metrics[stage].closed.get((plan.name, side))
    return own.t if own else records.state.ends[plan.name, stage, side].closed


def _all_seen(plan: StreamPlan, records: Records) -> bool:
    """Whether the steps of every end are known when they happen."""
    return all(
        end.live or records.metrics[end.stage].of(plan.name, end.side)
        for key, end in records.state.ends.items()
        if key[0] == plan.name
    )


def recorded_until(plan: StreamPlan, records: Records) -> float:
    """Until when every step of every end has a record of its own (Unix s); infinity where all have."""
    ends: list[tuple[str, Side]] = [(plan.writer, "write"), *((name, "read") for name in plan.readers)]
    steps = (step for stage, side in ends for step in records.metrics[stage].of(plan.name, side))
    return min((step.since for step in steps if step.count > 1), default=math.inf)


def _progress(plan: StreamPlan, stage: str, side: Side, records: Records) -> list[QueueLevel]:
    """(when, steps done so far) of one end, by the stage's own records or by what the supervisor saw."""
    own = records.metrics[stage].of(plan.name, side)
    if own:
        return list(zip((step.t for step in own), accumulate(step.count for step in own), strict=True))
    seen = list(records.seen.get((plan.name, stage, side), []))
    end = records.state.ends[plan.name, stage, side]
    if seen and end.closed is not None:
        seen.append((end.closed, end.steps))
    if not seen:
        return []
    opened = seen[0][0] if end.opened is None else end.opened
    return list(spread_evenly([(opened, 0), *seen]))


def spread_evenly(seen: Sequence[QueueLevel]) -> Iterator[QueueLevel]:
    """The steps between two looks at an end, at equal distances.

    The looks at the two ends of a stream are not made at the same time: their difference is not the queue.
    """
    for (since, before), (t, steps) in pairwise(seen):
        parts = max(1, min(steps - before, MOST_BETWEEN))
        for part in range(1, parts + 1):
            yield since + (t - since) * part / parts, before + (steps - before) * part // parts
