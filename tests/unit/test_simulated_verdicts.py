"""Verdicts on trials whose truth is known, by simulation: docs/explanation/statistics.md has the numbers."""

from __future__ import annotations

import math

import pytest

from tests.support.simulated_reports import KINDS, Plan, false_verdicts, power
from workflow.campaign.statistics import Test

ONE_IN_TWENTY = 0.05
PLANS = [
    (Plan(8, 6), "pairs"),
    (Plan(10, 7), "pairs"),
    (Plan(20, 12), "pairs"),
    (Plan(8, 4), "ranks"),
    (Plan(10, 7), "ranks"),
]
CASES = [(kind, plan, test) for kind in KINDS for plan, test in PLANS if (kind, test) != ("two humps", "ranks")]
REPORTS = [100, pytest.param(2_000, marks=pytest.mark.reliability)]


@pytest.mark.parametrize("reports", REPORTS)
@pytest.mark.parametrize(("kind", "plan", "test"), CASES)
def test_equal_medians_are_called_faster_or_slower_in_one_report_of_twenty(
    kind: str, plan: Plan, test: Test, reports: int
) -> None:
    """Also where the spreads differ. Three standard deviations are allowed for the simulation itself."""
    false, contradictions = false_verdicts(kind, plan, test, reports)
    assert contradictions == 0
    assert false <= ONE_IN_TWENTY + 3 * math.sqrt(ONE_IN_TWENTY * (1 - ONE_IN_TWENTY) / reports)


@pytest.mark.parametrize("reports", REPORTS)
def test_a_drifting_machine_hides_a_difference_from_the_ranks_and_not_from_the_pairs(reports: int) -> None:
    shares = {test: power(Plan(10, 1), test, 1.1, 0.02, 0.1, reports) for test in ("pairs", "ranks")}
    assert shares["pairs"] > 0.98 and shares["ranks"] < 0.6, shares
