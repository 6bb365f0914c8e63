"""What a comparison says: better, worse, the same within the threshold, or undecided."""

from __future__ import annotations

from typing import Literal

from workflow.campaign.file.campaign_spec import Better
from workflow.campaign.statistics.median_ratio import MedianRatio
from workflow.campaign.statistics.significance import ALPHA

Decision = Literal["faster", "slower", "same", "undecided"]


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
