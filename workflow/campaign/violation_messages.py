"""The expectations that repetitions of a campaign have not kept, as messages and lines. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workflow.campaign.ledger import Attempt
from workflow.campaign.results.results_model import CampaignStatus, TrialViolation
from workflow.campaign.results.trial_violations import violated_by
from workflow.errors import Problem
from workflow.formatting import plural
from workflow.plan.plan_model import ExpectationPlan
from workflow.report.show.expectation_table import figure_text
from workflow.run.run_directory import RUNS


def violation_lines(expected: Sequence[ExpectationPlan], attempt: Attempt) -> list[str]:
    """What a repetition that has just ended has not kept."""
    return [
        f"{each.figure}: expected {each.expected}, "
        + ("not measured" if each.measured is None else f"measured {figure_text(each.measured, each.unit, each.limit)}")
        for each in violated_by(expected, attempt)
    ]


def violation_messages(status: CampaignStatus, names: Mapping[str, str]) -> list[Problem]:
    """An error for each expectation that repetitions of a trial have not kept; `names`: key of a trial → its name."""
    return [
        Problem(each.place, 0, 0, each.key, f"{names[trial.trial]}: {violation_text(each, trial.succeeded)}")
        for trial in status.trials
        for each in trial.violations
    ]


def violation_text(each: TrialViolation, succeeded: int) -> str:
    """`expected > 1 GB/s, and 2 of 6 repetitions did not keep it; at worst 312 MB/s (runs/3f2a91c07b12-r03)`."""
    worst = "not measured" if each.worst is None else f"at worst {figure_text(each.worst, each.unit, each.limit)}"
    count = f"{each.count} of {plural(succeeded, 'repetition')} did not keep it"
    return f"expected {each.expected}, and {count}; {worst} ({RUNS}/{each.run})"
