"""The time per step of stages by its terms, as recorded, and the forecast of a run beside it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from workflow.forecast.forecast_model import Forecast, StageForecast, Term
from workflow.forecast.quartiles import Estimate, together
from workflow.formats.sides import EndOfStream
from workflow.report.read.run_records import CpuSample, Records
from workflow.report.read.stage_metrics import StageMetrics, StepRecord
from workflow.report.report_model import ForecastLine

# The first steps set up arrays, connections and caches: left out where enough others remain.
WARM_STEPS = 3
# Samples of CPU time are half a second apart: over a shorter time their slope is not known.
SHORTEST_CPU_S = 1.5


@dataclass
class StepTerms:
    """Seconds per step, one value for each step of the stage's fastest end; empty where nothing is recorded.

    `cpu_s` and `ready_s`: of all processes of the stage, an average per step; None: not known.
    """

    steps: int = 0
    period: list[float] = field(default_factory=list)
    compute: list[float] = field(default_factory=list)
    io: dict[EndOfStream, list[float]] = field(default_factory=dict)
    cpu_s: float | None = None
    ready_s: float | None = None
    moved: dict[EndOfStream, tuple[int, float]] = field(default_factory=dict)
    """Of each end whose bytes are known: number of steps, bytes per step."""


def step_terms(records: Records, stage: str) -> StepTerms:
    """The terms of a stage that uses workflow.stage."""
    metrics = records.metrics[stage]
    if not metrics.steps:
        return StepTerms()
    counts = _counts(metrics)
    terms = _terms(metrics, max(counts, key=lambda end: counts[end]))
    terms.moved = {
        end: (counts[end], sum(each.bytes or 0 for each in steps) / counts[end])
        for end, steps in metrics.steps_of.items()
        if all(each.bytes is not None for each in steps)
    }
    ranks = records.plan.stage(stage).ranks
    terms.cpu_s, terms.ready_s = _cpu_per_step(records.cpu.get(stage, []), metrics, terms, ranks)
    return terms


def _counts(metrics: StageMetrics) -> dict[EndOfStream, int]:
    """End → its steps: a line of a long run stands for several."""
    return {end: sum(each.count for each in steps) for end, steps in metrics.steps_of.items()}


def _terms(metrics: StageMetrics, fastest: EndOfStream) -> StepTerms:
    """One value per step of the fastest end: all that was recorded since the step before it."""
    terms = StepTerms()
    compute, io = 0.0, dict.fromkeys(metrics.steps_of, 0.0)
    last: float | None = None
    for record in sorted(metrics.steps, key=lambda each: each.t):
        end = (record.stream, record.side)
        compute += record.compute_s + record.device_s  # its own work, whatever carries the streams
        io[end] += record.io_s
        if end != fastest:
            continue
        # Lines of long runs stand for several steps: each counts once, with its mean.
        terms.steps += record.count
        if last is not None:
            terms.period.append((record.t - last) / record.count)
        terms.compute.append(compute / record.count)
        for name, seconds in io.items():
            terms.io.setdefault(name, []).append(seconds / record.count)
        compute, io, last = 0.0, dict.fromkeys(io, 0.0), record.t
    warm = min(WARM_STEPS, len(terms.compute) // 3)
    terms.compute = terms.compute[warm:]
    terms.io = {name: values[warm:] for name, values in terms.io.items()}
    terms.period = terms.period[max(0, warm - 1) :]  # the first step has none
    return terms


def _cpu_per_step(
    samples: Sequence[CpuSample], metrics: StageMetrics, terms: StepTerms, ranks: int
) -> tuple[float | None, float | None]:
    """(CPU time, time ready to run) per step: from the samples while steps were made, where there are any.

    Of stages that keep metrics only the total at the end is recorded. Their start is imports, which keep a core busy:
    it is taken off, and how long they were ready to run is not known.
    """
    first, last = metrics.steps[0].t, metrics.steps[-1].t
    inside = [sample for sample in samples if first <= sample.t <= last]
    if len(inside) >= 2 and terms.period and inside[-1].t - inside[0].t >= SHORTEST_CPU_S:
        share = sum(terms.period) / len(terms.period) / (inside[-1].t - inside[0].t)
        return (inside[-1].cpu_s - inside[0].cpu_s) * share, (inside[-1].ready_s - inside[0].ready_s) * share
    begun = min((when - took for when, took in metrics.opened.values()), default=None)
    if len(samples) < 2 or begun is None or last - begun < SHORTEST_CPU_S:
        return None, None
    start_s = max(0.0, begun - samples[0].t)
    return max(0.0, samples[-1].cpu_s - ranks * start_s) / terms.steps, None


# A term that differs by less than this share of the slowest stage's time per step is not worth naming.
WORTH_NAMING = 0.1


def forecast_lines(forecast: Forecast, records: Records) -> tuple[list[ForecastLine], str]:
    """(time per step of each stage and its terms, throughput of each stream; the term that is off most)."""
    if forecast.is_empty:
        return [], ""
    lines: list[ForecastLine] = []
    terms = {stage.name: step_terms(records, stage.name) for stage in records.plan.stages}
    paces = {stage.name: pace(records, stage.name) for stage in records.plan.stages}
    off: list[tuple[float, str]] = []
    slowest = max((each or 0.0 for each in paces.values()), default=0.0)
    for stage in forecast.stages:
        seen = terms[stage.name]
        complete = all(each.complete for group in forecast.groups if stage.name in group.stages for each in [group])
        lines.append(_line(f"time per step of {stage.name}", "s", stage.step, paces[stage.name], complete=complete))
        parts = _term_lines(stage, seen)
        lines += parts
        off += [
            (abs(part.forecast - part.measured), part.what)
            for part in parts
            if part.measured is not None and abs(part.forecast - part.measured) > WORTH_NAMING * slowest
        ]
    for stream in forecast.streams:
        if stream.throughput is None:
            continue
        writer = records.plan.stream(stream.name).writer
        seen, step_s = terms[writer], paces[writer]
        moved = seen.moved.get((stream.name, "write"))
        # A stream that has not each step of its writer has its bytes at a slower pace.
        measured = moved[1] * moved[0] / seen.steps / step_s if moved is not None and step_s and seen.steps else None
        lines.append(_line(f"throughput of {stream.name}", "B/s", stream.throughput, measured))
    return lines, max(off)[1] if off else ""


def pace(records: Records, stage: str) -> float | None:
    """Seconds from one step of a stage to the next, while the stages that are coupled live wait for each other.

    The mean: who reads a growing file gets its steps in bursts, and most gaps of a burst are short. Not counted is how
    a stage that began later than its writer takes the steps that are there already: no other stage sets that pace.
    """
    metrics = records.metrics[stage]
    counts = _counts(metrics)
    if not counts:
        return None
    warm = _warm(sorted(metrics.steps_of[max(counts, key=lambda end: counts[end])], key=lambda each: each.t))
    since = _caught_up(records, stage, set())
    together = [each for each in warm if each.t >= since]
    # Whose backlog lasts nearly to the end is slower than its writer, and waits for nobody.
    return _mean_gap(together if 3 * len(together) > len(warm) else warm)


def _warm(steps: list[StepRecord]) -> list[StepRecord]:
    return steps[min(WARM_STEPS, len(steps) // 3) :]


def _mean_gap(steps: Sequence[StepRecord]) -> float | None:
    later = sum(each.count for each in steps[1:])
    return (steps[-1].t - steps[0].t) / later if later else None


def _caught_up(records: Records, stage: str, known: set[str]) -> float:
    """When a stage first had the newest step of each growing file that it reads, and the stages before it as well.

    Unix seconds; 0 where it reads none. A queue in memory holds no backlog. `known`: stages that were looked at.
    """
    found = 0.0
    known.add(stage)
    for stream in records.plan.streams:
        if stream.coupling != "live" or stage not in stream.readers:
            continue
        if stream.writer not in known:
            found = max(found, _caught_up(records, stream.writer, known))
        written = sorted(records.metrics[stream.writer].of(stream.name, "write"), key=lambda each: each.t)
        if stream.queue is None and written:
            found = max(found, _without_backlog(written, records.metrics[stage].of(stream.name, "read")))
    return found


def _without_backlog(written: Sequence[StepRecord], read: Iterable[StepRecord]) -> float:
    """When a reader has first finished the newest step that was there, in Unix seconds; infinity: never."""
    reached = 0
    for each in sorted(read, key=lambda step: step.t):
        while reached < len(written) and written[reached].t <= each.t:
            reached += 1
        if not reached or each.step >= written[reached - 1].step:
            return each.t
    return math.inf


def _term_lines(stage: StageForecast, seen: StepTerms) -> list[ForecastLine]:
    """Computing, and moving the data of each stream: compressing and writing are recorded as one."""
    lines = []
    moving: dict[str, list[Term]] = {}
    for term in stage.terms:
        if term.name == "compute":
            # Steps that a thread writes behind make the computing longer: both are recorded as one.
            behind = [each.seconds for each in stage.terms if each.name == "write behind"]
            lines.append(_line(f"{stage.name}: compute", "s", together([term.seconds, *behind]), _median(seen.compute)))
        elif term.name != "write behind":
            moving.setdefault(term.stream, []).append(term)
    for stream, terms in moving.items():
        io = next((values for (name, _), values in seen.io.items() if name == stream), [])
        name = " + ".join(term.name for term in terms)
        lines.append(
            _line(f"{stage.name}: {name} {stream}", "s", together(each.seconds for each in terms), _median(io))
        )
    return lines


def _line(what: str, unit: str, forecast: Estimate, measured: float | None, *, complete: bool = True) -> ForecastLine:
    return ForecastLine(
        what=what, unit="s" if unit == "s" else "B/s",
        forecast=forecast.median, low=forecast.low, high=forecast.high, complete=complete, measured=measured,
        # A bound differs from what it bounds by any amount.
        difference=forecast.median / measured - 1 if measured and complete else None,
    )  # fmt: skip


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
