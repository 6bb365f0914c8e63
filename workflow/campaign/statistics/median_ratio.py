"""How much larger one sample is than another, as a ratio with an interval: the size of an effect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from workflow.campaign.statistics.median_interval import CONFIDENCE, FEWEST, median_interval

RESAMPLES = 10_000


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
