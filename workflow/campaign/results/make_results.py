"""The ledger and the campaign file → medians, intervals and verdicts. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import get_args

from workflow.campaign.campaign_directory import Schedule, ScheduledTrial
from workflow.campaign.file.campaign_spec import CampaignSpec, ComparisonRequest
from workflow.campaign.file.load_campaign import same, values_of
from workflow.campaign.ledger import Attempt, History
from workflow.campaign.results.like_rates import UNLIKE, is_like
from workflow.campaign.results.missing_figures import why_unknown
from workflow.campaign.results.mixtures import mixture_notes
from workflow.campaign.results.results_model import (
    CampaignResults,
    CampaignStatus,
    ComparisonResult,
    MetricFacts,
    Operation,
    OperationTimes,
    TrialCount,
    TrialResult,
    machine_is_busy,
)
from workflow.campaign.results.samples import Measured, all_repetitions, by_trial, measured, of_attempts
from workflow.campaign.results.trial_violations import trial_violations
from workflow.campaign.results.turns import beside
from workflow.campaign.statistics.median_interval import FEWEST, median_interval
from workflow.campaign.statistics.outliers import outliers
from workflow.campaign.statistics.significance import choose_test
from workflow.campaign.statistics.verdicts import TwoSamples, decide_together
from workflow.formatting import plural
from workflow.report_figures import to_figure_name
from workflow.run.records.run_directory import RUNS

NOT_IN_TURNS = "not interleaved"


@dataclass(frozen=True)
class Pair:
    """Two trials that differ in one key, or in keys that change together."""

    vary: str
    value: object
    against: object
    at: Mapping[str, object]
    """The keys that both have in common."""
    trial: ScheduledTrial
    reference: ScheduledTrial


def make_results(spec: CampaignSpec, schedule: Schedule, history: History) -> CampaignResults:
    """All that the report of a campaign says."""
    repetitions = measured(schedule, spec, history)
    facts = metric_facts(spec)
    shown = [trial for trial in schedule.trials if not trial.is_baseline]
    of_trial = by_trial(repetitions)
    results = [_trial_result(trial, metric, of_trial.get(trial.key, [])) for metric in facts for trial in shown]
    status = make_status(spec, schedule, history)
    loads = [each.attempt.load for each in repetitions if each.attempt.load is not None]
    load = median(loads) if loads else None
    comparisons = _comparisons(spec, shown, facts, history)
    ends = [each.attempt.started + each.attempt.wall_s for each in repetitions]
    return CampaignResults(
        campaign=spec.campaign,
        description=spec.description,
        site=schedule.site,
        host=schedule.host,
        cores=schedule.cores,
        versions={"wf": schedule.wf_version, **schedule.versions},
        checksums=schedule.checksums,
        seed=spec.order.seed,
        started=min((each.attempt.started for each in repetitions), default=None),
        ended=max(ends, default=None),
        load=load,
        trials=status.trials,
        metrics=facts,
        results=results,
        operations=_operations(shown, of_trial),
        scaling=spec.scaling,
        options=schedule.options.arguments,
        comparisons=comparisons,
        notes=[
            *_busy_notes(load, schedule.cores),
            *mixture_notes(repetitions),
            *_turn_notes(comparisons, spec),
            *_again_notes(shown, history),
            *_notes(spec, status.trials, results, history, repetitions),
        ],
    )


def make_status(spec: CampaignSpec, schedule: Schedule, history: History) -> CampaignStatus:
    """How far a campaign is; without statistics."""
    counts = [_count(trial, spec, history) for trial in schedule.trials]
    return CampaignStatus(
        campaign=spec.campaign,
        site=schedule.site,
        spent_s=history.spent_s,
        trials=counts,
        options=schedule.options.arguments,
    )


def metric_facts(spec: CampaignSpec) -> list[MetricFacts]:
    """The metrics with what their figures imply."""
    found = []
    for name, metric in spec.metrics.items():
        figure = to_figure_name(metric.of)
        if figure is not None:
            unit, better, _ = figure.figure
            threshold = metric.threshold or spec.threshold
            chosen = metric.better or better
            found.append(
                MetricFacts(name=name, of=metric.of, unit=metric.unit or unit, better=chosen, threshold=threshold)
            )
    return found


def make_pairs(spec: CampaignSpec, request: ComparisonRequest, trials: Sequence[ScheduledTrial]) -> list[Pair]:
    """The pairs of trials that a comparison asks for, in the order of the trials.

    Keys of `zip` whose values follow from that of the key which varies are one with it.
    """
    together = keys_together(spec, request.vary)
    against = values_of(spec, request.vary)[0] if request.against is None else request.against
    groups: dict[str, list[ScheduledTrial]] = {}
    for trial in trials:
        if request.vary in trial.parameters:
            groups.setdefault(json.dumps(_others(trial.parameters, together), sort_keys=True), []).append(trial)
    pairs = []
    for group in groups.values():
        reference = next((each for each in group if same(each.parameters[request.vary], against)), None)
        for trial in group if reference is not None else []:
            if reference is not None and trial is not reference:
                at = _others(trial.parameters, together)
                pairs.append(Pair(request.vary, trial.parameters[request.vary], against, at, trial, reference))
    return pairs


def compared_keys(spec: CampaignSpec, trials: Sequence[ScheduledTrial]) -> list[tuple[str, str]]:
    """The keys of each two trials that are compared."""
    shown = [trial for trial in trials if not trial.is_baseline]
    pairs = (pair for request in spec.comparisons for pair in make_pairs(spec, request, shown))
    return list(dict.fromkeys((pair.trial.key, pair.reference.key) for pair in pairs))


def count_comparisons(spec: CampaignSpec, trials: Sequence[ScheduledTrial]) -> int:
    """How many tests the report makes at most: Holm's correction grows with it.

    By the file alone, never by what was measured: the choice of the test follows from it.
    """
    return sum(
        is_like(spec.metrics[metric].of, pair.trial, pair.reference)
        for request in spec.comparisons
        for pair in make_pairs(spec, request, trials)
        for metric in request.metrics or spec.metrics
    )


def keys_together(spec: CampaignSpec, key: str) -> frozenset[str]:
    """A key, and those of `zip` that have one value for each of its values: they cannot be told apart."""
    found = {key}
    mine = spec.zip_.get(key, [])
    for other, values in spec.zip_.items():
        rows = list(zip(mine, values, strict=False))
        if rows and all(same(value, second) for one, value in rows for two, second in rows if same(one, two)):
            found.add(other)
    return frozenset(found)


def _others(parameters: Mapping[str, object], keys: frozenset[str]) -> dict[str, object]:
    return {name: value for name, value in parameters.items() if name not in keys}


def _trial_result(trial: ScheduledTrial, metric: MetricFacts, repetitions: Sequence[Measured]) -> TrialResult:
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


def _operations(trials: Sequence[ScheduledTrial], of_trial: Mapping[str, list[Measured]]) -> list[OperationTimes]:
    """The times of the operations, by stage as in the pipeline; without stages that keep no metrics."""
    found: dict[str, list[OperationTimes]] = {}
    for trial in trials:
        repetitions = of_trial.get(trial.key, [])
        names = (to_figure_name(text) for each in repetitions for text in each.figures)
        for stage in dict.fromkeys(name.name for name in names if name is not None and name.section == "stages"):
            for operation in get_args(Operation):
                figure = f"stages.{stage}.{operation}_s"
                values = [each.figures[figure] for each in repetitions if figure in each.figures]
                if values:
                    times = OperationTimes(
                        stage=stage, operation=operation, trial=trial.key, parameters=trial.parameters, values=values
                    )
                    found.setdefault(stage, []).append(times)
    return [times for of_stage in found.values() for times in of_stage]


def _comparisons(
    spec: CampaignSpec, trials: Sequence[ScheduledTrial], facts: Sequence[MetricFacts], history: History
) -> list[ComparisonResult]:
    """Every comparison that was asked for; the p-values of all of them are corrected together.

    Of a trial that was measured more than once, each uses what was measured beside the other trial.
    """
    asked = [
        (metric, pair)
        for request in spec.comparisons
        for metric in facts
        if request.metrics is None or metric.name in request.metrics
        for pair in make_pairs(spec, request, trials)
    ]
    compared = {(pair.trial.key, pair.reference.key): pair for _, pair in asked}
    found_beside = {keys: beside(*keys, spec, history) for keys in compared}
    sides = {
        keys: (
            of_attempts(pair.trial, found_beside[keys].mine, spec, history),
            of_attempts(pair.reference, found_beside[keys].other, spec, history),
        )
        for keys, pair in compared.items()
    }
    both = []
    for metric, pair in asked:
        of_one, of_other = sides[pair.trial.key, pair.reference.key]
        both.append((_trial_result(pair.trial, metric, of_one), _trial_result(pair.reference, metric, of_other)))
    test = choose_test(spec.repetitions, count_comparisons(spec, trials))
    barred = [
        UNLIKE
        if not is_like(metric.of, pair.trial, pair.reference)
        else NOT_IN_TURNS
        if found_beside[pair.trial.key, pair.reference.key].in_turns is False
        else ""
        for metric, pair in asked
    ]
    samples = [
        TwoSamples(
            mine.values,
            other.values,
            not reason and mine.is_whole and other.is_whole,
            metric.threshold,
            metric.better,
            mine.pairs_with(other) if test == "pairs" else None,
        )
        for (metric, _), (mine, other), reason in zip(asked, both, barred, strict=True)
    ]
    found = []
    verdicts = decide_together(samples)
    for (metric, pair), (mine, other), reason, verdict in zip(asked, both, barred, verdicts, strict=True):
        found.append(
            ComparisonResult(
                metric=metric.name,
                vary=pair.vary,
                value=pair.value,
                against=pair.against,
                at=dict(pair.at),
                count=len(mine.values),
                count_against=len(other.values),
                **verdict.ratio._asdict(),
                test=verdict.test,
                p=verdict.p,
                corrected_p=verdict.corrected_p,
                decision=verdict.decision,
                reason=reason or verdict.reason,
                in_turns=found_beside[pair.trial.key, pair.reference.key].in_turns,
            )
        )
    return found


def _count(trial: ScheduledTrial, spec: CampaignSpec, history: History) -> TrialCount:
    succeeded, failed, reason = list[Attempt](), 0, ""
    for repetition in all_repetitions(trial.key, spec):
        attempt = history.ended.get(repetition)
        if repetition.warmup or attempt is None:
            continue
        succeeded += [attempt] if attempt.state == "succeeded" else []
        if attempt.state == "failed":
            failed, reason = failed + 1, f"{attempt.reason} ({RUNS}/{attempt.run})"
    violated, violations = trial_violations(trial.expectations, succeeded)
    return TrialCount(
        trial=trial.key,
        parameters=trial.parameters,
        is_baseline=trial.is_baseline,
        succeeded=len(succeeded),
        failed=failed,
        wanted=spec.repetitions,
        violated=violated,
        violations=violations,
        reason=reason,
    )


def _busy_notes(load: float | None, cores: int) -> list[str]:
    """That other programs used the machine: the runs themselves seldom load it beyond its cores."""
    if load is None or not machine_is_busy(load, cores):
        return []
    text = f"the machine was busy: a load of {load:.1f} on {plural(cores, 'core')}, median over the repetitions"
    return [f"{text}; measure again on a quiet one"]


def _notes(
    spec: CampaignSpec,
    counts: Sequence[TrialCount],
    results: Sequence[TrialResult],
    history: History,
    repetitions: Sequence[Measured],
) -> list[str]:
    notes = []
    missing = sum(count.wanted - count.succeeded - count.failed for count in counts)
    failed = sum(count.failed for count in counts)
    if missing > 0:
        notes.append(f"still to run: {missing} of {plural(sum(count.wanted for count in counts), 'repetition')}")
    if failed:
        notes.append(
            f"{plural(failed, 'repetition')} failed and are not included in the figures: `wf campaign status` says why"
        )
    if violated := sum(count.violated for count in counts):
        text = f"{plural(violated, 'repetition')} did not meet an expectation of the pipeline"
        notes.append(f"{text}, and are in all figures: `wf campaign status` says why")
    if spec.repetitions < FEWEST:
        notes.append(
            f"{plural(spec.repetitions, 'repetition')} per trial: too few for an interval, which needs {FEWEST}"
        )
    marked = sum(sum(result.outliers) for result in results)
    if marked:
        notes.append(
            f"{plural(marked, 'value')} far from the others of the same trial: marked, but included in all figures"
        )
    for metric in spec.metrics:
        notes += _undefined_notes(metric, [each for each in results if each.metric == metric])
        without = sum(result.metric == metric and not result.values for result in results)
        if without and not missing:
            why = why_unknown(spec.metrics[metric].of, repetitions)
            notes.append(f"{metric} is not known of {plural(without, 'trial')}{why and f': {why}'}")
    if history.unreadable:
        notes.append(f"{plural(history.unreadable, 'line')} of the ledger cannot be read")
    return notes


def _turn_notes(comparisons: Sequence[ComparisonResult], spec: CampaignSpec) -> list[str]:
    """That trials are compared of which one was measured after the other."""
    count = sum(each.in_turns is False for each in comparisons)
    if not count:
        return []
    one = "it has" if count == 1 else "they have"
    text = f"{plural(count, 'comparison')} of trials that were not interleaved: {one} no verdict"
    by_file = "`order: {by: blocks}` interleaves them"
    how = by_file if spec.order.by == "file" else "`wf campaign run --remeasure-reference` measures both side by side"
    return [f"{text}, because the machine may have changed in between; {how}"]


def _again_notes(trials: Sequence[ScheduledTrial], history: History) -> list[str]:
    """That trials were measured more than once."""
    keys = {repetition.key for repetition in history.earlier if not repetition.warmup}
    count = sum(trial.key in keys for trial in trials)
    if not count:
        return []
    text = f"{plural(count, 'trial')} measured more than once: medians are those of the last measurement"
    return [f"{text}, comparisons use what was measured beside the other trial"]


def _undefined_notes(metric: str, results: Sequence[TrialResult]) -> list[str]:
    """That repetitions as fast as the baseline have no perceived throughput: the fastest are not in the median."""
    cut = [each for each in results if each.undefined]
    if not cut:
        return []
    undefined = sum(each.undefined for each in cut)
    count = undefined + sum(len(each.values) for each in cut)
    text = f"{metric} is undefined in {undefined} of {plural(count, 'repetition')} of {plural(len(cut), 'trial')}"
    return [f"{text}, which were not slower than without I/O: medians there are lower bounds, and get no verdict"]
