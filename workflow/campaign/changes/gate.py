"""The gate for CI: which changes fail it, as text for people and as JUnit's test cases. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from workflow.campaign.changes.changes_model import CampaignChanges, TrialChange
from workflow.campaign.file.trials import short_names, trial_text
from workflow.campaign.junit import JUnitCase
from workflow.campaign.results.campaign_tables import decision_text, metric_text, p_text, ratio_interval, varied
from workflow.campaign.results.results_model import MetricFacts
from workflow.formatting import plain_figure


def gate_cases(changes: CampaignChanges, strict: bool) -> list[JUnitCase]:
    """A case for each metric of each trial, and for what only one side has; `fault` fails the gate.

    A metric has regressed when it is significantly worse, and by more than its tolerance. A metric without a value in
    the new campaign fails always: a gate must not pass because nothing was measured.
    `strict`: what is undecided fails, too, unless its whole interval is within the tolerance or better; and a trial or
    metric that the new campaign's file leaves out.
    """
    facts = {metric.name: metric for metric in changes.metrics}
    points = [*(each.parameters for each in changes.changes), *(each.parameters for each in changes.unmatched)]
    names = short_names(varied(points))
    cases = []
    for change in changes.changes:
        metric = facts[change.metric]
        text = change_text(change, metric)
        undecided = change.decision == "undecided"
        missing = change.new.count + change.new.undefined == 0
        cases.append(
            JUnitCase(
                f"{trial_text(change.parameters, names)}: {change.metric}",
                fault=text
                if change.decision == "slower" or missing or (strict and undecided and not _is_no_worse(change, metric))
                else "",
                skipped=text if undecided else "",
            )
        )
    for trial in changes.unmatched:
        cases.append(_unmatched_case(trial_text(trial.parameters, names), "trial", trial.side, strict))
    for name, side in changes.unmatched_metrics.items():
        cases.append(_unmatched_case(name, "metric", side, strict))
    return cases


def faults(changes: CampaignChanges, strict: bool) -> Iterator[str]:
    """What fails the gate, a line each; nothing where it passes."""
    for case in gate_cases(changes, strict):
        if case.fault:
            yield f"{case.name}: {case.fault}"


def change_text(change: TrialChange, metric: MetricFacts) -> str:
    """`1.2 s → 1.5 s, 1.25 times (1.2 … 1.3), p 0.002: slower`."""
    before, after = (metric_text(side.median, metric.unit) for side in (change.base, change.new))
    word = decision_word(change, metric)
    if change.ratio is None:
        return f"{before} → {after}: {word}"
    interval = (
        ""
        if change.low is None or change.high is None
        else f" ({ratio_interval(change.ratio, change.low, change.high)})"
    )
    return f"{before} → {after}, ratio {plain_figure(change.ratio)}{interval}, p {p_text(change.corrected_p)}: {word}"


def _is_no_worse(change: TrialChange, metric: MetricFacts) -> bool:
    """Whether the whole interval excludes a regression beyond the tolerance."""
    if change.low is None or change.high is None or change.base.undefined or change.new.undefined:
        return False
    return change.low >= 1 / (1 + metric.threshold) if metric.better == "more" else change.high <= 1 + metric.threshold


def decision_word(change: TrialChange, metric: MetricFacts) -> str:
    """The verdict in words; why it is undecided, where that is known."""
    for count, side in ((change.base.count, "the base"), (change.new.count, "the new campaign")):
        if not count:
            return f"undecided, no value in {side}"
    if change.base.undefined or change.new.undefined:
        return "undecided, repetitions as fast as the baseline have no value"
    return decision_text(change.decision, metric, change.reason)


def _unmatched_case(name: str, kind: str, side: str, strict: bool) -> JUnitCase:
    text = f"only the {'base' if side == 'base' else 'new campaign'} has this {kind}"
    return JUnitCase(name, fault=text if strict and side == "base" else "", skipped=text)
