"""What all pictures of campaigns share: canvas, colours, labels, data, SVG, PDF. The only module that uses matplotlib.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from workflow.campaign.file.trials import Parameters, in_words, short_names, trial_text, value_in_words, value_text
from workflow.campaign.results.campaign_tables import varied
from workflow.campaign.results.results_model import MetricFacts, TrialResult
from workflow.formatting import NO_BREAK, in_one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    Canvas = Figure


COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8f9aa8", "#000000")
BLACK = "#000000"
PALE = "#e8ebef"
WIDTH = 5.4
"""Inches. Letters of 10 points are 9 pixels high in a column of 368 pixels, which is what a phone has."""
ROW = 0.34
LABEL = 0.2
"""Inches of a label above its row."""
LABEL_SIZE = TITLE_SIZE = 9.5
MARGIN = 0.1
"""Above the first row and below the last, in rows."""
MOST_ROWS = 60
LONGEST = 20
"""Letters of a label beside its row: they take about a third of the picture."""
WIDEST = 58
"""Letters in one line of a legend."""
FULL = 0.94
"""Of the width of the picture: a line of a title or a label above its row is at most so long."""
AXIS_LINE = 36
"""Letters in one line beside a vertical axis."""
MOST_LINES, LINE = 2, 0.16
"""Lines of a sentence of the title, and inches of each."""
ROOM = 0.04
"""Beside what is drawn, as a share of the axis."""
LOGARITHMIC = 20.0
"""From this ratio of the largest to the smallest value on their axis is logarithmic."""
LOGARITHM = ", logarithmic"
"""What the name of such an axis ends with."""
TIMES = ((1e-6, "µs"), (1e-3, "ms"))
PREFIXES = ("", "k", "M", "G", "T", "P")
DataRow = Sequence[str | int | float | bool | None]
CUT = "…"
FEWEST = 8
"""Letters on each side of what all labels share that are kept: they say what the rest belongs to."""


@dataclass(frozen=True)
class ResultsPicture:
    """A picture and the numbers that it shows."""

    name: str
    title: str
    svg: bytes
    pdf: Callable[[], bytes]
    columns: Sequence[str]
    rows: Sequence[DataRow]
    metric: str = ""
    """The name of the only metric that it shows."""

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
    """An empty picture of this height in inches."""
    from matplotlib.figure import Figure as NewCanvas

    canvas = NewCanvas(figsize=(WIDTH, height), layout="constrained")
    axes = canvas.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return canvas, axes


@dataclass(frozen=True)
class RowSpace:
    """The room of each row of a picture, in inches: `drawn` for what is drawn, and above it a label that is long.

    On the axis rows are at 0, 1, 2, …, the first at the top.
    """

    labels: Sequence[str]
    drawn: float

    @property
    def is_above(self) -> bool:
        """Whether the labels stand above their rows, as wide as the picture."""
        return max(map(len, self.labels), default=0) > LONGEST

    @property
    def height(self) -> float:
        """Of a row with its label, in inches."""
        return self.drawn + (LABEL if self.is_above else 0.0)

    @property
    def half(self) -> float:
        """From the middle of what is drawn to its ends, in units of the axis: a label above it is not in there."""
        return self.drawn / 2 / self.height

    @property
    def top(self) -> float:
        """The upper end of a row: that much above it, in units of the axis."""
        return 1 - self.half


def new_row_canvas(rows: RowSpace, beside: float) -> tuple[Canvas, Axes]:
    """An empty picture of these rows, with so many inches above and below them."""
    canvas, axes = new_canvas(beside + rows.height * len(rows.labels))
    count = len(rows.labels)
    axes.set_ylim(count - 1 + rows.half + MARGIN, -rows.top - MARGIN)
    if rows.is_above:
        axes.set_yticks([])
        for row, label in enumerate(short_labels(rows.labels, line_length(rows.labels))):
            place = row - rows.top + LABEL / 2 / rows.height
            # No line of the picture passes through its letters.
            paper = {"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.5}
            where = axes.get_yaxis_transform()
            axes.text(
                0.01, place, label, transform=where, va="center", fontsize=LABEL_SIZE, bbox=paper, in_layout=False
            )
            if row:
                axes.axhline(row - rows.top, color=PALE, linewidth=0.8)
    else:
        axes.set_yticks(range(count), rows.labels)
    return canvas, axes


def label_values(axis: Axis, metric: MetricFacts, largest: float) -> None:
    """An axis of values of a metric up to `largest`: bare numbers, their unit beside its name."""
    label_axis(axis, metric.title, metric.unit, largest, f", {in_one_line(f'{metric.better} is better')}")


def label_axis(axis: Axis, name: str, unit: str, largest: float, more: str = "") -> None:
    """An axis of values up to `largest`, in a unit of which that is some: `ms`, `GB/s`. Its scale is set before."""
    from matplotlib.axis import YAxis

    factor, shown = axis_unit(unit, largest)
    axis.set_major_formatter(lambda value, _: f"{value / factor:.6g}")
    text = f"{name}{f' in{NO_BREAK}{shown}' if shown else ''}{more}{LOGARITHM if axis.get_scale() == 'log' else ''}"
    lines = wrapped(text, AXIS_LINE, MOST_LINES) if isinstance(axis, YAxis) else [text.replace(NO_BREAK, " ")]
    axis.set_label_text("\n".join(lines))


def axis_unit(unit: str, largest: float) -> tuple[float, str]:
    """(size of the unit, its name) for values up to `largest`; no name for ratios and counts."""
    if unit == "s":
        return next(((size, name) for size, name in TIMES if largest < size * 1000), (1.0, "s"))
    if unit in ("B", "B/s"):
        power = min(max(0, int(math.log10(largest) // 3)), len(PREFIXES) - 1) if largest > 0 else 0
        return 1000.0**power, PREFIXES[power] + unit
    return 1.0, "" if unit in ("1", "ratio", "steps") else unit


def has_intervals(rows: Sequence[TrialResult]) -> bool:
    """Whether an interval is drawn of any: few repetitions have none."""
    return any(each.low is not None for each in rows)


def is_wide(values: Sequence[float]) -> bool:
    """Whether values differ by so much that the small ones are seen on a logarithmic axis only."""
    return min(values) > 0 and max(values) >= LOGARITHMIC * min(values)


def begin_at_zero(axes: Axes, which: Literal["x", "y"]) -> None:
    """An axis from 0 to beyond the largest value drawn: from values that are alike the usual margin would be so small
    that the end of the axis cuts their marks."""
    set_limits, largest = (axes.set_xlim, axes.dataLim.x1) if which == "x" else (axes.set_ylim, axes.dataLim.y1)
    set_limits(0, largest * (1 + ROOM) if largest > 0 else None)


def set_logarithmic(axes: Axes, which: Literal["x", "y"], values: Sequence[float]) -> None:
    """A logarithmic axis; marks at 1, 2 and 5 of each decade, at 1 only where they would lie on one another."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis: Axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    many = min(values) > 0 and max(values) >= 500 * min(values)
    axis.set_major_locator(LogLocator(base=10, subs=(1,) if many else (1, 2, 5)))
    axis.set_minor_locator(NullLocator())


def set_ratio_axis(axes: Axes, low: float, high: float, marks: Sequence[float]) -> None:
    """A logarithmic axis, on which twice and half are equally far from 1, with these marks only."""
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(marks, [f"{mark:g}" for mark in marks])


def set_finding(axes: Axes, lines: Sequence[str]) -> None:
    """What the picture shows, above it: a reader sees it first. More than two lines make the picture higher."""
    text = [line for each in lines for line in wrapped(each, line_length([each]), MOST_LINES)]
    canvas = axes.get_figure(root=True)
    assert canvas is not None
    canvas.set_figheight(canvas.get_figheight() + LINE * max(0, len(text) - 2))
    canvas.suptitle("\n".join(text), fontsize=TITLE_SIZE)


def set_legend(canvas: Canvas, axes: Axes) -> None:
    """Name what is drawn, below the picture: beside the lines there is not always room."""
    handles, labels = axes.get_legend_handles_labels()
    labels = short_labels(labels, WIDEST)
    lengths = [len(label) + 5 for label in labels]
    # With the marks before them; columns are as wide as the longest of theirs.
    columns = len(labels) if sum(lengths) <= WIDEST else max(1, WIDEST // max(lengths))
    canvas.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, handlelength=1.6, columnspacing=1.5
    )


def shown_rows(count: int, of: str) -> str:
    """What a title says where not all rows are drawn."""
    return f" (the first {MOST_ROWS} of {count} {of})" if count > MOST_ROWS else ""


def to_svg(canvas: Canvas) -> bytes:
    """With texts as texts, and without a date or random names."""
    return _saved(canvas, "svg", {"Date": None})


def to_pdf(canvas: Canvas) -> Callable[[], bytes]:
    """With its letters, as publishers ask for, and without a date. Drawn when it is called: that takes longer than SVG,
    and only what writes files needs it.
    """
    return partial(_saved, canvas, "pdf", {"CreationDate": None})


def _saved(canvas: Canvas, form: Literal["svg", "pdf"], metadata: dict[str, None]) -> bytes:
    """A `$` in a value is no formula, and what matplotlib warns of (too little room, letters that its font lacks) the
    user of a report can do nothing about: the page and the data are whole without it.
    """
    import matplotlib
    from matplotlib.text import Text

    for text in canvas.findobj(Text):
        text.set_parse_math(False)
    stream = io.BytesIO()
    with (
        matplotlib.rc_context(
            {"svg.fonttype": "none", "svg.hashsalt": "wf", "pdf.fonttype": 42, "text.parse_math": False}
        ),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        canvas.savefig(stream, format=form, metadata=metadata)
    return stream.getvalue()


def line_length(texts: Sequence[str]) -> int:
    """How many letters fit into a line as wide as the picture, if they are as wide as those of the widest text."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=LABEL_SIZE)
    with warnings.catch_warnings():
        # Of letters that the font lacks.
        warnings.simplefilter("ignore")
        found = {text: text_to_path.get_text_width_height_descent(text, font, False) for text in texts if text}
    widths = [width / len(text) for text, (width, _, _) in found.items()]
    # Its widths are points, as all are of which 72 make an inch.
    return int(FULL * WIDTH * 72 / max(widths, default=LABEL_SIZE))


def short_labels(labels: Sequence[str], most: int) -> list[str]:
    """Labels of at most about `most` letters: what all have in common goes first, then the middle of each.

    Short ones stay as they are. Those that the cut would make equal get their numbers in the list.
    """
    if all(len(each) <= most for each in labels):
        return list(labels)
    rest = _without_common(labels, most) if len(set(labels)) > 1 else list(labels)
    cut = [cut_middle(each, most) for each in rest]
    count = Counter(cut)
    whole = Counter(labels)
    return [
        f"{number}: {short}" if count[short] > whole[label] else short
        for number, (short, label) in enumerate(zip(cut, labels, strict=True), 1)
    ]


def _without_common(labels: Sequence[str], most: int) -> list[str]:
    """Each label with as much of the beginning and the end that all share as there is room for."""
    head = _common(labels)
    tail = min(_common([each[::-1] for each in labels]), min(len(each) for each in labels) - head)
    room = max(2 * FEWEST, most - max(len(each) - head - tail for each in labels))
    after = min(tail, max(room // 2, room - head))
    return [
        cut_middle(each[:head], room - after)
        + each[head : len(each) - tail]
        + cut_middle(each[len(each) - tail :], after)
        for each in labels
    ]


def _common(labels: Sequence[str]) -> int:
    """How many letters all begin with."""
    first, last = min(labels), max(labels)
    return next((at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))


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
        if len(shorter) > len(lines) or max(map(len, shorter)) > letters:
            break
        lines = shorter
    return [cut_middle(line.replace(NO_BREAK, " "), width) for line in lines]


class RowLabels:
    """`via sst, 2 ranks`; where one key varies its value alone, and its name once, as the title of the axis."""

    def __init__(self, points: Sequence[Parameters]) -> None:
        keys = varied(points)
        differing = [key for key in keys if len({value_text(each.get(key)) for each in points}) > 1]
        self._names = short_names(keys)
        self._keys = differing or keys

    @property
    def title(self) -> str:
        """The key, where there is one only."""
        return self._names[self._keys[0]] if len(self._keys) == 1 else ""

    def text(self, parameters: Parameters) -> str:
        """The label of a trial."""
        shown = {key: parameters[key] for key in self._keys if key in parameters}
        if self.title and shown:
            return value_in_words(self.title, next(iter(shown.values())))
        return ", ".join(in_words(self._names[key], value) for key, value in shown.items())

    def whole(self, parameters: Parameters) -> str:
        """With all its keys, for the data beside the picture."""
        return trial_text(parameters, self._names)
