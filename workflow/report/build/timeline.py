"""What each stage did when, and how many steps a live stream held over time. Pure.

Every step of a short run, shares per interval of a long one. Of a stage that keeps no metrics: the share of each
interval that its processes were on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

from workflow.formats.sides import EndOfStream, Side
from workflow.plan.plan_model import StreamPlan
from workflow.report.read.run_records import CpuSample, Records
from workflow.report.read.stage_metrics import StageMetrics, StepRecord
from workflow.report.report_model import Activity, StagePart

ACTIVITIES: tuple[Activity, ...] = ("compute", "device", "io", "wait", "open", "cpu", "ready", "other")

# More steps than this would be thinner than a pixel each, and 10,000 of them would make a page too large to load.
MOST_STEPS = 160
INTERVALS = 200
SHORTEST_S = 1e-3


@dataclass(frozen=True, slots=True)
class ActivitySpan:
    """The stage did one thing from `start` to `end` (Unix s). `step` is -1 outside of steps."""

    start: float
    end: float
    activity: Activity
    step: int
    stream: str = ""


@dataclass
class Lane:
    """One stage: either its spans, or per interval the shares of what it did (None: too short to tell)."""

    stage: StagePart
    spans: list[ActivitySpan] = field(default_factory=list)
    intervals: list[dict[Activity, float]] = field(default_factory=list)


def make_lane(stage: StagePart, metrics: StageMetrics, start: float, end: float, cpu: Sequence[CpuSample] = ()) -> Lane:
    """The lane of a stage in a picture that runs from `start` to `end`."""
    if not metrics.exists and (cores := cpu_shares(cpu, start, end, INTERVALS)):
        return Lane(stage, intervals=[_of_ranks(use, stage.ranks) for use in cores])
    spans = list(stage_spans(metrics))
    # In an open that never returned, which the supervisor saw begin.
    in_open_s = (stage.open_s or 0.0) - sum(seconds for _, seconds in metrics.opened.values())
    if in_open_s > SHORTEST_S:
        last = end if stage.ended is None else stage.ended
        spans.append(ActivitySpan(last - in_open_s, last, "open", -1))
    # What counts as computing in the sums is drawn as that: of a stage that succeeded also what followed its last step.
    if stage.state == "succeeded" and metrics.ended is not None and metrics.compute_after_s > SHORTEST_S:
        spans.append(ActivitySpan(metrics.ended - metrics.compute_after_s, metrics.ended, "compute", -1))
    if metrics.step_count <= MOST_STEPS:
        return Lane(stage, spans=spans)
    return Lane(stage, intervals=shares(spans, start, end, INTERVALS))


def _of_ranks(use: CpuShare, ranks: int) -> dict[Activity, float]:
    cpu = min(1.0, use.cores / ranks)
    ready = min(1.0 - cpu, use.ready / ranks)
    parts: dict[Activity, float] = {"cpu": cpu, "ready": ready}
    return {activity: share for activity, share in parts.items() if share}


def stage_spans(metrics: StageMetrics, only: EndOfStream | None = None) -> Iterator[ActivitySpan]:
    """Everything that a stage recorded, or what it recorded of one end, placed in time."""
    before: dict[EndOfStream, float] = {}
    for (stream, side), (t, seconds) in metrics.opened.items():
        if only is None or only == (stream, side):
            yield ActivitySpan(t - seconds, t, "open", -1, stream)
            before[stream, side] = t
    for record in metrics.steps if only is None else metrics.of(*only):
        yield from step_spans(record, before.get((record.stream, record.side)))
        before[record.stream, record.side] = record.t


def step_spans(record: StepRecord, before: float | None = None) -> Iterator[ActivitySpan]:
    """The parts of one step. `before`: when the same end's step before ended, or its opening.

    A writer computes, copies from its device, hands the step over, and then waits for room: all of it just before the
    record. A reader waits, loads and copies to its device as soon as the step before is over; what it then computes,
    and writes to other streams, lies between that and its record.
    """
    last = record.t - record.compute_s
    if record.side == "write":
        last -= record.wait_s + record.io_s + record.device_s
        computed = last + record.compute_s
        parts: tuple[tuple[Activity, float, float], ...] = (
            ("compute", last, record.compute_s),
            ("device", computed, record.device_s),
            ("io", computed + record.device_s, record.io_s),
            ("wait", record.t - record.wait_s, record.wait_s),
        )
    else:
        first = last - record.wait_s - record.io_s - record.device_s
        first = first if before is None else min(first, before)
        parts = (
            ("wait", first, record.wait_s), ("io", first + record.wait_s, record.io_s),
            ("device", first + record.wait_s + record.io_s, record.device_s),
            ("compute", last, record.compute_s),
        )  # fmt: skip
    for activity, moment, seconds in parts:
        if seconds > 0:
            yield ActivitySpan(moment, moment + seconds, activity, record.step, record.stream)


def shares(spans: list[ActivitySpan], start: float, end: float, count: int) -> list[dict[Activity, float]]:
    """For each of `count` equal intervals: what share of it (0 … 1) went into what."""
    width = (end - start) / count
    result: list[dict[Activity, float]] = [{} for _ in range(count)]
    if width <= 0:
        return result
    for span in spans:
        for index, inside_s in _inside(span.start, span.end, start, width, count):
            result[index][span.activity] = result[index].get(span.activity, 0.0) + inside_s / width
    return result


def _inside(begin: float, stop: float, start: float, width: float, count: int) -> Iterator[tuple[int, float]]:
    """(interval, seconds in it) of the time from `begin` to `stop`; the intervals are `width` long, from `start` on."""
    first = max(0, int((begin - start) / width))
    for index in range(first, min(count, int((stop - start) / width) + 1)):
        left = start + index * width
        inside_s = min(stop, left + width) - max(begin, left)
        if inside_s > 0:
            yield index, inside_s


class CpuShare(NamedTuple):
    """What the processes of a stage did in an interval: cores in use, and cores that they were ready to use."""

    cores: float
    ready: float


def cpu_shares(samples: Sequence[CpuSample], start: float, end: float, count: int) -> list[CpuShare] | None:
    """CPU time ÷ time in each of `count` equal intervals. None without samples, or without time.

    Between two samples the time is spread evenly.
    """
    width = (end - start) / count
    if len(samples) < 2 or width <= 0:
        return None
    used, ready = [0.0] * count, [0.0] * count
    for before, after in pairwise(samples):
        for index, inside_s in _inside(before.t, after.t, start, width, count):
            share = inside_s / (after.t - before.t) / width
            used[index] += share * (after.cpu_s - before.cpu_s)
            ready[index] += share * (after.ready_s - before.ready_s)
    return [CpuShare(*pair) for pair in zip(used, ready, strict=True)]


def data_rates(records: list[StepRecord], start: float, end: float, count: int) -> list[float]:
    """Bytes per second in each of `count` equal intervals.

    A step's bytes are spread over the time since the step before: put into the interval in which it ended,
    they would show the beat of steps and intervals, not the rate.
    """
    width, rates = (end - start) / count, [0.0] * count
    if width <= 0 or not records:
        return rates
    one = records[0]
    before = one.t - one.compute_s - one.device_s - one.wait_s - one.io_s
    for record in records:
        # Steps that ended at the same time, by a clock of limited resolution.
        since = max(min(before, record.t - 1e-6), start)
        for index, inside_s in _inside(since, record.t, start, width, count):
            rates[index] += (record.bytes or 0) * inside_s / (record.t - since) / width
        before = record.t
    return rates


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
