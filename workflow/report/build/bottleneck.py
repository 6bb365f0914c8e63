"""Which stage limits a stream, and which one the run: the stage that others wait for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workflow.formats.sides import Side
from workflow.plan.plan_model import StreamPlan
from workflow.report.read.metrics_file import StageMetrics
from workflow.report.report_model import StagePart, StreamPart

# An end that waits less than this share of its time, or less than this time, is not limited by the other end.
WAITS_MUCH = 0.05
WAITS_LONG_S = 0.1


def stream_limit(plan: StreamPlan, metrics: Mapping[str, StageMetrics]) -> str:
    """The end of a live stream that the other one waits for. Of several readers it is the one that waits least.

    Empty where neither waits much.
    """
    waits = {name: wait for name in plan.readers if (wait := waiting(metrics[name], plan.name, "read")) is not None}
    idle = waiting(metrics[plan.writer], plan.name, "write")
    if idle is None or not waits:
        return ""
    slowest = min(waits, key=lambda name: waits[name])
    by_reader = idle > waits[slowest]
    waits_s = [
        step.wait_s
        for step in metrics[plan.writer if by_reader else slowest].of(plan.name, "write" if by_reader else "read")
    ]
    if max(idle, waits[slowest]) < WAITS_MUCH or sum(waits_s) < WAITS_LONG_S:
        return ""
    return slowest if by_reader else plan.writer


def run_limit(streams: Sequence[StreamPart], stages: Sequence[StagePart]) -> str:
    """The stage that the others wait for in the end: it limits a stream, and waits much in none itself.

    Of several, the one with most work. Empty where no stream is limited. Where a full queue discards, no stage waits.
    """
    ends = {stream.name: {stream.writer, *(reader.stage for reader in stream.readers)} for stream in streams}
    limited = [stream for stream in streams if stream.limited_by and stream.when_full != "discard"]
    limits = {stream.limited_by for stream in limited}
    waits = {name for stream in limited for name in ends[stream.name] - {stream.limited_by}}
    # In a circle of streams each stage may wait for another one.
    candidates = limits - waits or limits
    work = {stage.name: (stage.compute_s or 0) + (stage.io_s or 0) for stage in stages if stage.name in candidates}
    return max(work, key=lambda name: work[name], default="")


def waiting(metrics: StageMetrics, stream: str, side: Side) -> float | None:
    """Share of the time from open to close of an end that was spent waiting for the other."""
    steps, opened = metrics.of(stream, side), metrics.opened.get((stream, side))
    if not steps or opened is None:
        return None
    closed = metrics.closed.get((stream, side))
    span = (closed.t if closed else steps[-1].t) - opened[0]
    return min(1.0, sum(step.wait_s for step in steps) / span) if span > 0 else None
