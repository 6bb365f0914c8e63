"""Medians over a number that varies, with the ideal line where it is a number of ranks; the colour of each value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from workflow.campaign.file.campaign_spec import Scaling
from workflow.campaign.file.trials import short_names
from workflow.campaign.results.picture_canvas import (
    BLACK,
    COLOURS,
    WIDEST,
    DataRow,
    ResultsPicture,
    is_wide,
    label_values,
    new_canvas,
    set_legend,
    set_logarithmic,
    to_pdf,
    to_svg,
)
from workflow.campaign.results.picture_labels import in_words, short_labels
from workflow.campaign.results.results_model import MetricFacts, TrialResult
from workflow.campaign.results.trial_dimensions import (
    Dimension,
    Parameters,
    find_dimensions,
    find_scaling,
    ideal_factor,
    is_ranks,
    number_key,
)

if TYPE_CHECKING:
    from workflow.campaign.results.picture_canvas import Axes

MARKERS = "osD^vPX*"
DASHES = ("-", "--", "-.")
HEIGHT = 3.8
LOGARITHMIC = 4.0
"""From this ratio of the largest to the smallest number on the axis is logarithmic."""


class LineStyle(NamedTuple):
    """How the points of some trials are drawn."""

    colour: str
    marker: str
    dashes: str


class ValueColours:
    """The dimension of which most values are compared has the colours; without comparisons the first that is no
    number, or the first of all."""

    def __init__(self, points: Sequence[Parameters], compared: Sequence[str] = ()) -> None:
        """`compared`: the key of each comparison."""
        self.dimensions = find_dimensions(points)
        self._names = short_names([key for each in self.dimensions for key in each.keys])
        words = [each for each in self.dimensions if number_key(each, points) is None]
        most = [key for key, _ in Counter(compared).most_common()]
        first = [each for key in most for each in self.dimensions if key in each.keys]
        self._first: Dimension | None = next(iter([*first, *words, *self.dimensions]), None)

    def colour(self, parameters: Parameters) -> str:
        """The colour of a trial; one for all where their labels say the same."""
        if self._first is None or len(self.dimensions) == 1:
            return COLOURS[0]
        return COLOURS[self._first.values.index(self._first.value(parameters)) % len(COLOURS)]

    def line_label(self, parameters: Parameters, across: Dimension) -> str:
        """`via sst, size 64`: what a line over the dimension `across` has in common; empty for the only line."""
        return ", ".join(
            in_words(self._names[key], parameters[key])
            for each in self.dimensions
            if each != across
            for key in each.keys
            if key in parameters
        )

    def line_style(self, parameters: Parameters, across: Dimension) -> LineStyle:
        """Colour by the first dimension beside `across`, marker and dashes by those that follow."""
        others = [each for each in self.dimensions if each != across]
        first = next((each for each in others if each == self._first), others[0] if others else None)
        if first is None:
            return LineStyle(COLOURS[0], MARKERS[0], DASHES[0])
        index, rest = first.values.index(first.value(parameters)), 0
        for each in others:
            if each != first:
                rest = rest * len(each.values) + each.values.index(each.value(parameters))
        return LineStyle(
            COLOURS[index % len(COLOURS)], MARKERS[(index + rest) % len(MARKERS)], DASHES[rest % len(DASHES)]
        )


def scaling_picture(
    metric: MetricFacts,
    rows: Sequence[TrialResult],
    across: Dimension,
    colours: ValueColours,
    stated: Scaling | None,
) -> ResultsPicture | None:
    """Medians over a dimension with numbers, a line for each combination of the others; None without numbers."""
    points = [each.parameters for each in rows]
    key = number_key(across, points)
    if key is None:
        return None
    scaling = find_scaling(across, points, stated)
    lines: dict[str, list[TrialResult]] = {}
    for each in rows:
        lines.setdefault(colours.line_label(each.parameters, across), []).append(each)
    canvas, axes = new_canvas(HEIGHT)
    data: list[DataRow] = []
    has_ideal = False
    for label, line in lines.items():
        line.sort(key=lambda each: across.number(each.parameters, key))
        style = colours.line_style(line[0].parameters, across)
        xs = [across.number(each.parameters, key) for each in line]
        ys = [each.median or 0.0 for each in line]
        errors = [
            [(y - each.low) if each.low is not None else 0.0 for y, each in zip(ys, line, strict=True)],
            [(each.high - y) if each.high is not None else 0.0 for y, each in zip(ys, line, strict=True)],
        ]
        axes.errorbar(
            xs, ys, yerr=errors, color=style.colour, marker=style.marker, linestyle=style.dashes, capsize=3,
            label=label or None,
        )  # fmt: skip
        ideal = [_ideal(metric.of, key, scaling, x / xs[0], ys[0]) for x in xs]
        if len(xs) > 1 and (best := [y for y in ideal if y is not None]):
            axes.plot(xs, best, ":", color=style.colour, linewidth=1.3)
            has_ideal = True
        data += [
            [label or metric.name, x, across.value(each.parameters), each.median, each.low, each.high, y]
            for x, each, y in zip(xs, line, ideal, strict=True)
        ]
    if has_ideal:
        # As a line with error bars, which a legend names after the lines without.
        axes.errorbar([], [], linestyle=":", color=BLACK, label=f"ideal {scaling} scaling")
    _set_axes(
        axes, metric, rows, across, key, is_straight=has_ideal and _ideal(metric.of, key, scaling, 2.0, 1.0) != 1.0
    )
    if any(lines) or has_ideal:
        set_legend(canvas, axes)
    name = short_names([key_ for each in points for key_ in each])[key]
    title = f"{metric.name} by {name}: medians and their 95 % intervals"
    title += f"; dotted: ideal {scaling} scaling from the first point of each line" if has_ideal else ""
    columns = ["line", name, "trial", "median", "low", "high", "ideal"]
    return ResultsPicture(
        f"{metric.name}-by-{name.replace('.', '-')}", title, to_svg(canvas), to_pdf(canvas), columns, data
    )


def _ideal(figure: str, key: str, scaling: Scaling, factor: float, first: float) -> float | None:
    times = ideal_factor(figure, key, scaling, factor) if is_ranks(key) else None
    return None if times is None else first * times


def _set_axes(
    axes: Axes, metric: MetricFacts, rows: Sequence[TrialResult], across: Dimension, key: str, is_straight: bool
) -> None:
    """`is_straight`: the ideal is a straight line where both axes are logarithmic."""
    others = Dimension(tuple(each for each in across.keys if each != key), ())
    marks = {across.number(each.parameters, key): others.value(each.parameters) for each in rows}
    numbers = sorted(marks)
    is_logarithmic = numbers[0] > 0 and numbers[-1] / numbers[0] >= LOGARITHMIC
    if is_logarithmic:
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
    shown = short_labels([marks[number] for number in numbers], WIDEST // len(numbers))
    axes.set_xticks(numbers, [f"{number:g}\n{text}".rstrip() for number, text in zip(numbers, shown, strict=True)])
    medians = [each.median for each in rows if each.median is not None]
    ends = [end for each in rows for end in (each.median, each.low, each.high) if end is not None]
    if is_wide(ends) or (is_logarithmic and is_straight):
        set_logarithmic(axes, "y", medians)
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(", ".join([key, *others.keys]))
    label_values(axes.yaxis, metric, max(medians))
