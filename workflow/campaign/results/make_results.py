"""The ledger and the campaign file → medians, intervals and verdicts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import get_args

from workflow.campaign.campaign_directory import Schedule, ScheduledTrial
from workflow.campaign.file.campaign_spec import CampaignSpec, Scaling
from workflow.campaign.ledger import Attempt, History
from workflow.campaign.results.comparisons import compare_trials, interleaving_notes, search_results
from workflow.campaign.results.results_model import (
    CampaignResults,
    CampaignStatus,
    MetricFacts,
    Operation,
    OperationTimes,
    TrialCount,
    TrialResult,
    TrialViolation,
    machine_is_busy,
)
from workflow.campaign.results.samples import Measured, all_repetitions, by_trial, measured, trial_result
from workflow.campaign.search import asked_counts
from workflow.campaign.statistics import FEWEST
from workflow.formatting import plural
from workflow.plan.plan_model import ExpectationPlan
from workflow.report.build.met_expectations import judge, violations, why_not_measured
from workflow.report.report_model import ExpectationPart
from workflow.report_figures import OWN, to_figure_name
from workflow.run.records.run_directory import RUNS


def make_results(spec: CampaignSpec, schedule: Schedule, history: History) -> CampaignResults:
    """All that the report of a campaign says."""
    repetitions = measured(schedule, spec, history)
    facts = metric_facts(spec)
    shown = [trial for trial in schedule.trials if not trial.is_baseline]
    of_trial = by_trial(repetitions)
    results = [trial_result(trial, metric, of_trial.get(trial.key, [])) for metric in facts for trial in shown]
    status = make_status(spec, schedule, history)
    loads = [each.attempt.load for each in repetitions if each.attempt.load is not None]
    load = median(loads) if loads else None
    comparisons = compare_trials(spec, shown, facts, history)
    searches = search_results(spec, shown, facts, history)
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
        scaling=spec.scaling or _scaling_per_rank(spec, schedule),
        labels=spec.labels,
        options=schedule.options.arguments,
        comparisons=comparisons,
        searches=searches,
        notes=[
            *_busy_notes(load, schedule.cores),
            *condition_notes(repetitions),
            *interleaving_notes(comparisons, searches, spec),
            *_again_notes(shown, history),
            *schedule.plan_notes,
            *_notes(spec, status.trials, results, history, repetitions),
        ],
    )


def _scaling_per_rank(spec: CampaignSpec, schedule: Schedule) -> Scaling | None:
    """weak where the sizes of all stages whose ranks vary are per rank, none where those of some are.

    None: those of no stage are, or a size varies with the ranks, by which the pictures decide.
    """
    varied = {key for trial in schedule.trials for key in trial.parameters if key.startswith("stages.")}
    ranks = {key for key in varied if key.endswith(".ranks")}
    per_rank = ranks & {*schedule.sized_per_rank}
    if not per_rank or (per_rank & {*spec.zip_} and any(".with." in key or ".env." in key for key in spec.zip_)):
        return None
    return "weak" if per_rank == ranks else "none"


def make_status(spec: CampaignSpec, schedule: Schedule, history: History) -> CampaignStatus:
    """How far a campaign is; without statistics."""
    asked = asked_counts(spec, schedule.trials, history)
    counts = [_count(trial, asked[trial.key], spec, history) for trial in schedule.trials]
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
                MetricFacts(
                    name=name, of=metric.of, unit=metric.unit or unit, better=chosen, threshold=threshold,
                    label=metric.label or "",
                )
            )  # fmt: skip
    return found


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
    return [times for of_stage in found.values() for times in _without_no_copies(of_stage)]


def _without_no_copies(times: Sequence[OperationTimes]) -> list[OperationTimes]:
    """Without the times of copies to a device of a stage that copies nothing in any trial."""
    copies = any(value for each in times if each.operation == "device" for value in each.values)
    return [each for each in times if copies or each.operation != "device"]


def _count(trial: ScheduledTrial, wanted: int, spec: CampaignSpec, history: History) -> TrialCount:
    succeeded, failed, reason = list[Attempt](), 0, ""
    for repetition in all_repetitions(trial.key, spec):
        attempt = history.ended.get(repetition)
        if repetition.warmup or repetition.number > wanted or attempt is None:
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
        wanted=wanted,
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
    if lacking := [each.attempt for each in repetitions if each.attempt.reason and not each.warmup]:
        are = "is" if len(lacking) == 1 else "are"
        text = f"{plural(len(lacking), 'repetition')} lost a part, and {are} in all figures"
        notes.append(f"{text}: {lacking[0].reason} ({RUNS}/{lacking[0].run})")
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
            why = why_unknown(spec.metrics[metric].of, [each.attempt for each in repetitions])
            notes.append(f"{metric} is not known of {plural(without, 'trial')}{why and f': {why}'}")
    if history.unreadable:
        notes.append(f"{plural(history.unreadable, 'line')} of the ledger cannot be read")
    return notes


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


def condition_notes(repetitions: Iterable[Measured]) -> list[str]:
    """That some repetitions ran alone and some beside others, or on several hosts.

    What is not recorded of a repetition does not count.
    """
    attempts = [each.attempt for each in repetitions if not each.warmup]
    notes = []
    beside = sum(bool(each.place) for each in attempts)
    if 0 < beside < len(attempts):
        text = f"{beside} of {len(attempts)} repetitions had a place beside others, and the rest of them ran alone"
        notes.append(
            f"{text}: times of both are compared as if they were alike. Measure all in one way, by another --dir"
        )
    hosts = Counter(each.host for each in attempts if each.host)
    if len(hosts) > 1:
        shown = ", ".join(f"{host} ({count})" for host, count in hosts.most_common(4))
        text = f"the repetitions ran on {len(hosts)} hosts: {shown}{', …' if len(hosts) > 4 else ''}"
        notes.append(f"{text}: a difference between hosts is in medians and ratios")
    return notes


def why_unknown(name: str, attempts: Sequence[Attempt]) -> str:
    """Why a figure of a program's own is not known of the attempts without it; empty for other figures."""
    figure, without = to_figure_name(name), [each for each in attempts if name not in each.figures]
    if figure is None or not figure.is_own or not without:
        return ""
    begin = f"stages.{figure.name}.{OWN}"
    known = {each.removeprefix(begin) for attempt in without for each in attempt.figures if each.startswith(begin)}
    problems = (each.figure_problems.get(figure.name) for each in without)
    return why_not_measured(name, known, next(filter(None, problems), ""))


def violated_by(expected: Sequence[ExpectationPlan], attempt: Attempt) -> list[ExpectationPart]:
    """What a repetition that succeeded has not kept."""
    return violations(judge(expected, attempt.figures)) if attempt.state == "succeeded" else []


def trial_violations(
    expected: Sequence[ExpectationPlan], attempts: Sequence[Attempt]
) -> tuple[int, list[TrialViolation]]:
    """How many of these repetitions of a trial have not kept all, and what they have not kept."""
    missed = [(attempt, each) for attempt in attempts for each in violated_by(expected, attempt)]
    found = []
    for wanted in expected:
        its = [(attempt, each) for attempt, each in missed if each.key == wanted.key]
        if its:
            worst, part = max(its, key=lambda one: _distance(one[1]))
            found.append(
                TrialViolation(
                    key=part.key, place=part.place, figure=part.figure, expected=part.expected, unit=part.unit,
                    count=len(its), limit=part.limit, worst=part.measured, run=worst.run,
                    why="" if part.measured is not None else why_unknown(part.figure, [worst]),
                )
            )  # fmt: skip
    return len({attempt.run for attempt, _ in missed}), found


def _distance(each: ExpectationPart) -> float:
    """How far a figure is from its limit; nothing is farther than one that was not measured."""
    return float("inf") if each.measured is None else abs(each.measured - each.limit)
