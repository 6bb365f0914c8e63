"""What all pictures of campaigns share: canvas, colours, axes, texts, SVG, PDF. The only module that uses matplotlib.

The colours are those of Okabe and Ito, which all kinds of colour vision tell apart. The canvas is so narrow that its
letters can be read on a phone, too. Equal data give equal bytes.
"""

from __future__ import annotations

import base64
import csv
import io
import math
import re
import textwrap
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from workflow.campaign.results.results_model import MetricFacts
from workflow.formatting import NO_BREAK, in_one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    Canvas = Figure


COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8f9aa8", "#000000")
MARKERS = "osD^vPX*"
"""One for each colour: who does not see the one sees the other."""
BLACK = "#000000"
PALE = "#e8ebef"
WIDTH = 5.4
"""Inches. Letters of 9 points are 8.5 pixels high in a column of 368 pixels, which is what a phone has."""
SMALL, USUAL = 9.0, 9.5
"""Points of letters: ticks, legends and labels of rows; titles and names of axes."""
TITLE, LINE = 66, 0.17
"""Letters in a line of the title, and the height of a line in inches."""
WIDEST = 62
"""Letters in one line of a legend, with its samples."""
AXIS_LINE = 32
"""Letters in one line beside a vertical axis."""
ROOM = 0.04
"""Beside what is drawn, as a share of the axis."""
LOGARITHMIC = 20.0
"""From this ratio of the largest to the smallest value their axis is logarithmic."""
LOGARITHM = ", logarithmic"
"""What the name of such an axis ends with."""
TIMES = ((1e-6, "µs"), (1e-3, "ms"))
PREFIXES = ("", "k", "M", "G", "T", "P")
DataRow = Sequence[str | int | float | bool | None]
CUT = "…"


@dataclass(frozen=True)
class ResultsPicture:
    """A picture and the numbers that it shows."""

    name: str
    title: str
    canvas: Canvas
    columns: Sequence[str]
    rows: Sequence[DataRow]
    metric: str = ""
    """The name of the only metric that it shows."""

    @cached_property
    def svg(self) -> bytes:
        """With texts as texts, and without a date or random names."""
        return _saved(self.canvas, "svg", "Date")

    def pdf(self) -> bytes:
        """With its letters, as publishers ask for, and without a date."""
        return _saved(self.canvas, "pdf", "CreationDate")

    def csv(self) -> bytes:
        """The numbers as a table; empty where a value is not known."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue().encode()

    @property
    def address(self) -> str:
        """The picture as an address, for a page in one file."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg).decode()}"

    def files(self) -> dict[str, bytes]:
        """What is written beside a page, by suffix: SVG for screens, PDF for LaTeX, and the numbers."""
        return {".svg": self.svg, ".pdf": self.pdf(), ".csv": self.csv()}


def new_canvas(height: float) -> tuple[Canvas, Axes]:
    """An empty picture of this height in inches, with one panel."""
    canvas, panels = new_panels(height, 1, 1)
    return canvas, panels[0]


def new_panels(height: float, count: int, columns: int) -> tuple[Canvas, list[Axes]]:
    """An empty picture with panels that share their axes; each has its ticks, the outer ones their labels."""
    from matplotlib.figure import Figure as NewCanvas

    canvas = NewCanvas(figsize=(WIDTH, height), layout="constrained")
    first: Axes | None = None
    panels: list[Axes] = []
    for index in range(count):
        axes = canvas.add_subplot(-(-count // columns), columns, index + 1, sharex=first, sharey=first)
        first = first or axes
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=SMALL)
        axes.tick_params(axis="x", labelbottom=index + columns >= count)
        axes.tick_params(axis="y", labelleft=index % columns == 0)
        panels.append(axes)
    return canvas, panels


def name_axis(axis: Axis, metric: MetricFacts, values: Sequence[float]) -> None:
    """An axis of values of a metric: bare numbers, their unit beside its name, and which end is better."""
    label_axis(axis, metric.title, metric.unit, max(values), f", {in_one_line(f'{metric.better} is better')}")


def label_axis(axis: Axis, name: str, unit: str, largest: float, more: str = "") -> None:
    """An axis of values up to `largest`, in a unit of which that is some: `ms`, `GB/s`. Its scale is set before."""
    from matplotlib.axis import YAxis

    factor, shown = axis_unit(unit, largest)
    axis.set_major_formatter(lambda value, _: f"{value / factor:.6g}")
    text = f"{name}{f' in{NO_BREAK}{shown}' if shown else ''}{more}{LOGARITHM if axis.get_scale() == 'log' else ''}"
    lines = wrapped(text, AXIS_LINE if isinstance(axis, YAxis) else TITLE, 2)
    axis.set_label_text("\n".join(lines), fontsize=USUAL)


def axis_unit(unit: str, largest: float) -> tuple[float, str]:
    """(size of the unit, its name) for values up to `largest`; no name for ratios and counts."""
    if unit == "s":
        return next(((size, name) for size, name in TIMES if largest < size * 1000), (1.0, "s"))
    if unit in ("B", "B/s"):
        power = min(max(0, int(math.log10(largest) // 3)), len(PREFIXES) - 1) if largest > 0 else 0
        return 1000.0**power, PREFIXES[power] + unit
    return 1.0, "" if unit in ("1", "ratio", "steps") else unit


def set_scale(axes: Axes, which: Literal["x", "y"], values: Sequence[float], *, log: bool | None = None) -> None:
    """An axis from zero, with room beyond the largest value; logarithmic where values differ so much that the small
    ones would not be seen, or where `log` says so."""
    if min(values) > 0 and (log or max(values) >= LOGARITHMIC * min(values)):
        set_logarithmic(axes, which, values)
        return
    low = min(0.0, min(values))
    room = ROOM * (max(values) - low) or 1.0
    (axes.set_xlim if which == "x" else axes.set_ylim)(low - (room if low else 0.0), max(values) + room)


def set_logarithmic(axes: Axes, which: Literal["x", "y"], values: Sequence[float]) -> None:
    """A logarithmic axis; marks at 1, 2 and 5 of each decade, at 1 only where they would lie on one another."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis: Axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    many = min(values) > 0 and max(values) >= 500 * min(values)
    axis.set_major_locator(LogLocator(base=10, subs=(1,) if many else (1, 2, 5)))
    axis.set_minor_locator(NullLocator())


def set_ticks(axes: Axes, places: Sequence[float], labels: Sequence[str], letters: float) -> None:
    """Ticks of a horizontal axis, which has room for so many letters: those whose labels would touch have none."""
    from matplotlib.ticker import NullLocator

    axes.xaxis.set_minor_locator(NullLocator())
    shown = list(labels)
    logs = [math.log(place) for place in places] if axes.get_xscale() == "log" else list(places)
    span, end = (logs[-1] - logs[0]) or 1.0, -math.inf
    for index, label in enumerate(labels):
        half = (max(map(len, label.split("\n"))) + 1) / 2 / letters
        place = (logs[index] - logs[0]) / span
        if place - half < end:
            shown[index] = ""
        else:
            end = place + half
    axes.set_xticks(places, shown)


def set_finding(canvas: Canvas, lines: Sequence[str]) -> None:
    """What the picture shows, above it: a reader sees it first. It makes the picture higher."""
    text = [line for each in lines for line in wrapped(each, TITLE, 2)]
    canvas.set_figheight(canvas.get_figheight() + LINE * len(text))
    canvas.suptitle("\n".join(text), fontsize=USUAL)


def set_legend(canvas: Canvas, axes: Axes) -> None:
    """Name what is drawn, below the picture: beside the lines there is not always room."""
    handles, labels = axes.get_legend_handles_labels()
    if not labels:
        return
    labels = fitting(labels, WIDEST - 6, 1)
    lengths = [len(label) + 6 for label in labels]
    # Columns are as wide as the longest of theirs.
    columns = len(labels) if sum(lengths) <= WIDEST else max(1, WIDEST // max(lengths))
    canvas.set_figheight(canvas.get_figheight() + LINE * 1.15 * -(-len(labels) // columns))
    canvas.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, handlelength=2.2, fontsize=SMALL,
        columnspacing=1.5,
    )  # fmt: skip


def _saved(canvas: Canvas, form: Literal["svg", "pdf"], date: str) -> bytes:
    """A `$` in a value is no formula, and what matplotlib warns of (letters that its font lacks) the user of a report
    can do nothing about: the page and the data are whole without it.
    """
    import matplotlib
    from matplotlib.text import Text

    for text in canvas.findobj(Text):
        text.set_parse_math(False)
    stream = io.BytesIO()
    style = {"svg.fonttype": "none", "svg.hashsalt": "wf", "pdf.fonttype": 42, "text.parse_math": False}
    with matplotlib.rc_context(style), warnings.catch_warnings():  # type: ignore[arg-type]
        warnings.simplefilter("ignore")
        canvas.savefig(stream, format=form, metadata={date: None})
    return stream.getvalue()


def fitting(labels: Sequence[str], letters: int, lines: int) -> list[str]:
    """Labels in at most so many lines of so many letters; those that the cut makes equal get their numbers."""
    cut = ["\n".join(wrapped(each, letters, lines)) for each in labels]
    count, whole = Counter(cut), Counter(labels)
    return [
        f"{number}: {short}" if count[short] > whole[label] else short
        for number, (short, label) in enumerate(zip(cut, labels, strict=True), 1)
    ]


def cut_middle(text: str, most: int) -> str:
    """At most so many letters, those at both ends."""
    if len(text) <= most:
        return text
    front = (most - len(CUT) + 1) // 2
    back = most - len(CUT) - front
    return text[:front].rstrip() + CUT + text[len(text) - back :].lstrip()


def wrapped(text: str, width: int, most: int) -> list[str]:
    """A text in about `most` lines of at most so many letters, all about as long, broken between its words but not in
    brackets or beside `×` and `=`.

    Of a longer one the middle goes.
    """
    whole = re.sub(rf"\([^()]{{,{width - 2}}}\)", lambda found: in_one_line(found[0]), text)
    whole = re.sub(r"(?<=\d) \(", f"{NO_BREAK}(", whole)
    whole = re.sub(r" ([×=]) ", rf"{NO_BREAK}\1{NO_BREAK}", whole)
    whole = cut_middle(whole, width * most)

    def lines_of(letters: int) -> list[str]:
        return textwrap.wrap(whole, letters, break_long_words=False, break_on_hyphens=False)

    lines = lines_of(width)
    for letters in range(width - 1, 0, -1):
        shorter = lines_of(letters)
        if len(shorter) > len(lines) or max(map(len, shorter), default=0) > letters:
            break
        lines = shorter
    return [cut_middle(line.replace(NO_BREAK, " "), width) for line in lines]
