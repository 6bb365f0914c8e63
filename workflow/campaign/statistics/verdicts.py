"""What comparisons say: better, worse, the same within the threshold, or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from workflow.campaign.statistics.median_ratio import MedianRatio, median_ratio, paired_ratio
from workflow.campaign.statistics.significance import (
    ALPHA,
    PairedValues,
    Significance,
    Test,
    holm,
    rank_test,
    sign_test,
    smallest_paired_p,
)
from workflow.report_figures import Better

Decision = Literal["faster", "slower", "same", "undecided"]
# Why a difference that the test finds is undecided all the same, and other reasons that are not noise.
INCLUDES_ONE = "the interval of the ratio includes 1"
OPPOSITE = "ranks and medians differ in opposite directions"
FEW_PAIRS = "too few pairs are left"


class TwoSamples(NamedTuple):
    """Values and those that they are compared with, which may be empty; `testable`: nothing is left out of either.

    `pairs`: one of each from every block that has both; None: they are compared by ranks.
    """

    values: Sequence[float]
    reference: Sequence[float]
    testable: bool
    threshold: float
    better: Better
    pairs: Sequence[PairedValues] | None = None


class Decided(NamedTuple):
    """The verdict, and why it is undecided where that is more than noise."""

    decision: Decision
    reason: str = ""


class PairVerdict(NamedTuple):
    """What two samples say; None where they were not tested."""

    ratio: MedianRatio
    test: Test | None
    p: float | None
    corrected_p: float | None
    decision: Decision
    reason: str


def decide_together(samples: Sequence[TwoSamples]) -> list[PairVerdict]:
    """The verdict on each pair of samples; the p-values of all that are testable are corrected together."""
    results = [_test(each) if each.testable else None for each in samples]
    corrected = holm([result.p for result in results if result is not None])
    left, tests = iter(corrected), len(corrected)
    found = []
    for each, result in zip(samples, results, strict=True):
        ratio = _ratio(each)
        if result is None:
            found.append(PairVerdict(ratio, None, None, None, "undecided", ""))
            continue
        corrected_p = next(left)
        decision, reason = decide(ratio, corrected_p, each.threshold, each.better, result.direction)
        if decision == "undecided" and each.pairs is not None and smallest_paired_p(len(each.pairs)) * tests > ALPHA:
            reason = FEW_PAIRS
        test: Test = "ranks" if each.pairs is None else "pairs"
        found.append(PairVerdict(ratio, test, result.p, corrected_p, decision, reason))
    return found


def decide(ratio: MedianRatio, corrected_p: float, threshold: float, better: Better, direction: int) -> Decided:
    """The verdict on a ratio, e.g. new ÷ old; `direction`: what the test finds larger, as in `Significance`.

    faster or slower: the test is significant after correction, the interval of the ratio excludes 1, both differ in one
    direction, and the ratio differs from 1 by more than `threshold`. same: the whole interval of the ratio lies within
    the threshold, 1/(1 + threshold) … 1 + threshold. Everything else is undecided. `faster` means better, whatever is
    measured.
    """
    if ratio.ratio is None or ratio.low is None or ratio.high is None:
        return Decided("undecided")
    upper, lower = 1 + threshold, 1 / (1 + threshold)
    if lower <= ratio.low and ratio.high <= upper:
        return Decided("same")
    if corrected_p >= ALPHA or lower <= ratio.ratio <= upper:
        return Decided("undecided")
    if ratio.low <= 1 <= ratio.high:
        return Decided("undecided", INCLUDES_ONE)
    if (ratio.ratio > 1) != (direction > 0):
        return Decided("undecided", OPPOSITE)
    return Decided("faster" if (ratio.ratio > 1) == (better == "more") else "slower")


def _test(samples: TwoSamples) -> Significance:
    return rank_test(samples.values, samples.reference) if samples.pairs is None else sign_test(samples.pairs)


def _ratio(samples: TwoSamples) -> MedianRatio:
    if samples.pairs is not None:
        return paired_ratio(samples.pairs)
    both = samples.values and samples.reference
    return median_ratio(samples.values, samples.reference) if both else MedianRatio(None, None, None)
