"""How the time per step is distributed over the steps of a run: median, 95th percentile, largest. Pure.

Of a step that has a record of its own its time is known. The steps of an end that follow its first
`formats.metrics_lines.FULL_STEPS` share records: their times are not known one by one, nor is the distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import quantiles

from workflow.report.read.stage_metrics import RankTimes, StageMetrics, StepRecord, number_of_steps
from workflow.report.report_model import RankSpread, StepTimes


def times_of_stage(metrics: StageMetrics) -> StepTimes | None:
    """All that was recorded from one step to the next, at the end with the most steps."""
    if not metrics.steps:
        return None
    fastest = max(metrics.steps_of, key=lambda end: number_of_steps(metrics.steps_of[end]))
    seconds, since = list[float](), 0.0
    for record in sorted(metrics.steps, key=lambda each: each.t):
        since += record.compute_s + record.device_s + record.io_s + record.wait_s
        if (record.stream, record.side) == fastest:
            seconds.append(since)
            since = 0.0
    return _distribution(metrics.steps, seconds)


def times_of_end(steps: Sequence[StepRecord], time_of: Callable[[StepRecord], float]) -> StepTimes | None:
    """What `time_of` tells of each step of an end."""
    return _distribution(steps, [time_of(step) for step in steps])


def rank_spread(times: RankTimes | None) -> RankSpread | None:
    """The slowest rank beside the median one; None where the ranks were not compared."""
    if times is None:
        return None
    ratio = times.slowest_s / times.median_s if times.median_s > 0 else None
    return RankSpread(median=times.median_s, slowest=times.slowest_s, rank=times.rank, imbalance=ratio)


def _distribution(records: Iterable[StepRecord], seconds: Sequence[float]) -> StepTimes | None:
    if not seconds or any(record.count != 1 for record in records):
        return None
    if len(seconds) == 1:
        return StepTimes(p50=seconds[0], p95=seconds[0], max=seconds[0])
    twentieths = quantiles(seconds, n=20, method="inclusive")
    return StepTimes(p50=twentieths[9], p95=twentieths[18], max=max(seconds))
