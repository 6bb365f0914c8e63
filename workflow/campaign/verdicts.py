"""The verdicts of comparisons: better, worse, the same within the threshold, or undecided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Literal, NamedTuple

from workflow.campaign.statistics import (
    ALPHA,
    CONFIDENCE,
    FEWEST,
    PairedValues,
    Significance,
    Test,
    holm,
    median_interval,
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
NO_RATIO = "no ratio: values are not all positive"
RESAMPLES = 10_000


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


def decide_together(samples: Sequence[TwoSamples], of: int = 0) -> list[PairVerdict]:
    """The verdict on each pair of samples; the p-values of all that are testable are corrected together.

    `of`: that they are so many at least, with others that are not known yet.
    """
    results = [_test(each) if each.testable else None for each in samples]
    known = [result.p for result in results if result is not None]
    corrected = holm([*known, *[1.0] * (of - len(known))])
    left, tests = iter(corrected), len(corrected)
    found = []
    for each, result in zip(samples, results, strict=True):
        ratio = _ratio(each)
        if result is None:
            found.append(PairVerdict(ratio, None, None, None, "undecided", ""))
            continue
        corrected_p = next(left)
        decision, reason = decide(ratio, corrected_p, each.threshold, each.better, result.direction)
        few = each.pairs is not None and smallest_paired_p(len(each.pairs)) * tests > ALPHA
        if decision == "undecided" and few and not (reason == NO_RATIO and each.pairs):
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
    if ratio.ratio is None:
        return Decided("undecided", NO_RATIO)
    if ratio.low is None or ratio.high is None:
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


class MedianRatio(NamedTuple):
    """Ratio of two medians, or median of ratios, and the bounds of its interval; None where it is not known."""

    ratio: float | None
    low: float | None
    high: float | None


def median_ratio(values: Sequence[float], reference: Sequence[float], seed: int = 0) -> MedianRatio:
    """Median of `values` ÷ median of `reference`, with the percentile bootstrap interval of 95 %.

    Each side is drawn again with replacement, `RESAMPLES` times, from a fixed seed: equal data give equal bounds. No
    ratio where a value is not positive, unless all are equal: then it is 1. No interval where a side has fewer than 6
    values.
    """
    import numpy as np

    if min(len(values), len(reference)) >= FEWEST and len({*values, *reference}) == 1:
        return MedianRatio(1.0, 1.0, 1.0)
    if min(*values, *reference, math.inf) <= 0:
        return MedianRatio(None, None, None)
    ratio = median(values) / median(reference)
    if min(len(values), len(reference)) < FEWEST:
        return MedianRatio(ratio, None, None)
    generator = np.random.default_rng(seed)
    sides = [np.asarray(side, dtype=float) for side in (values, reference)]
    above, below = (np.median(side[generator.integers(0, len(side), (RESAMPLES, len(side)))], axis=1) for side in sides)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(above / below, [tail, 1 - tail])
    return MedianRatio(ratio, float(low), float(high))


def paired_ratio(pairs: Sequence[tuple[float, float]]) -> MedianRatio:
    """The median of the ratios within pairs, with the interval of a median: of logarithms, so that 2 and 1/2 are alike.

    No ratio where a value is not positive, unless all are equal: then it is 1. No interval of fewer than 6 pairs.
    """
    if len(pairs) >= FEWEST and len({value for pair in pairs for value in pair}) == 1:
        return MedianRatio(1.0, 1.0, 1.0)
    if not pairs or min(value for pair in pairs for value in pair) <= 0:
        return MedianRatio(None, None, None)
    middle, low, high = median_interval([math.log(one / other) for one, other in pairs])
    bounds = (None if bound is None else math.exp(bound) for bound in (low, high))
    return MedianRatio(math.exp(middle), *bounds)
