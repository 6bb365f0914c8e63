"""What comparisons say: better, worse, the same within the threshold, or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from workflow.campaign.statistics.median_ratio import MedianRatio, median_ratio
from workflow.campaign.statistics.significance import ALPHA, holm, mann_whitney
from workflow.report_figures import Better

Decision = Literal["faster", "slower", "same", "undecided"]


class TwoSamples(NamedTuple):
    """Values and those that they are compared with, which may be empty; `testable`: nothing is left out of either."""

    values: Sequence[float]
    reference: Sequence[float]
    testable: bool
    threshold: float
    better: Better


class PairVerdict(NamedTuple):
    """What two samples say; None where they were not tested."""

    ratio: MedianRatio
    p: float | None
    corrected_p: float | None
    decision: Decision


def decide_together(pairs: Sequence[TwoSamples]) -> list[PairVerdict]:
    """The verdict on each pair; the p-values of all that are testable are corrected together."""
    p_values = [mann_whitney(pair.values, pair.reference) if pair.testable else None for pair in pairs]
    corrected = iter(holm([p for p in p_values if p is not None]))
    found = []
    for pair, p in zip(pairs, p_values, strict=True):
        corrected_p = None if p is None else next(corrected)
        both = pair.values and pair.reference
        ratio = median_ratio(pair.values, pair.reference) if both else MedianRatio(None, None, None)
        decision: Decision = "undecided"
        if corrected_p is not None:
            decision = decide(ratio, corrected_p, pair.threshold, pair.better)
        found.append(PairVerdict(ratio, p, corrected_p, decision))
    return found


def decide(ratio: MedianRatio, corrected_p: float, threshold: float, better: Better) -> Decision:
    """The verdict on a ratio of medians, e.g. new ÷ old.

    faster or slower: the test is significant after correction, and the ratio differs from 1 by more than `threshold`.
    same: the whole interval of the ratio lies within the threshold, 1/(1 + threshold) … 1 + threshold. Everything else
    is undecided. `faster` means better, whatever is measured.
    """
    if ratio.ratio is None or ratio.low is None or ratio.high is None:
        return "undecided"
    upper, lower = 1 + threshold, 1 / (1 + threshold)
    if corrected_p < ALPHA and not lower <= ratio.ratio <= upper:
        return "faster" if (ratio.ratio > 1) == (better == "more") else "slower"
    return "same" if lower <= ratio.low and ratio.high <= upper else "undecided"
