"""What the repetitions measured: the values of every figure of every trial, and their medians. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from workflow.campaign.campaign_directory import Schedule, ScheduledTrial
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.ledger import Attempt, History, Repetition
from workflow.campaign.results.results_model import MetricFacts, TrialResult
from workflow.campaign.statistics import median_interval, outliers
from workflow.report_figures import PERCEIVED, to_figure_name


class WithoutIo(NamedTuple):
    """What a stage does in its trial's baseline, medians of the repetitions: it may write a little there, too."""

    time_s: float
    bytes: float


@dataclass(frozen=True)
class Measured:
    """A repetition that succeeded."""

    trial: ScheduledTrial
    number: int
    warmup: bool
    attempt: Attempt
    figures: Mapping[str, float]
    """Those of its report, and those computed with the baseline."""
    undefined: frozenset[str] = frozenset()
    """Figures that have no value here because the repetition was not slower than the baseline."""


def measured(schedule: Schedule, spec: CampaignSpec, history: History) -> list[Measured]:
    """All repetitions that succeeded, by trial, the warm-up first; without trials that are no longer in the file."""
    found = []
    for trial in schedule.trials:
        succeeded = {each: history.ended[each] for each in all_repetitions(trial.key, spec) if history.succeeded(each)}
        found += of_attempts(trial, succeeded, spec, history)
    return found


def of_attempts(
    trial: ScheduledTrial, attempts: Mapping[Repetition, Attempt], spec: CampaignSpec, history: History
) -> list[Measured]:
    """What these attempts of a trial measured, which succeeded."""
    quiet = _baselines(trial, [each.started for each in attempts.values()], spec, history)
    found = []
    for repetition, attempt in attempts.items():
        perceived = _perceived(attempt.figures, quiet)
        figures = {**attempt.figures, **{name: each for name, each in perceived.items() if each is not None}}
        undefined = frozenset(name for name, each in perceived.items() if each is None)
        found.append(Measured(trial, repetition.number, repetition.warmup, attempt, figures, undefined))
    return found


def by_trial(repetitions: Sequence[Measured]) -> dict[str, list[Measured]]:
    """Content key → the measured repetitions of that trial, in their order; no warm-up."""
    found: dict[str, list[Measured]] = {}
    for each in repetitions:
        if not each.warmup:
            found.setdefault(each.trial.key, []).append(each)
    return found


def all_repetitions(key: str, spec: CampaignSpec) -> Iterator[Repetition]:
    """The warm-up and the measured repetitions of a trial."""
    yield from (Repetition(key, number, warmup=True) for number in range(1, spec.warmup + 1))
    yield from (Repetition(key, number) for number in range(1, spec.repetitions + 1))


def _baselines(
    trial: ScheduledTrial, started: Sequence[float], spec: CampaignSpec, history: History
) -> dict[str, WithoutIo]:
    """Stage → what it does without I/O, over the measured repetitions of the trial's baseline.

    Of a repetition that was measured more than once, by the measurement that is nearest to those of the trial.
    """
    if not trial.baseline or not started:
        return {}
    middle = median(started)
    times: dict[str, list[float]] = {}
    written: dict[str, list[float]] = {}
    for repetition in all_repetitions(trial.baseline, spec):
        found = history.measurements(repetition)
        if repetition.warmup or not found:
            continue
        attempt = min(reversed(found), key=lambda each: abs(each.started - middle))
        for name, value in attempt.figures.items():
            figure = to_figure_name(name)
            if figure is not None and figure.section == "stages" and figure.field == "wall_s":
                times.setdefault(figure.name, []).append(value)
                volume = attempt.figures.get(f"stages.{figure.name}.bytes_out", 0.0)
                written.setdefault(figure.name, []).append(volume)
    return {stage: WithoutIo(median(values), median(written[stage])) for stage, values in times.items()}


def _perceived(figures: Mapping[str, float], quiet: Mapping[str, WithoutIo]) -> dict[str, float | None]:
    """Perceived throughput of each stage: (bytes written − those of the baseline) ÷ (its time − that of the baseline).

    Poeschel et al. 2021 (arXiv:2107.06108) define it so; it is a lower bound of the real throughput. What the baseline
    writes is in its time, so that it is in neither difference. None where the difference of the times is not positive:
    the throughput was higher than any that the times can tell.
    """
    found: dict[str, float | None] = {}
    for stage, without in quiet.items():
        count, time = figures.get(f"stages.{stage}.bytes_out"), figures.get(f"stages.{stage}.wall_s")
        if count is not None and count > without.bytes and time is not None:
            added_s = time - without.time_s
            found[f"stages.{stage}.{PERCEIVED}"] = (count - without.bytes) / added_s if added_s > 0 else None
    return found


def trial_result(trial: ScheduledTrial, metric: MetricFacts, repetitions: Sequence[Measured]) -> TrialResult:
    """One metric of one trial: its values in these repetitions, the median and its interval."""
    known = [each for each in repetitions if metric.of in each.figures]
    values = [each.figures[metric.of] for each in known]
    middle, low, high = median_interval(values) if values else (None, None, None)
    return TrialResult(
        trial=trial.key,
        parameters=trial.parameters,
        metric=metric.name,
        values=values,
        repetitions=[each.number for each in known],
        outliers=outliers(values) if values else [],
        undefined=sum(metric.of in each.undefined for each in repetitions),
        median=middle,
        low=low,
        high=high,
    )
