"""The statistics of a campaign: a median and its interval, outliers, and tests of significance. Pure.

docs/explanation/statistics.md explains each figure.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import fmean, median, variance
from typing import Literal, NamedTuple

CONFIDENCE = 0.95
FEWEST = 6
FEWEST_INTERPOLATED = 8
OUTLIER_SCORE = 3.5
# The median of absolute deviations of a normal distribution is 0.6745 of its standard deviation.
_NORMAL = 0.6745
ALPHA = 0.05
# Above it the normal approximation differs by less than 0.001 from the exact distribution, which takes long.
EXACT_UP_TO = 50
Test = Literal["pairs", "ranks"]
"""pairs: the sign test over the blocks of a campaign, which is the rank test stratified by blocks. ranks: Mann and
Whitney's test of two independent samples, and beside it Welch's on logarithms."""
PairedValues = tuple[float, float]


class MedianInterval(NamedTuple):
    """A median and the bounds of its interval; None where there are too few values."""

    median: float
    low: float | None
    high: float | None


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> MedianInterval:
    """The median of at least one value, with its interval.

    It assumes independent values, and nothing about their distribution. From 8 values on: Hettmansperger and Sheather
    1986, doi:10.1016/0167-7152(86)90021-0, who interpolate between two pairs of order statistics. For 6 and 7 values:
    the smallest and the largest, which cover 96.9 and 98.4 %. Fewer values have no interval of 95 %: the smallest and
    the largest of 5 cover 93.75 %.
    """
    ordered, middle = sorted(values), median(values)
    count = len(ordered)
    if count < FEWEST:
        return MedianInterval(middle, None, None)
    if count < FEWEST_INTERPOLATED:
        return MedianInterval(middle, ordered[0], ordered[-1])
    depth = _depth(count, confidence)
    wide, narrow = coverage(count, depth), coverage(count, depth + 1)
    share = (wide - confidence) / (wide - narrow)
    weight = (count - depth) * share / (depth + (count - 2 * depth) * share)
    low = (1 - weight) * ordered[depth - 1] + weight * ordered[depth]
    high = (1 - weight) * ordered[count - depth] + weight * ordered[count - depth - 1]
    return MedianInterval(middle, low, high)


@functools.cache
def coverage(count: int, depth: int) -> float:
    """How often the interval from the `depth`-th smallest to the `depth`-th largest of `count` values has the median.

    1 − 2 P(B ≤ depth − 1) with B binomial(count, 1/2): exact for every continuous distribution.
    """
    below: int = sum(math.comb(count, rank) for rank in range(depth))
    return 1 - 2 * float(below) / 2.0**count


def _depth(count: int, confidence: float) -> int:
    """The largest depth whose interval still covers `confidence`."""
    depth = 1
    while coverage(count, depth + 1) >= confidence:
        depth += 1
    return depth


def outliers(values: Sequence[float]) -> list[bool]:
    """Which values have a modified z-score above 3.5: 0.6745 · |value − median| ÷ MAD.

    Iglewicz and Hoaglin 1993, How to detect and handle outliers. Where more than half of the values are equal, so that
    the MAD is 0, every other value is marked. Of fewer than 6 values none is: their spread is not known well enough.
    """
    if len(values) < FEWEST:
        return [False] * len(values)
    middle = median(values)
    distances = [abs(value - middle) for value in values]
    spread = median(distances)
    return [distance > 0 if spread == 0 else _NORMAL * distance / spread > OUTLIER_SCORE for distance in distances]


class Significance(NamedTuple):
    """Two-sided p, and which side the test finds larger: 1 the values, -1 the reference, 0 neither."""

    p: float
    direction: int


def choose_test(repetitions: int, comparisons: int) -> Test:
    """In pairs where so many repetitions can be significant among so many comparisons; else by ranks.

    Known before anything runs: a test that is chosen by its result finds differences where there are none.
    """
    return "pairs" if smallest_paired_p(repetitions) * max(comparisons, 1) <= ALPHA else "ranks"


def sign_test(pairs: Sequence[PairedValues]) -> Significance:
    """Whether the first of each pair is the larger one as often as the second: the exact test of the binomial.

    Nothing is assumed of the distribution, and what slows a whole block cancels. Equal values count against a
    difference. It rejects exactly where the interval of the median ratio by order statistics excludes 1.
    """
    above, below = (sum(sign * (one - other) > 0 for one, other in pairs) for sign in (1, -1))
    against = len(pairs) - max(above, below)
    tail = sum(math.comb(len(pairs), count) for count in range(against + 1))
    return Significance(min(1.0, 2 * tail / 2 ** len(pairs)), (above > below) - (above < below))


def rank_test(values: Sequence[float], reference: Sequence[float]) -> Significance:
    """The larger p of Mann and Whitney's test and of Welch's on logarithms.

    The first is no test of medians: with equal medians and unequal spread it finds a difference in up to a quarter of
    all reports. The second allows unequal spread, and is misled by other things: both together seldom are.
    """
    from scipy.stats import mannwhitneyu

    everything = [*values, *reference]
    if len(set(everything)) == 1:
        return Significance(1.0, 0)
    has_ties = len(set(everything)) < len(everything)
    exact = not has_ties and max(len(values), len(reference)) <= EXACT_UP_TO
    result = mannwhitneyu(values, reference, alternative="two-sided", method="exact" if exact else "asymptotic")
    excess = float(result.statistic) - len(values) * len(reference) / 2
    p = float(result.pvalue)
    if min(everything) > 0 and min(len(values), len(reference)) > 1:
        p = max(p, welch([math.log(value) for value in values], [math.log(value) for value in reference]))
    return Significance(p, (excess > 0) - (excess < 0))


def welch(values: Sequence[float], reference: Sequence[float]) -> float:
    """Two-sided p that both means are equal, whatever the two spreads are.

    Welch 1947, doi:10.1093/biomet/34.1-2.28. 0 where neither side has a spread, and they differ.
    """
    from scipy.special import stdtr

    one, other = (variance(side) / len(side) for side in (values, reference))
    distance = abs(fmean(values) - fmean(reference))
    if one + other == 0:
        return float(distance == 0)
    freedom = (one + other) ** 2 / (one**2 / (len(values) - 1) + other**2 / (len(reference) - 1))
    return 2 * float(stdtr(freedom, -distance / math.sqrt(one + other)))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number, in the same order (Holm 1979, https://www.jstor.org/stable/4615733).

    Rejecting those below α makes a false rejection among all of them no more frequent than α.
    """
    count = len(p_values)
    corrected = [0.0] * count
    largest = 0.0
    for rank, index in enumerate(sorted(range(count), key=lambda each: p_values[each])):
        largest = max(largest, min(1.0, (count - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def smallest_paired_p(count: int) -> float:
    """The smallest p of so many pairs: all of them differ in one direction."""
    return 2.0 ** (1 - count)


def smallest_p(count: int, reference: int) -> float:
    """The smallest p of two samples of these sizes by ranks: all values of one above all others."""
    return 2 / math.comb(count + reference, count)


def repetitions_needed(comparisons: int, test: Test = "ranks") -> int:
    """How many repetitions a side make a significant difference possible among so many comparisons."""
    count = 1
    while (smallest_paired_p(count) if test == "pairs" else smallest_p(count, count)) * max(comparisons, 1) > ALPHA:
        count += 1
    return count
