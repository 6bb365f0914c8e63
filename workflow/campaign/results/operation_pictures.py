"""Box plots of what the stages of each trial did: computing, I/O, and waiting."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import quantiles
from typing import TYPE_CHECKING, NamedTuple

from workflow.campaign.results.picture_canvas import (
    BLACK,
    COLOURS,
    MOST_ROWS,
    PALE,
    ResultsPicture,
    RowSpace,
    label_axis,
    new_row_canvas,
    set_legend,
    shown_rows,
    to_pdf,
    to_svg,
)
from workflow.campaign.results.picture_labels import RowLabels
from workflow.campaign.results.results_model import OperationTimes

if TYPE_CHECKING:
    from workflow.campaign.results.picture_canvas import Axes

# The hues of the report of a run.
OPERATIONS = {"compute": COLOURS[0], "io": COLOURS[1], "wait": COLOURS[3]}
NAMES = {"compute": "compute", "io": "I/O", "wait": "wait"}
BOX = 0.12
"""Height of a box in inches, as that of a trial."""
TRIAL = 0.55
# Tukey 1977: whiskers reach the farthest value within 1.5 times the height of the box.
WHISKER = 1.5
FEWEST_IN_BOX = 5
"""Values; quartiles of fewer say no more than the values themselves."""


class Box(NamedTuple):
    """Quartiles, and how far the values reach that are not drawn one by one."""

    low: float
    first: float
    middle: float
    third: float
    high: float


def make_box(values: Sequence[float]) -> Box:
    """The box of at least one value; quartiles are interpolated between values."""
    first, middle, third = quantiles(values, method="inclusive") if len(values) > 1 else [values[0]] * 3
    reach = WHISKER * (third - first)
    inside = [value for value in values if first - reach <= value <= third + reach]
    return Box(min(inside), first, middle, third, max(inside))


def operation_picture(stage: str, times: Sequence[OperationTimes]) -> ResultsPicture:
    """A row of boxes per trial: what a stage did, in seconds of its wall time."""
    naming = RowLabels([each.parameters for each in times])
    trials: dict[str, list[OperationTimes]] = {}
    for each in times:
        trials.setdefault(each.trial, []).append(each)
    shown = list(trials.values())[:MOST_ROWS]
    labels = [naming.text(group[0].parameters) for group in shown]
    rows = RowSpace(labels, TRIAL)
    box_height = BOX / rows.height
    canvas, axes = new_row_canvas(rows, 1.2)
    axes.set_ylabel(naming.title)
    data: list[list[str | int | float | bool | None]] = []
    for row, group in enumerate(shown):
        if row and not rows.is_above:
            axes.axhline(row - rows.top, color=PALE, linewidth=0.8)
        for position, each in enumerate(group):
            box = make_box(each.values)
            _draw(axes, row + box_height * 1.2 * (position - (len(group) - 1) / 2), box_height, box, each)
            label = naming.whole(each.parameters)
            data += [[label, each.operation, number, value, *box] for number, value in enumerate(each.values, 1)]
    axes.set_xlim(left=0)
    label_axis(axes.xaxis, f"time of {stage}", "s", max(value for each in times for value in each.values))
    for operation, colour in OPERATIONS.items():
        if any(each.operation == operation for each in times):
            axes.plot([], [], "s", color=colour, label=NAMES[operation])
    set_legend(canvas, axes)
    title = (
        f"{stage}: time for computing, I/O and waiting; median, quartiles, and values within 1.5 times their distance"
        if any(len(each.values) >= FEWEST_IN_BOX for each in times)
        else f"{stage}: time for computing, I/O and waiting; every repetition, and the median"
    )
    columns = ["trial", "operation", "number", "value", "low", "first_quartile", "median", "third_quartile", "high"]
    return ResultsPicture(
        f"operations-{stage}", title + shown_rows(len(trials), "trials"), to_svg(canvas), to_pdf(canvas), columns, data
    )


def _draw(axes: Axes, place: float, height: float, box: Box, times: OperationTimes) -> None:
    """A box of this height around its place on the axis."""
    colour = OPERATIONS[times.operation]
    has_box = len(times.values) >= FEWEST_IN_BOX
    if has_box:
        axes.plot([box.low, box.high], [place, place], color=colour, linewidth=1.2)
        axes.barh(place, box.third - box.first, height, box.first, color=colour, edgecolor=colour, linewidth=1)
    axes.plot([box.middle, box.middle], [place - height / 2, place + height / 2], color=BLACK, linewidth=1.5)
    for value in times.values:
        if not has_box or not box.low <= value <= box.high:
            axes.plot(value, place, "o", markersize=3.5, color=colour, fillstyle="none")
