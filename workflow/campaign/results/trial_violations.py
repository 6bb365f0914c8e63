"""The repetitions of a trial that did not meet the expectations of its pipeline. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from workflow.campaign.ledger import Attempt
from workflow.campaign.results.results_model import TrialViolation
from workflow.plan.plan_model import ExpectationPlan
from workflow.report.build.met_expectations import judge, violations
from workflow.report.report_model import ExpectationPart


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
                )
            )  # fmt: skip
    return len({attempt.run for attempt, _ in missed}), found


def _distance(each: ExpectationPart) -> float:
    """How far a figure is from its limit; nothing is farther than one that was not measured."""
    return float("inf") if each.measured is None else abs(each.measured - each.limit)
