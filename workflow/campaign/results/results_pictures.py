"""The pictures of a campaign's report, each as SVG with its data: the only module that uses matplotlib.

The colours are those of Okabe and Ito, which all kinds of colour vision tell apart. Equal data give equal bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workflow.campaign.file.trials import short_names, trial_text, value_text
from workflow.campaign.results.campaign_tables import metric_text, varied
from workflow.campaign.results.results_model import CampaignResults, ComparisonResult, MetricFacts, TrialResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8f9aa8", "#000000")
MARKERS = "osD^vPX*"
WIDTH = 8.0
"""Inches."""
ROW = 0.34
MOST_ROWS = 60
DataRow = Sequence[str | int | float | None]


@dataclass(frozen=True)
class ResultsPicture:
    """A picture and the numbers that it shows."""

    name: str
    title: str
    svg: bytes
    columns: Sequence[str]
    rows: Sequence[DataRow]


def make_pictures(results: CampaignResults) -> list[ResultsPicture]:
    """All that the results allow: values of each metric, medians by a number, heat maps, ratios."""
    pictures = []
    for metric in results.metrics:
        rows = [each for each in results.results if each.metric == metric.name and each.values]
        if not rows:
            continue
        pictures.append(_values(metric, rows))
        pictures += [_by_number(metric, rows, key) for key in number_keys(rows)]
        pictures += _heat_map(metric, rows)
    compared = [each for each in results.comparisons if each.ratio is not None]
    return [*pictures, *([_ratios(results, compared)] if compared else [])]


def number_keys(rows: Sequence[TrialResult]) -> list[str]:
    """The keys that vary and are numbers in all trials: medians are drawn over them."""
    keys = varied(each.parameters for each in rows)
    return [
        key for key in keys if len(_numbers(rows, key)) > 1 and all(_is_number(e.parameters.get(key)) for e in rows)
    ]


def _numbers(rows: Sequence[TrialResult], key: str) -> list[float]:
    return sorted({float(str(each.parameters[key])) for each in rows if _is_number(each.parameters.get(key))})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _values(metric: MetricFacts, rows: Sequence[TrialResult]) -> ResultsPicture:
    """Every value of every trial, its median and the interval; outliers are hollow."""
    shown = rows[:MOST_ROWS]
    names = short_names(varied(each.parameters for each in rows))
    canvas, axes = _figure(0.9 + ROW * len(shown))
    for height, each in enumerate(shown):
        if each.low is not None and each.high is not None:
            axes.plot([each.low, each.high], [height, height], color=COLOURS[0], linewidth=7, alpha=0.3)
        for value, is_outlier in zip(each.values, each.outliers, strict=True):
            axes.plot(value, height, "o", markersize=4, color=COLOURS[0], fillstyle="none" if is_outlier else "full")
        axes.plot(each.median or 0.0, height, "|", markersize=15, markeredgewidth=2.5, color=COLOURS[5])
    axes.set_yticks(range(len(shown)), [trial_text(each.parameters, names) for each in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(left=0)
    _label(axes.xaxis, metric)
    title = f"{metric.name}: every repetition, the median and its 95 % interval"
    data = [
        [trial_text(each.parameters, names), number, value, is_outlier, each.median, each.low, each.high]
        for each in shown
        for number, (value, is_outlier) in enumerate(zip(each.values, each.outliers, strict=True), 1)
    ]
    columns = ["trial", "number", "value", "outlier", "median", "low", "high"]
    return ResultsPicture(f"{metric.name}-values", title, _to_svg(canvas), columns, data)


def _by_number(metric: MetricFacts, rows: Sequence[TrialResult], key: str) -> ResultsPicture:
    """Medians over a key that is a number, a line for each combination of the others; ideal scaling over ranks."""
    keys = varied(each.parameters for each in rows)
    names = short_names(keys)
    lines: dict[str, list[TrialResult]] = {}
    for each in rows:
        others = {name: value for name, value in each.parameters.items() if name != key}
        lines.setdefault(trial_text(others, names) if others else metric.name, []).append(each)
    canvas, axes = _figure(4.2)
    data: list[DataRow] = []
    for index, (label, line) in enumerate(lines.items()):
        line.sort(key=lambda each: float(str(each.parameters[key])))
        colour, xs = COLOURS[index % len(COLOURS)], [float(str(each.parameters[key])) for each in line]
        ys = [each.median or 0.0 for each in line]
        below = [y - (each.low if each.low is not None else y) for y, each in zip(ys, line, strict=True)]
        above = [(each.high if each.high is not None else y) - y for y, each in zip(ys, line, strict=True)]
        marker = MARKERS[index % len(MARKERS)]
        axes.errorbar(xs, ys, yerr=[below, above], color=colour, marker=marker, capsize=3, label=label)
        if key.endswith(".ranks"):
            ideal = [ys[0] * (xs[0] / x if metric.unit == "s" else x / xs[0]) for x in xs]
            axes.plot(xs, ideal, ":", color=colour, label="ideal" if index == 0 else None)
        data += [[label, x, each.median, each.low, each.high] for x, each in zip(xs, line, strict=True)]
    numbers = _numbers(rows, key)
    if numbers[0] > 0 and numbers[-1] / numbers[0] >= 8:
        axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [f"{number:g}" for number in numbers])
    axes.set_ylim(bottom=0)
    axes.set_xlabel(key)
    _label(axes.yaxis, metric)
    if len(lines) > 1 or key.endswith(".ranks"):
        axes.legend(frameon=False)
    title = f"{metric.name} by {names[key]}: medians and their 95 % intervals"
    columns = ["line", names[key], "median", "low", "high"]
    return ResultsPicture(f"{metric.name}-by-{names[key].replace('.', '-')}", title, _to_svg(canvas), columns, data)


def _heat_map(metric: MetricFacts, rows: Sequence[TrialResult]) -> Iterator[ResultsPicture]:
    """Medians over two keys, where exactly two vary and both have several values."""
    keys = varied(each.parameters for each in rows)
    if len(keys) != 2 or any(set(each.parameters) != set(keys) for each in rows):
        return
    words = [list(dict.fromkeys(value_text(each.parameters[key]) for each in rows)) for key in keys]
    if min(len(each) for each in words) < 2:
        return
    medians = {(value_text(e.parameters[keys[0]]), value_text(e.parameters[keys[1]])): e.median for e in rows}
    nothing = float("nan")
    grid = [[medians.get((down, across)) or nothing for across in words[1]] for down in words[0]]
    names = short_names(keys)
    canvas, axes = _figure(1.2 + 0.5 * len(words[0]))
    axes.imshow(grid, cmap="cividis", aspect="auto")
    known = [value for value in medians.values() if value is not None]
    middle = (min(known) + max(known)) / 2
    for y, line in enumerate(grid):
        for x, value in enumerate(line):
            text = metric_text(None if value != value else value, metric.unit)
            axes.text(x, y, text, ha="center", va="center", color="white" if value < middle else "black")
    axes.set_xticks(range(len(words[1])), words[1])
    axes.set_yticks(range(len(words[0])), words[0])
    axes.set_xlabel(keys[1])
    axes.set_ylabel(keys[0])
    title = f"{metric.name}: medians by {names[keys[0]]} and {names[keys[1]]}"
    data = [[*point, value] for point, value in medians.items()]
    columns = [names[keys[0]], names[keys[1]], "median"]
    yield ResultsPicture(f"{metric.name}-map", title, _to_svg(canvas), columns, data)


def _ratios(results: CampaignResults, compared: Sequence[ComparisonResult]) -> ResultsPicture:
    """The ratio of each comparison with its interval; the band is what counts as the same."""
    shown = compared[:MOST_ROWS]
    thresholds = {metric.name: metric.threshold for metric in results.metrics}
    names = short_names(varied(each.at for each in shown))
    decided = {"faster": COLOURS[2], "slower": COLOURS[5], "same": COLOURS[0], "undecided": COLOURS[6]}
    labels = [
        " ".join([each.metric, f"{value_text(each.value)} with {value_text(each.against)}", *_at(each, names)])
        for each in shown
    ]
    canvas, axes = _figure(0.9 + ROW * len(shown))
    for height, each in enumerate(shown):
        threshold, colour = thresholds[each.metric], decided[each.decision]
        axes.fill_betweenx([height - 0.45, height + 0.45], 1 / (1 + threshold), 1 + threshold, color="#e8ebef")
        if each.low is not None and each.high is not None:
            axes.plot([each.low, each.high], [height, height], color=colour, linewidth=2.5)
        axes.plot(each.ratio or 1.0, height, "o", color=colour)
    axes.axvline(1, color=COLOURS[7], linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_yticks(range(len(shown)), labels)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel("ratio of the medians")
    title = "comparisons: ratio of the medians with its 95 % interval; the band counts as the same"
    data = [[label, e.ratio, e.low, e.high, e.corrected_p, e.decision] for label, e in zip(labels, shown, strict=True)]
    columns = ["comparison", "ratio", "low", "high", "corrected_p", "verdict"]
    return ResultsPicture("comparisons", title, _to_svg(canvas), columns, data)


def _at(each: ComparisonResult, names: dict[str, str]) -> list[str]:
    return [f"({trial_text(each.at, names)})"] if each.at else []


def _figure(height: float) -> tuple[Canvas, Axes]:
    from matplotlib.figure import Figure as NewCanvas

    canvas = NewCanvas(figsize=(WIDTH, height), layout="constrained")
    axes = canvas.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return canvas, axes


def _label(axis: Any, metric: MetricFacts) -> None:
    write: Callable[[float, object], str] = lambda value, _: metric_text(value, metric.unit)  # noqa: E731
    axis.set_major_formatter(write)
    axis.set_label_text(f"{metric.name} ({metric.of})")


def _to_svg(canvas: Canvas) -> bytes:
    """With texts as texts, and without a date or random names."""
    import matplotlib

    stream = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "wf"}):
        canvas.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()
