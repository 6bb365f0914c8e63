"""Values far from the others. They are marked, never removed: a slow repetition is a fact about the machine."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from workflow.campaign.statistics.median_interval import FEWEST

LIMIT = 3.5
# The median of absolute deviations of a normal distribution is 0.6745 of its standard deviation.
_NORMAL = 0.6745


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
    return [distance > 0 if spread == 0 else _NORMAL * distance / spread > LIMIT for distance in distances]
