"""Whether two samples differ by more than chance: Mann–Whitney's U test, and Holm's correction for several tests."""

from __future__ import annotations

import math
from collections.abc import Sequence

ALPHA = 0.05
# Above it the normal approximation differs by less than 0.001 from the exact distribution, which takes long.
EXACT_UP_TO = 50


def mann_whitney(values: Sequence[float], reference: Sequence[float]) -> float:
    """Two-sided p-value that both samples come from one distribution.

    Mann and Whitney 1947, doi:10.1214/aoms/1177730491. Exact without ties up to 50 values a side; else by the normal
    approximation with corrections for ties and continuity. 1 where all values are equal.
    """
    from scipy.stats import mannwhitneyu

    everything = [*values, *reference]
    if len(set(everything)) == 1:
        return 1.0
    has_ties = len(set(everything)) < len(everything)
    exact = not has_ties and max(len(values), len(reference)) <= EXACT_UP_TO
    result = mannwhitneyu(values, reference, alternative="two-sided", method="exact" if exact else "asymptotic")
    return float(result.pvalue)


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


def smallest_p(count: int, reference: int) -> float:
    """The smallest p-value that the test can give for samples of these sizes: all values of one above all others."""
    return 2 / math.comb(count + reference, count)


def repetitions_needed(comparisons: int, alpha: float = ALPHA) -> int:
    """How many repetitions a side makes a significant difference possible among so many comparisons."""
    count = 1
    while smallest_p(count, count) * max(comparisons, 1) > alpha:
        count += 1
    return count
