"""What all pictures of campaigns share: canvas, colours, data and SVG. The only module that uses matplotlib.

The colours are those of Okabe and Ito, which all kinds of colour vision tell apart. Equal data give equal bytes.
"""

from __future__ import annotations

import csv
import io
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from workflow.campaign.results.results_model import MetricFacts
from workflow.campaign.results.short_labels import short_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8f9aa8", "#000000")
BLACK = "#000000"
PALE = "#e8ebef"
WIDTH = 8.0
"""Inches."""
ROW = 0.34
MOST_ROWS = 60
LONGEST = 52
"""Letters of a label beside its row: they take about half of the picture."""
WIDEST = 90
"""Letters below a picture, in one line."""
LOGARITHMIC = 20.0
"""From this ratio of the largest to the smallest value on their axis is logarithmic."""
TIMES = ((1e-6, "µs"), (1e-3, "ms"))
PREFIXES = ("", "k", "M", "G", "T", "P")
DataRow = Sequence[str | int | float | bool | None]


@dataclass(frozen=True)
class ResultsPicture:
    """A picture and the numbers that it shows."""

    name: str
    title: str
    svg: bytes
    columns: Sequence[str]
    rows: Sequence[DataRow]

    def csv(self) -> bytes:
        """The numbers as a table; empty where a value is not known."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue().encode()


def new_canvas(height: float) -> tuple[Canvas, Axes]:
    """An empty picture of this height in inches."""
    from matplotlib.figure import Figure as NewCanvas

    canvas = NewCanvas(figsize=(WIDTH, height), layout="constrained")
    axes = canvas.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return canvas, axes


def label_rows(axes: Axes, labels: Sequence[str], title: str = "") -> None:
    """A label for each row, the first at the top."""
    axes.set_ylabel(title)
    axes.set_yticks(range(len(labels)), short_labels(labels, LONGEST))
    axes.set_ylim(len(labels) - 0.4, -0.6)


def label_values(axis: Axis, metric: MetricFacts, largest: float) -> None:
    """An axis of values of a metric up to `largest`: bare numbers, their unit beside its name; below it the figure."""
    label_axis(axis, metric.name, metric.unit, largest, f", {metric.better} is better\n{metric.of}")


def label_axis(axis: Axis, name: str, unit: str, largest: float, more: str = "") -> None:
    """An axis of values up to `largest`, in a unit of which that is some: `ms`, `GB/s`."""
    factor, shown = axis_unit(unit, largest)
    axis.set_major_formatter(lambda value, _: f"{value / factor:.6g}")
    axis.set_label_text(f"{name}{f' in {shown}' if shown else ''}{more}")


def axis_unit(unit: str, largest: float) -> tuple[float, str]:
    """(size of the unit, its name) for values up to `largest`; no name for ratios and counts."""
    if unit == "s":
        return next(((size, name) for size, name in TIMES if largest < size * 100), (1.0, "s"))
    if unit in ("B", "B/s"):
        power = min(max(0, int(math.log10(largest) // 3)), len(PREFIXES) - 1) if largest > 0 else 0
        return 1000.0**power, PREFIXES[power] + unit
    return 1.0, "" if unit in ("1", "steps") else unit


def is_wide(values: Sequence[float]) -> bool:
    """Whether values differ by so much that the small ones are seen on a logarithmic axis only."""
    return min(values) > 0 and max(values) >= LOGARITHMIC * min(values)


def set_logarithmic(axes: Axes, which: Literal["x", "y"], values: Sequence[float]) -> None:
    """A logarithmic axis; marks at 1, 2 and 5 of each decade, at 1 only where there are many."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis: Axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    many = min(values) > 0 and max(values) >= 1000 * min(values)
    axis.set_major_locator(LogLocator(base=10, subs=(1,) if many else (1, 2, 5)))
    axis.set_minor_locator(NullLocator())


def set_ratio_axis(axes: Axes, low: float, high: float, marks: Sequence[float]) -> None:
    """A logarithmic axis, on which twice and half are equally far from 1, with these marks only."""
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(marks, [f"{mark:g}" for mark in marks])


def set_legend(canvas: Canvas, axes: Axes) -> None:
    """Name what is drawn, below the picture: beside the lines there is not always room."""
    handles, labels = axes.get_legend_handles_labels()
    labels = short_labels(labels, WIDEST)
    longest = max((len(label) for label in labels), default=0)
    columns = max(1, min(len(labels), int(84 / (longest + 6))))
    canvas.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def shown_rows(count: int, of: str) -> str:
    """What a title says where not all rows are drawn."""
    return f" (the first {MOST_ROWS} of {count} {of})" if count > MOST_ROWS else ""


def to_svg(canvas: Canvas) -> bytes:
    """With texts as texts, and without a date or random names.

    A `$` in a value is no formula, and what matplotlib warns of (too little room, letters that its font lacks) the user
    of a report can do nothing about: the page and the data are whole without it.
    """
    import matplotlib
    from matplotlib.text import Text

    for text in canvas.findobj(Text):
        text.set_parse_math(False)
    stream = io.BytesIO()
    with (
        matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "wf", "text.parse_math": False}),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        canvas.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()
