"""What all pictures of campaigns share: canvas, colours, data and SVG. The only module that uses matplotlib.

The colours are those of Okabe and Ito, which all kinds of colour vision tell apart. Equal data give equal bytes.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workflow.campaign.results.campaign_tables import metric_text
from workflow.campaign.results.results_model import MetricFacts
from workflow.campaign.results.short_labels import short_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
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
_ZEROS = re.compile(r"\.0+(?= )|(?<=\.\d)0(?= )")
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


def label_rows(axes: Axes, labels: Sequence[str]) -> None:
    """A label for each row, the first at the top."""
    axes.set_yticks(range(len(labels)), short_labels(labels, LONGEST))
    axes.set_ylim(len(labels) - 0.4, -0.6)


def label_values(axis: Any, metric: MetricFacts) -> None:
    """An axis of values of a metric: numbers with their units."""
    axis.set_major_formatter(mark_writer(metric.unit))
    axis.set_label_text(f"{metric.name} ({metric.of})")


def mark_writer(unit: str) -> Callable[[float, object], str]:
    """The texts of marks on an axis, without zeros that say nothing: `2 s`, not `2.00 s`."""
    return lambda value, _: _ZEROS.sub("", metric_text(value, unit))


def set_logarithmic_values(axes: Axes) -> None:
    """A logarithmic axis of values; marks at 1, 2 and 5 of each decade."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())


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
    columns = max(1, min(len(labels), int(110 / (longest + 6))))
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
