"""The pictures of a campaign with their data: every value of a metric, comparisons, what stages did with their time.

A picture is at most about as high as it is wide, so that it stands on one page with its axes and its legend; what does
not fit goes into further pictures of the same scale.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args

from workflow.campaign.file.campaign_spec import Scaling
from workflow.campaign.file.trials import Parameters, short_names, trial_text, value_text
from workflow.campaign.results.campaign_tables import compared_text, metric_text, ratio_text, varied, verdict_word
from workflow.campaign.results.dimensions import (
    Dimension,
    find_dimensions,
    find_scaling,
    ideal_factor,
    is_ranks,
    meaningful,
    names_in_files,
    number_key,
    words_of,
)
from workflow.campaign.results.picture_canvas import (
    BLACK,
    COLOURS,
    LOGARITHM,
    MARKERS,
    PALE,
    SMALL,
    USUAL,
    DataRow,
    ResultsPicture,
    fitting,
    label_axis,
    name_axis,
    new_canvas,
    new_panels,
    set_finding,
    set_legend,
    set_scale,
    set_ticks,
    wrapped,
)
from workflow.campaign.results.results_model import (
    CampaignResults,
    ComparisonResult,
    MetricFacts,
    Operation,
    OperationTimes,
    TrialResult,
    certain,
    labelled_keys,
    with_labels,
)
from workflow.campaign.verdicts import Decision
from workflow.formatting import in_one_line, plural
from workflow.report.html.svg_charts import LABELS

if TYPE_CHECKING:
    from workflow.campaign.results.picture_canvas import Axes, Canvas

    Drawn = tuple[Canvas, Sequence[TrialResult]]
    """A picture, and what is drawn in it."""

T = TypeVar("T")
MOST_PICTURES = 4
"""Of one metric or stage: the table has all."""
TALLEST = 4.8
"""Inches of the rows of one picture."""
MOST_PANELS = 6
DOT: Any = {"markersize": 3.2, "alpha": 0.45, "markeredgewidth": 0.8}
MEDIAN: Any = {"markersize": 7, "markeredgecolor": "white", "markeredgewidth": 0.7}
GAP, LINE = 0.13, 0.15
"""Inches between rows, and of each mark of another colour in a row or line of its label."""
LABEL = 32
"""Letters in a line of the label of a row."""
PANEL = {1: 2.9, 2: 2.2}
"""Number of columns → inches of a panel of lines."""
POWERS_OF_2 = 4.0
"""From this ratio of the largest to the smallest number their axis is logarithmic."""
BESIDE = 0.012
"""Share of the axis between marks of different colours at the same number."""
# The hues of the report of a run; a hatch for who does not see them.
OPERATIONS: dict[Operation, tuple[str, str]] = {
    "compute": (COLOURS[0], ""), "device": (COLOURS[2], "xxx"), "io": (COLOURS[1], "///"), "wait": (COLOURS[3], "..."),
}  # fmt: skip
NAMES: dict[Operation, str] = {name: LABELS[name] for name in get_args(Operation)}
VERDICTS: dict[Decision, tuple[str, str]] = {
    "faster": (COLOURS[2], ">"), "slower": (COLOURS[5], "<"), "same": (COLOURS[0], "s"), "undecided": (COLOURS[6], "o"),
}  # fmt: skip
MEANINGS: dict[Decision, str] = {"faster": "better", "slower": "worse", "same": "the same", "undecided": "undecided"}
# Of ratios that are all near 1 this much is shown, so that noise does not look like an effect.
NARROWEST = 1.1
RATIOS = (1, 1.05, 1.1, 1.25, 1.5, 2, 3, 4, 5, 8, 10, 20, 50, 100, 1e3, 1e4, 1e6)


def make_pictures(results: CampaignResults) -> list[ResultsPicture]:
    """All that the results allow, in the order of the page."""
    written = {label: key for key, label in labelled_keys(results).items()}
    results = with_labels(_without_meaningless(results))
    pictures: list[ResultsPicture] = []
    for metric in results.metrics:
        rows = [each for each in results.results if each.metric == metric.name and each.values]
        compared = [each for each in results.comparisons if each.metric == metric.name]
        if rows:
            keys = Counter(each.vary for each in results.comparisons)
            layout = make_layout([each.parameters for each in rows], [key for key, _ in keys.most_common()])
            drawing = MetricDrawing(metric, rows, layout, results.scaling)
            pictures += _parts(drawing.pictures(finding(metric, rows, compared), written))
        ratios = [each for each in compared if each.ratio is not None]
        pictures += _parts(comparison_pictures(metric, ratios))
    for stage in dict.fromkeys(each.stage for each in results.operations):
        times = [each for each in results.operations if each.stage == stage]
        pictures += _parts(operation_pictures(stage, times))
    return pictures


def _parts(pictures: Sequence[ResultsPicture]) -> list[ResultsPicture]:
    """The pictures of one subject, numbered where there are several."""
    shown = list(pictures[:MOST_PICTURES])
    if len(pictures) > 1:
        missing = "; table.csv has the rest" if len(pictures) > len(shown) else ""
        shown = [
            replace(each, name=each.name + (f"-{number}" if number > 1 else ""),
                    title=f"{each.title} ({number} of {len(pictures)}{missing})")
            for number, each in enumerate(shown, 1)
        ]  # fmt: skip
    return shown


def _without_meaningless(results: CampaignResults) -> CampaignResults:
    """The results of trials that are named by the values that mean something for them."""
    given = {each.trial: each.parameters for each in results.results}
    given.update((each.trial, each.parameters) for each in results.operations)
    kept = dict(zip(given, meaningful(list(given.values())), strict=True))
    return results.model_copy(
        update={
            "results": [each.model_copy(update={"parameters": kept[each.trial]}) for each in results.results],
            "operations": [each.model_copy(update={"parameters": kept[each.trial]}) for each in results.operations],
        }
    )


@dataclass(frozen=True)
class PanelLayout:
    """What the dimensions in which trials differ are in a picture."""

    points: Sequence[Parameters]
    dimensions: Sequence[Dimension]
    across: Dimension | None
    """Along the horizontal axis where it has numbers, else one below the other."""
    colours: Dimension | None
    panels: tuple[Dimension, ...]
    """Each combination of their values has a panel."""

    @property
    def number(self) -> str | None:
        """The key on the horizontal axis; None where there are rows instead."""
        return number_key(self.across, self.points) if self.across is not None else None

    def words(self, parameters: Parameters, dimensions: Sequence[Dimension | None]) -> str:
        """What a trial has in these dimensions."""
        return words_of(parameters, [each for each in self.dimensions if each in dimensions], self.points)


def make_layout(points: Sequence[Parameters], compared: Sequence[str]) -> PanelLayout:
    """Numbers go along the axis, ranks before all others; what is compared most has the colours.

    `compared`: the keys of comparisons, that of most first.
    """
    dimensions = find_dimensions(points)
    numbers = [(each, key) for each in dimensions if (key := number_key(each, points)) is not None]
    numbers.sort(key=lambda pair: (not is_ranks(pair[1]), -len(pair[0].values)))
    most = sorted(dimensions, key=lambda each: -len(each.values))
    across = next((each for each, _ in numbers), most[0] if most else None)
    first = [each for key in compared for each in dimensions if key in each.keys]
    told = [each for each in [*first, *dimensions] if each != across and len(each.values) <= len(COLOURS)]
    colours = told[0] if told else None
    panels = tuple(each for each in dimensions if each not in (across, colours))
    return PanelLayout(points, dimensions, across, colours, panels)


@dataclass(frozen=True)
class MetricDrawing:
    """One metric of all trials: every value, the medians and their intervals."""

    metric: MetricFacts
    rows: Sequence[TrialResult]
    layout: PanelLayout
    stated: Scaling | None

    def pictures(self, found: Sequence[str], written: Mapping[str, str]) -> list[ResultsPicture]:
        """`found`: what stands above them. `written`: as in `names_in_files`."""
        title = f"{self.metric.title} ({self.metric.of}): every repetition, the median"
        title += " and its 95 % interval" if any(each.low is not None for each in self.rows) else ""
        title += "; hollow: outliers" if any(any(each.outliers) for each in self.rows) else ""
        title += f"; dotted: ideal {self._scaling} scaling from the first point of each line" if self._has_ideal else ""
        key = self.layout.number
        names = names_in_files(self.layout.points, written)
        columns = [*names.values(), "number", "value", "outlier", "median", "low", "high", *(["ideal"] if key else [])]
        pictures = []
        for canvas, rows in self._over_numbers(key) if key else self._in_rows():
            set_legend(canvas, self._explained(canvas.axes[0]))
            set_finding(canvas, found)
            data = [row for each in rows for row in self._data(each, names)]
            name = f"{self.metric.name}-values"
            pictures.append(ResultsPicture(name, title, canvas, columns, data, self.metric.name))
        return pictures

    def _in_rows(self) -> Iterator[Drawn]:
        """Trials that differ in their colours only share a row."""
        shown = [*self.layout.panels, self.layout.across]
        rows: dict[str, list[TrialResult]] = {}
        for each in self.rows:
            rows.setdefault(self.layout.words(each.parameters, shown), []).append(each)
        for canvas, axes, part in row_canvases(list(rows.items()), LINE * self._count):
            set_scale(axes, "x", self._values)
            for place, trials in enumerate(part):
                for each in trials:
                    self._draw_values(axes, each, place + self._beside(each) * LINE / (GAP + LINE * self._count))
            axes.grid(axis="x", color=PALE)
            name_axis(axes.xaxis, self.metric, self._values)
            yield canvas, [each for trials in part for each in trials]

    def _draw_values(self, axes: Axes, each: TrialResult, place: float) -> None:
        colour, marker = self._style(each)
        for values, fill in dots_of(each):
            axes.plot(values, [place] * len(values), "o", color=colour, **DOT, fillstyle=fill)
        if each.low is not None and each.high is not None:
            axes.plot([each.low, each.high], [place, place], color=colour, linewidth=2)
        axes.plot(each.median or 0.0, place, marker, color=colour, **MEDIAN)

    def _over_numbers(self, key: str) -> Iterator[Drawn]:
        """Lines over a number; a panel for each combination of what has neither the axis nor the colours."""
        panels: dict[str, list[TrialResult]] = {}
        for each in self.rows:
            panels.setdefault(self.layout.words(each.parameters, self.layout.panels), []).append(each)
        for part in cut_rows(list(panels.items()), MOST_PANELS):
            columns = min(2, len(part))
            canvas, all_axes = new_panels(PANEL[columns] * -(-len(part) // columns), len(part), columns)
            for axes, (label, trials) in zip(all_axes, part, strict=True):
                axes.set_title("\n".join(wrapped(label, 60 // columns, 2)), fontsize=USUAL, loc="left")
                axes.grid(color=PALE)
                self._set_number_axis(axes, key, columns)
                self._draw_lines(axes, key, trials)
            name_axis(all_axes[0].yaxis, self.metric, self._values)
            canvas.supylabel(all_axes[0].get_ylabel(), fontsize=USUAL)
            all_axes[0].set_ylabel("")
            yield canvas, [each for _, trials in part for each in trials]

    def _set_number_axis(self, axes: Axes, key: str, columns: int) -> None:
        others = [name for name in self._across.keys if name != key]
        marks = {
            self._number(each, key): words_of(each.parameters, [Dimension(tuple(others), ())], self.layout.points)
            for each in self.rows
        }
        numbers = sorted(marks)
        low, high = numbers[0], numbers[-1]
        if is_log := low > 0 and high >= POWERS_OF_2 * low:
            axes.set_xscale("log", base=2)
            room = (high / low) ** 0.08
            axes.set_xlim(low / room, high * room)
        else:
            room = 0.08 * (high - low) or 1.0
            axes.set_xlim(low - room, high + room)
        words = fitting([marks[number] for number in numbers], 60 // columns // min(5, len(numbers)), 2)
        labels = [f"{number:g}\n{text}".rstrip() for number, text in zip(numbers, words, strict=True)]
        set_ticks(axes, numbers, labels, 50 / columns)
        names = short_names(varied(self.layout.points))
        axes.set_xlabel(
            ", ".join(names[each] for each in [key, *others]) + (LOGARITHM if is_log else ""), fontsize=USUAL
        )
        # The ideal is a straight line where both axes are logarithmic.
        set_scale(axes, "y", self._values, log=is_log and self._has_ideal and self._ideal(key, 2.0) != 1.0)

    def _draw_lines(self, axes: Axes, key: str, trials: Sequence[TrialResult]) -> None:
        lines: dict[str, list[TrialResult]] = {}
        for each in sorted(trials, key=lambda each: self._number(each, key)):
            lines.setdefault(self._colour_value(each), []).append(each)
        for line in lines.values():
            colour, marker = self._style(line[0])
            xs = [self._shifted(axes, each, key) for each in line]
            for x, each in zip(xs, line, strict=True):
                for values, fill in dots_of(each):
                    axes.plot([x] * len(values), values, "o", color=colour, **DOT, fillstyle=fill)
                if each.low is not None and each.high is not None:
                    axes.plot([x, x], [each.low, each.high], color=colour, linewidth=2)
            axes.plot(xs, [each.median or 0.0 for each in line], color=colour, marker=marker, linewidth=1.2, **MEDIAN)
            ideal = [self._ideal_of(each, key) for each in line]
            if len(line) > 1 and None not in ideal:
                axes.plot(xs, ideal, ":", color=colour, linewidth=1.3)  # type: ignore[arg-type]

    def _shifted(self, axes: Axes, each: TrialResult, key: str) -> float:
        """Its number, a little to the side: marks of several colours do not lie on one another."""
        number, (low, high) = self._number(each, key), axes.get_xlim()
        shift = BESIDE * self._beside(each)
        return number * (high / low) ** shift if axes.get_xscale() == "log" else number + shift * (high - low)

    def _explained(self, axes: Axes) -> Axes:
        """With the samples of the legend."""
        shown: dict[str, TrialResult] = {}
        for each in self.rows:
            shown.setdefault(self.layout.words(each.parameters, [self.layout.colours]), each)
        for label, each in shown.items() if self._count > 1 else ():
            colour, marker = self._style(each)
            axes.plot([], [], marker=marker, color=colour, linestyle="-" if self.layout.number else "", label=label)
        if self._has_ideal:
            axes.plot([], [], ":", color=BLACK, label=f"ideal {self._scaling} scaling")
        return axes

    def _data(self, each: TrialResult, names: Mapping[str, str]) -> Iterator[DataRow]:
        key = self.layout.number
        given = [value_text(each.parameters[name]) if name in each.parameters else None for name in names]
        ideal = [self._ideal_of(each, key)] if key else []
        for number, (value, is_outlier) in enumerate(zip(each.values, each.outliers, strict=True), 1):
            yield [*given, number, value, is_outlier, each.median, each.low, each.high, *ideal]

    @property
    def _across(self) -> Dimension:
        assert self.layout.across is not None
        return self.layout.across

    @property
    def _values(self) -> list[float]:
        """All that is drawn: pictures of one metric have one scale."""
        ends = (each for row in self.rows for each in (*row.values, row.median, row.low, row.high))
        return [each for each in ends if each is not None]

    @property
    def _count(self) -> int:
        """Of colours."""
        return 1 if self.layout.colours is None else len(self.layout.colours.values)

    def _colour_value(self, each: TrialResult) -> str:
        return "" if self.layout.colours is None else self.layout.colours.value(each.parameters)

    def _place(self, each: TrialResult) -> int:
        return 0 if self.layout.colours is None else self.layout.colours.values.index(self._colour_value(each))

    def _style(self, each: TrialResult) -> tuple[str, str]:
        return COLOURS[self._place(each)], MARKERS[self._place(each)]

    def _beside(self, each: TrialResult) -> float:
        """How far from the middle the marks of its colour are, in marks."""
        return self._place(each) - (self._count - 1) / 2

    def _number(self, each: TrialResult, key: str) -> float:
        return self._across.number(each.parameters, key)

    @property
    def _scaling(self) -> Scaling:
        return find_scaling(self._across, self.layout.points, self.stated)

    @property
    def _has_ideal(self) -> bool:
        return (key := self.layout.number) is not None and self._ideal(key, 2.0) is not None

    def _ideal(self, key: str, factor: float) -> float | None:
        return ideal_factor(self.metric.of, key, self._scaling, factor) if is_ranks(key) else None

    def _ideal_of(self, each: TrialResult, key: str) -> float | None:
        """From the first point of its line."""
        same = [
            other for other in self.rows
            if self.layout.words(other.parameters, [self.layout.colours, *self.layout.panels])
            == self.layout.words(each.parameters, [self.layout.colours, *self.layout.panels])
        ]  # fmt: skip
        first = min(same, key=lambda other: self._number(other, key))
        factor = self._ideal(key, self._number(each, key) / self._number(first, key))
        return None if factor is None or first.median is None else first.median * factor


def dots_of(each: TrialResult) -> list[tuple[list[float], Literal["full", "none"]]]:
    """The values of a trial and how their dots are filled: those far from the others are hollow."""
    pairs = list(zip(each.values, each.outliers, strict=True))
    return [
        ([value for value, is_outlier in pairs if not is_outlier], "full"),
        ([value for value, is_outlier in pairs if is_outlier], "none"),
    ]


def cut_rows(rows: Sequence[T], most: int) -> list[Sequence[T]]:
    """In parts that are about equal, of at most so many."""
    parts = -(-len(rows) // most)
    size = -(-len(rows) // max(1, parts)) or 1
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


def row_canvases(rows: Sequence[tuple[str, T]], height: float) -> Iterator[tuple[Canvas, Axes, Sequence[T]]]:
    """Pictures with these labelled rows, the first at the top, each with so many inches for what is drawn."""
    shown = fitting([label for label, _ in rows], LABEL, 3)
    each = GAP + max([height, *(LINE * (label.count("\n") + 1) for label in shown)])
    for part in cut_rows(list(zip(shown, rows, strict=True)), max(1, int(TALLEST / each))):
        canvas, axes = new_canvas(0.55 + each * len(part))
        axes.set_yticks(range(len(part)), [label for label, _ in part], fontsize=SMALL)
        axes.set_ylim(len(part) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        yield canvas, axes, [row for _, (_, row) in part]


def finding(metric: MetricFacts, rows: Sequence[TrialResult], compared: Sequence[ComparisonResult]) -> list[str]:
    """The largest certain differences to the better and to the worse, with where they are.

    Without comparisons the best median.
    """
    if not compared:
        best = sorted((each for each in rows if each.median is not None), key=lambda each: each.median or 0.0)
        if len(best) < 2:
            return []
        first = best[-1 if metric.better == "more" else 0]
        value, points = in_one_line(metric_text(first.median, metric.unit)), [each.parameters for each in rows]
        return [f"{metric.title}: best median {value}, {words_of(first.parameters, find_dimensions(points), points)}"]
    decided = certain(compared)
    if not decided:
        return [f"{metric.title}: no certain difference"]
    most = {each.decision: each for each in reversed(decided)}
    told = [_difference(each, metric, compared) for each in decided if most[each.decision] is each]
    return [f"{metric.title}: {told[0]}", *(f"but also {each}" for each in told[1:])]


def _difference(each: ComparisonResult, metric: MetricFacts, compared: Sequence[ComparisonResult]) -> str:
    """`pipe is 1.14 × better than off (1 rank)`: in brackets what tells this comparison from the others."""
    factor = math.exp(abs(math.log(each.ratio or 1.0)))
    return comparison_label(each, compared, f"is {factor:.3g} × {verdict_word(each.decision, metric)} than")


def comparison_label(each: ComparisonResult, compared: Sequence[ComparisonResult], word: str) -> str:
    """`pipe with off (1 rank)`: in brackets what tells this comparison from the others."""
    points = [other.at for other in compared]
    at = words_of(each.at, find_dimensions(points), [*points, {each.vary: each.value}])
    return compared_text(each, word) + (f" ({at})" if at else "")


def count_text(decisions: Sequence[Decision], metric: MetricFacts) -> str:
    """`6 comparisons: 1 faster, 1 slower, 4 undecided`."""
    count = Counter(decisions)
    words = ((each, MEANINGS[each] if each == "same" else verdict_word(each, metric)) for each in MEANINGS)
    counts = ", ".join(f"{count[decision]} {word}" for decision, word in words if count[decision])
    return f"{plural(len(decisions), 'comparison')}: {counts}"


class Gain(NamedTuple):
    """By what factor one is better than the other, and the bounds of the interval."""

    gain: float
    gain_low: float | None
    gain_high: float | None


def gain_of(each: ComparisonResult, metric: MetricFacts) -> Gain:
    """The ratio, and of a metric of which less is better its inverse: above 1 is better, whatever is measured."""
    ratio = each.ratio or 1.0
    if metric.better == "more":
        return Gain(ratio, each.low, each.high)
    low, high = (None if end is None else 1 / end for end in (each.high, each.low))
    return Gain(1 / ratio, low, high)


def comparison_pictures(metric: MetricFacts, compared: Sequence[ComparisonResult]) -> list[ResultsPicture]:
    """The gain of each comparison with its interval, better to the right; the band is what counts as the same."""
    title = (
        f"{metric.title}: comparisons, better to the right: {ratio_text(compared)} (its inverse where less is better) "
        "with its 95 % interval; the band counts as the same"
    )
    told = [(comparison_label(each, compared, "with"), each, gain_of(each, metric)) for each in compared]
    ends = [NARROWEST, *(max(end, 1 / end) for *_, gain in told for end in gain if end is not None)]
    columns = ["comparison", "ratio", "low", "high", "corrected_p", "verdict", "threshold", *Gain._fields]
    pictures = []
    for canvas, axes, part in row_canvases([(each[0], each) for each in told], LINE):
        axes.axvspan(1 / (1 + metric.threshold), 1 + metric.threshold, color=PALE, linewidth=0)
        axes.axvline(1, color=BLACK, linewidth=0.8)
        for place, (_, each, gain) in enumerate(part):
            colour, marker = VERDICTS[each.decision]
            if gain.gain_low is not None and gain.gain_high is not None:
                axes.plot([gain.gain_low, gain.gain_high], [place, place], color=colour, linewidth=2.5)
            axes.plot(gain.gain, place, marker, color=colour)
        set_ratio_axis(axes, max(ends))
        for decision, (colour, marker) in VERDICTS.items():
            if any(each.decision == decision for _, each, _ in part):
                axes.plot([], [], marker, color=colour, label=MEANINGS[decision])
        set_legend(canvas, axes)
        set_finding(canvas, [f"{metric.title}: {count_text([each.decision for each in compared], metric)}"])
        data = [
            [label, e.ratio, e.low, e.high, e.corrected_p, e.decision, metric.threshold, *gain]
            for label, e, gain in part
        ]
        pictures.append(ResultsPicture(f"{metric.name}-comparisons", title, canvas, columns, data, metric.name))
    return pictures


def set_ratio_axis(axes: Axes, largest: float) -> None:
    """A logarithmic axis on which twice and half are equally far from 1, with round marks on both sides."""
    axes.set_xscale("log")
    end = largest**1.05
    axes.set_xlim(1 / end, end)
    marks = [1.0]
    for ratio in RATIOS:
        if ratio <= end and math.log(ratio / marks[-1]) > 0.2 * math.log(end):
            marks.append(ratio)
    places = [*(1 / mark for mark in reversed(marks[1:])), *marks]
    set_ticks(axes, places, [f"{place:.2g}" if place < 1 else f"{place:g}" for place in places], 44)
    axes.set_xlabel(f"← worse · by this factor{LOGARITHM} · better →", fontsize=USUAL)


def operation_pictures(stage: str, times: Sequence[OperationTimes]) -> list[ResultsPicture]:
    """A bar for each trial: what a stage did, in seconds of its wall time, medians end to end."""
    points = [each.parameters for each in times]
    dimensions, names = find_dimensions(points), short_names(varied(points))
    trials: dict[str, list[OperationTimes]] = {}
    for each in times:
        trials.setdefault(each.trial, []).append(each)
    longest = max(sum(median(each.values) for each in group) for group in trials.values())
    drawn = {each.operation for each in times}
    *first, last = (NAMES[operation] for operation in OPERATIONS if operation != "device" or operation in drawn)
    title = f"{stage}: time for {', '.join(first)} and {last}; medians over the repetitions"
    pictures = []
    rows = [(words_of(group[0].parameters, dimensions, points), group) for group in trials.values()]
    for canvas, axes, part in row_canvases(rows, LINE):
        data: list[DataRow] = []
        for row, group in enumerate(part):
            begin = 0.0
            for each in group:
                colour, hatch = OPERATIONS[each.operation]
                middle = median(each.values)
                axes.barh(row, middle, 0.6, begin, color=colour, hatch=hatch, edgecolor="white", linewidth=0)
                begin += middle
                label = trial_text(each.parameters, names)
                data += [[label, each.operation, number, value, middle] for number, value in enumerate(each.values, 1)]
        set_scale(axes, "x", [0.0, longest])
        label_axis(axes.xaxis, f"time of {stage}", "s", longest)
        for operation, (colour, hatch) in OPERATIONS.items():
            if operation in drawn:
                axes.bar(0, 0, color=colour, hatch=hatch, edgecolor="white", linewidth=0, label=NAMES[operation])
        set_legend(canvas, axes)
        set_finding(canvas, [where_time_goes(stage, list(trials.values()))])
        columns = ["trial", "operation", "number", "value", "median"]
        pictures.append(ResultsPicture(f"operations-{stage}", title, canvas, columns, data))
    return pictures


def where_time_goes(stage: str, trials: Sequence[Sequence[OperationTimes]]) -> str:
    """By the medians: `md, what takes longest: computing in 6, waiting in 1 of 7 trials`."""
    longest = Counter(max(trial, key=lambda each: median(each.values)).operation for trial in trials)
    told = ", ".join(f"{NAMES[operation]} in {count}" for operation, count in longest.most_common())
    return f"{stage}, what takes longest: {told} of {plural(len(trials), 'trial')}"
