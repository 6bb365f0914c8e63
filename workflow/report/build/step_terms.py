"""The terms of the time per step of a stage, from its records. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from workflow.formats.stage_file import EndOfStream
from workflow.report.read.metrics_file import StageMetrics
from workflow.report.read.run_records import CpuSample, Records

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
    inside: dict[EndOfStream, list[float]] = field(default_factory=dict)
    """Of each end: moving data and waiting for the other end."""
    cpu_s: float | None = None
    ready_s: float | None = None
    moved: dict[EndOfStream, tuple[int, float]] = field(default_factory=dict)
    """Of each end: number of steps, bytes per step."""


def step_terms(records: Records, stage: str) -> StepTerms:
    """The terms of a stage that uses workflow.stage."""
    metrics = records.metrics[stage]
    if not metrics.steps:
        return StepTerms()
    counts = {end: sum(each.count for each in steps) for end, steps in metrics.steps_of.items()}
    terms = _terms(metrics, max(counts, key=lambda end: counts[end]))
    terms.moved = {
        end: (counts[end], sum(each.bytes or 0 for each in steps) / counts[end])
        for end, steps in metrics.steps_of.items()
    }
    ranks = records.plan.stage(stage).ranks
    terms.cpu_s, terms.ready_s = _cpu_per_step(records.cpu.get(stage, []), metrics, terms, ranks)
    return terms


def _terms(metrics: StageMetrics, fastest: EndOfStream) -> StepTerms:
    """One value per step of the fastest end: all that was recorded since the step before it."""
    terms = StepTerms()
    compute, io, inside = 0.0, dict.fromkeys(metrics.steps_of, 0.0), dict.fromkeys(metrics.steps_of, 0.0)
    last: float | None = None
    for record in sorted(metrics.steps, key=lambda each: each.t):
        end = (record.stream, record.side)
        compute += record.compute_s
        io[end] += record.io_s
        inside[end] += record.io_s + record.wait_s
        if end != fastest:
            continue
        # Lines of long runs stand for several steps: each counts once, with its mean.
        terms.steps += record.count
        if last is not None:
            terms.period.append((record.t - last) / record.count)
        terms.compute.append(compute / record.count)
        for kept, sums in ((terms.io, io), (terms.inside, inside)):
            for name, seconds in sums.items():
                kept.setdefault(name, []).append(seconds / record.count)
        compute, io, inside, last = 0.0, dict.fromkeys(io, 0.0), dict.fromkeys(io, 0.0), record.t
    warm = min(WARM_STEPS, len(terms.compute) // 3)
    terms.compute = terms.compute[warm:]
    terms.io, terms.inside = (
        {name: values[warm:] for name, values in kept.items()} for kept in (terms.io, terms.inside)
    )
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
