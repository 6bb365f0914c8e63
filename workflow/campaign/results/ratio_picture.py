"""Ratios with their intervals, one row each, what is better to the right: of comparisons and of two campaigns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
    to_pdf,
    to_svg,
)
from workflow.campaign.statistics.verdicts import Decision
from workflow.report_figures import Better

VERDICTS: dict[Decision, str] = {
    "faster": COLOURS[2], "slower": COLOURS[5], "same": COLOURS[0], "undecided": COLOURS[6],
}  # fmt: skip
MEANINGS = {"faster": "better", "slower": "worse", "same": "the same", "undecided": "undecided"}
# Of ratios that are all near 1 this much is shown, so that noise does not look like an effect.
NARROWEST = 1.1
ROOM = 0.04
"""On each side, as a share of the axis."""


class Gain(NamedTuple):
    """By what factor one is better than the other, and the bounds of the interval."""

    factor: float
    low: float | None
    high: float | None


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
    better: Better

    @property
    def gain(self) -> Gain:
        """The ratio, and of a metric of which less is better its inverse: above 1 is better, whatever is measured."""
        if self.better == "more":
            return Gain(self.ratio, self.low, self.high)
        low, high = (None if each is None else 1 / each for each in (self.high, self.low))
        return Gain(1 / self.ratio, low, high)


def ratio_picture(name: str, title: str, rows: Sequence[RatioRow]) -> ResultsPicture:
    """The gain of each row with its interval; the band is what counts as the same."""
    shown = [(each, each.gain) for each in rows[:MOST_ROWS]]
    space = RowSpace([each.label for each, _ in shown], ROW)
    canvas, axes = new_row_canvas(space, 1.3)
    for height, (each, gain) in enumerate(shown):
        # Beside the label above a row there is neither the band nor the line.
        ends = [height - space.half, height + space.half]
        axes.fill_betweenx(ends, 1 / (1 + each.threshold), 1 + each.threshold, color=PALE, linewidth=0, zorder=0.5)
        axes.plot([1, 1], ends, color=BLACK, linewidth=0.8)
        if gain.low is not None and gain.high is not None:
            axes.plot([gain.low, gain.high], [height, height], color=VERDICTS[each.decision], linewidth=2.5)
        axes.plot(gain.factor, height, "o", color=VERDICTS[each.decision])
    known = [value for _, gain in shown for value in gain if value is not None]
    low, high, marks = ratio_axis(min(1 / NARROWEST, *known), max(NARROWEST, *known))
    set_ratio_axis(axes, low, high, marks)
    axes.set_xlabel("← worse · by this factor · better →")
    for decision, colour in VERDICTS.items():
        if any(each.decision == decision for each, _ in shown):
            axes.plot([], [], "o-", color=colour, linewidth=2.5, label=MEANINGS[decision])
    set_legend(canvas, axes)
    columns = [
        "comparison", "ratio", "low", "high", "corrected_p", "verdict", "threshold", "gain", "gain_low", "gain_high"
    ]  # fmt: skip
    data = [[e.label, e.ratio, e.low, e.high, e.corrected_p, e.decision, e.threshold, *gain] for e, gain in shown]
    return ResultsPicture(name, title + shown_rows(len(rows), "ratios"), to_svg(canvas), to_pdf(canvas), columns, data)


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
