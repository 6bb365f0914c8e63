"""How many steps a live stream held over time. Pure."""

from __future__ import annotations

import math
from itertools import accumulate

from workflow.formats.sides import Side
from workflow.plan.plan_model import StreamPlan
from workflow.report.read.run_records import Records

QueueLevel = tuple[float, int]  # (Unix time, steps in the queue from then on)


def queue_history(plan: StreamPlan, records: Records) -> list[QueueLevel]:
    """(Unix time, steps written and not yet released by the slowest reader) at each change, in order.

    Never more than the queue's limit: a reader releases a step a moment before it records the step. Between hosts
    the history is as exact as their clocks. Empty where it is not known: an end that is not observed, or a full
    queue that discarded steps (readers count the steps that they get, not those that were written).
    Of a long run only the beginning: later steps have no time of their own.
    """
    ends = [_progress(plan, plan.writer, "write", records)]
    ends += [_progress(plan, name, "read", records) for name in plan.readers]
    totals = {end[-1][1] if end else 0 for end in ends}
    discarded = plan.queue is not None and plan.queue.when_full == "discard" and len(totals) > 1
    if not ends[0] or discarded or not _all_seen(plan, records):
        return []
    reached = [0] * len(ends)
    history: list[QueueLevel] = []
    until = _recorded_until(plan, records)
    limit = plan.queue.limit if plan.queue else None
    changes = sorted((t, index, steps) for index, end in enumerate(ends) for t, steps in end)
    for t, index, steps in changes:
        if t > until:
            break
        reached[index] = max(reached[index], steps)
        length = max(0, reached[0] - min(reached[1:], default=0))
        length = length if limit is None else min(length, limit)
        if not history or history[-1][1] != length:
            history.append((t, length))
    return history


def longest(history: list[QueueLevel]) -> int | None:
    """The longest queue. None without data."""
    return max((length for _, length in history), default=None)


def _all_seen(plan: StreamPlan, records: Records) -> bool:
    """Whether the steps of every end are known when they happen."""
    return all(
        end.live or records.metrics[end.stage].of(plan.name, end.side)
        for key, end in records.state.ends.items()
        if key[0] == plan.name
    )


def _recorded_until(plan: StreamPlan, records: Records) -> float:
    """Until when every step of every end has a record of its own (Unix s); infinity where all have."""
    ends: list[tuple[str, Side]] = [(plan.writer, "write"), *((name, "read") for name in plan.readers)]
    steps = (step for stage, side in ends for step in records.metrics[stage].of(plan.name, side))
    return min((step.since for step in steps if step.count > 1), default=math.inf)


def _progress(plan: StreamPlan, stage: str, side: Side, records: Records) -> list[QueueLevel]:
    """(when, steps done so far) of one end, by the stage's own records or by what the supervisor saw."""
    own = records.metrics[stage].of(plan.name, side)
    if own:
        return list(zip((step.t for step in own), accumulate(step.count for step in own), strict=True))
    return records.seen.get((plan.name, stage, side), [])
