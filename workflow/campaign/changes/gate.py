"""The gate for CI: which changes fail it, as text for people and as JUnit's test cases. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from workflow.campaign.changes.changes_model import CampaignChanges
from workflow.campaign.file.trials import short_names, trial_text
from workflow.campaign.junit import JUnitCase
from workflow.campaign.results.campaign_tables import decision_text, metric_text, p_text, ratio_interval, varied
from workflow.campaign.results.comparisons import NO_VALUES, UNDEFINED
from workflow.campaign.results.results_model import ComparisonResult, MetricFacts
from workflow.formatting import plain_figure


def gate_cases(changes: CampaignChanges, strict: bool) -> list[JUnitCase]:
    """A case for each metric of each trial, and for what only one side has; `fault` fails the gate.

    A metric has regressed when it is significantly worse, and by more than its tolerance. A metric without a value in
    the new campaign fails always: a gate must not pass because nothing was measured.
    `strict`: what is undecided fails, too, unless its whole interval is within the tolerance or better; and a trial or
    metric that the new campaign's file leaves out.
    """
    facts = {metric.name: metric for metric in changes.metrics}
    names = short_names(
        varied([*(each.at for each in changes.changes), *(each.parameters for each in changes.unmatched)])
    )
    cases = []
    for change in changes.changes:
        metric = facts[change.metric]
        text = change_text(change, metric)
        undecided = change.decision == "undecided"
        missing = not change.count and change.reason == NO_VALUES
        fails = change.decision == "slower" or missing or (strict and undecided and not _is_no_worse(change, metric))
        name = f"{trial_text(change.at, names)}: {change.metric}"
        cases.append(JUnitCase(name, fault=text if fails else "", skipped=text if undecided else ""))
    alone = [(trial_text(each.parameters, names), "trial", each.side) for each in changes.unmatched]
    alone += [(name, "metric", side) for name, side in changes.unmatched_metrics.items()]
    for name, kind, side in alone:
        text = f"only the {'base' if side == 'base' else 'new campaign'} has this {kind}"
        cases.append(JUnitCase(name, fault=text if strict and side == "base" else "", skipped=text))
    return cases


def faults(changes: CampaignChanges, strict: bool) -> Iterator[str]:
    """What fails the gate, a line each; nothing where it passes."""
    for case in gate_cases(changes, strict):
        if case.fault:
            yield f"{case.name}: {case.fault}"


def change_text(change: ComparisonResult, metric: MetricFacts) -> str:
    """`1.2 s → 1.5 s, ratio 1.25 (1.2 … 1.3), p 0.002: slower`."""
    before, after = (metric_text(value, metric.unit) for value in (change.median_against, change.median))
    text = f"{before} → {after}"
    if change.ratio is not None:
        bounds = ratio_interval(change.ratio, change.low, change.high)
        interval = "" if change.low is None else f" ({bounds})"
        text += f", ratio {plain_figure(change.ratio)}{interval}, p {p_text(change.corrected_p)}"
    return f"{text}: {decision_word(change, metric)}"


def _is_no_worse(change: ComparisonResult, metric: MetricFacts) -> bool:
    """Whether the whole interval excludes a regression beyond the tolerance."""
    if change.low is None or change.high is None or change.reason == UNDEFINED:
        return False
    return change.low >= 1 / (1 + metric.threshold) if metric.better == "more" else change.high <= 1 + metric.threshold


def decision_word(change: ComparisonResult, metric: MetricFacts) -> str:
    """The verdict in words; why it is undecided, where that is known."""
    if change.reason == NO_VALUES:
        return f"undecided, no value in {'the new campaign' if change.count_against else 'the base'}"
    if change.reason == UNDEFINED:
        return "undecided, repetitions as fast as the baseline have no value"
    return decision_text(change.decision, metric, change.reason)
