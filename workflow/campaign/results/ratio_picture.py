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
    RowSpace,
    new_row_canvas,
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
ROOM = 0.04
"""On each side, as a share of the axis."""


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
    space = RowSpace([each.label for each in shown], ROW)
    canvas, axes = new_row_canvas(space, 1.3)
    for height, each in enumerate(shown):
        bounds = 1 / (1 + each.threshold), 1 + each.threshold
        band = [height - space.top, height - space.top + 1]
        axes.fill_betweenx(band, *bounds, color=PALE, linewidth=0, zorder=0.5)
        if each.low is not None and each.high is not None:
            axes.plot([each.low, each.high], [height, height], color=VERDICTS[each.decision], linewidth=2.5)
        axes.plot(each.ratio, height, "o", color=VERDICTS[each.decision])
    axes.axvline(1, color=BLACK, linewidth=0.8)
    known = [value for each in shown for value in (each.ratio, each.low, each.high) if value is not None]
    low, high, marks = ratio_axis(min(1 / NARROWEST, *known), max(NARROWEST, *known))
    set_ratio_axis(axes, low, high, marks)
    axes.set_xlabel("ratio of the medians")
    for decision, colour in VERDICTS.items():
        if any(each.decision == decision for each in shown):
            axes.plot([], [], "o-", color=colour, linewidth=2.5, label=MEANINGS[decision])
    set_legend(canvas, axes)
    columns = ["comparison", "ratio", "low", "high", "corrected_p", "verdict", "threshold"]
    data = [[e.label, e.ratio, e.low, e.high, e.corrected_p, e.decision, e.threshold] for e in shown]
    return ResultsPicture(name, title + shown_rows(len(rows), "ratios"), to_svg(canvas), columns, data)


def ratio_axis(low: float, high: float) -> tuple[float, float, list[float]]:
    """(begin, end, marks) of an axis for ratios between two bounds, with room beside them and marks on both sides of 1.

    The marks are round: near 1 in steps of 5 or 10 %, farther away doubled.
    """
    room = (high / low) ** ROOM
    low, high = low / room, high * room
    if high / low < 1.5:
        step = 0.05 if high / low < 1.35 else 0.1
        marks = [round(1 + step * count, 2) for count in range(-9, 10)]
    elif high / low < 5:
        marks = [0.25, 0.33, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 2, 3, 4]
    else:
        factor = 2.0 if high / low < 100 else 10.0
        marks = [factor**power for power in range(-30, 31)]
        low, high = min(low, 1 / factor), max(high, factor)
    return low, high, [mark for mark in marks if low <= mark <= high]
