"""Ratios of medians with their intervals, one row each: a forest plot, of comparisons and of two campaigns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workflow.campaign.results.picture_canvas import (
    BLACK,
    COLOURS,
    MOST_ROWS,
    PALE,
    ROW,
    ResultsPicture,
    label_rows,
    new_canvas,
    set_legend,
    set_ratio_axis,
    shown_rows,
    to_svg,
)
from workflow.campaign.statistics.verdicts import Decision

VERDICTS: dict[Decision, str] = {
    "faster": COLOURS[2], "slower": COLOURS[5], "same": COLOURS[0], "undecided": COLOURS[6],
}  # fmt: skip
MEANINGS = {"faster": "better", "slower": "worse", "same": "the same", "undecided": "undecided"}
# Of ratios that are all near 1 this much is shown, so that noise does not look like an effect.
NARROWEST = 1.1


@dataclass(frozen=True)
class RatioRow:
    """One ratio that is drawn."""

    label: str
    ratio: float
    low: float | None
    high: float | None
    corrected_p: float | None
    decision: Decision
    threshold: float


def ratio_picture(name: str, title: str, rows: Sequence[RatioRow]) -> ResultsPicture:
    """The ratio of each row with its interval; the band is what counts as the same."""
    shown = rows[:MOST_ROWS]
    canvas, axes = new_canvas(1.3 + ROW * len(shown))
    for height, each in enumerate(shown):
        bounds = 1 / (1 + each.threshold), 1 + each.threshold
        axes.fill_betweenx([height - 0.5, height + 0.5], *bounds, color=PALE, linewidth=0)
        if each.low is not None and each.high is not None:
            axes.plot([each.low, each.high], [height, height], color=VERDICTS[each.decision], linewidth=2.5)
        axes.plot(each.ratio, height, "o", color=VERDICTS[each.decision])
    axes.axvline(1, color=BLACK, linewidth=0.8)
    known = [value for each in shown for value in (each.ratio, each.low, each.high) if value is not None]
    low, high = min(1 / NARROWEST, *known) / 1.02, max(NARROWEST, *known) * 1.02
    set_ratio_axis(axes, low, high, _marks(low, high))
    label_rows(axes, [each.label for each in shown])
    axes.set_xlabel("ratio of the medians")
    for decision, colour in VERDICTS.items():
        if any(each.decision == decision for each in shown):
            axes.plot([], [], "o-", color=colour, linewidth=2.5, label=MEANINGS[decision])
    set_legend(canvas, axes)
    columns = ["comparison", "ratio", "low", "high", "corrected_p", "verdict", "threshold"]
    data = [[e.label, e.ratio, e.low, e.high, e.corrected_p, e.decision, e.threshold] for e in shown]
    return ResultsPicture(name, title + shown_rows(len(rows), "ratios"), to_svg(canvas), columns, data)


def _marks(low: float, high: float) -> list[float]:
    """Round ratios between two bounds: near 1 in steps of 5 or 10 %, farther away doubled."""
    if high / low < 1.5:
        step = 0.05 if high / low < 1.35 else 0.1
        return [round(1 + step * count, 2) for count in range(-9, 10) if low <= 1 + step * count <= high]
    if high / low < 5:
        return [each for each in (0.25, 0.33, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4) if low <= each <= high]
    factor = 2 if high / low < 100 else 10
    return [float(factor) ** power for power in range(-30, 31) if low <= float(factor) ** power <= high]
