"""The median with its confidence interval. It assumes independent values, and nothing about their distribution.

From 8 values on: Hettmansperger and Sheather 1986, doi:10.1016/0167-7152(86)90021-0, who interpolate between two pairs
of order statistics. For 6 and 7 values: the smallest and the largest, which cover 96.9 and 98.4 %. Fewer values have no
interval of 95 %: the smallest and the largest of 5 cover 93.75 %.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

CONFIDENCE = 0.95
FEWEST = 6
FEWEST_INTERPOLATED = 8


class MedianInterval(NamedTuple):
    """A median and the bounds of its interval; None where there are too few values."""

    median: float
    low: float | None
    high: float | None


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> MedianInterval:
    """The median of at least one value, with its interval."""
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
