"""What each stage did when: every step of a short run, shares per interval of a long one. Pure.

Of a stage that keeps no metrics: the share of each interval that its processes were on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from workflow.formats.stage_file import EndOfStream
from workflow.report.read.metrics_file import StageMetrics, StepRecord
from workflow.report.read.run_records import CpuSample
from workflow.report.report_model import Activity, StagePart

ACTIVITIES: tuple[Activity, ...] = ("compute", "io", "wait", "open", "cpu", "ready", "other")

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

    A writer computes, hands the step over, and then waits for room: all of it just before the record. A
    reader waits and loads as soon as the step before is over; what it then computes, and writes to other
    streams, lies between that and its record.
    """
    last = record.t - record.compute_s
    if record.side == "write":
        last -= record.wait_s + record.io_s
        parts: tuple[tuple[Activity, float, float], ...] = (
            ("compute", last, record.compute_s),
            ("io", last + record.compute_s, record.io_s),
            ("wait", record.t - record.wait_s, record.wait_s),
        )
    else:
        first = last - record.wait_s - record.io_s
        first = first if before is None else min(first, before)
        parts = (
            ("wait", first, record.wait_s), ("io", first + record.wait_s, record.io_s),
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
    before = records[0].t - records[0].compute_s - records[0].wait_s - records[0].io_s
    for record in records:
        # Steps that ended at the same time, by a clock of limited resolution.
        since = max(min(before, record.t - 1e-6), start)
        for index, inside_s in _inside(since, record.t, start, width, count):
            rates[index] += (record.bytes or 0) * inside_s / (record.t - since) / width
        before = record.t
    return rates
