"""Medians over a number that varies, with the ideal line where it is a number of ranks.

The dimensions in which trials differ become axes, lines and colours.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from workflow.campaign.file.campaign_spec import Scaling
from workflow.campaign.file.trials import Parameters, in_words, short_names, value_in_words, value_text
from workflow.campaign.results.campaign_tables import varied
from workflow.campaign.results.picture_canvas import (
    BLACK,
    COLOURS,
    LOGARITHM,
    WIDEST,
    DataRow,
    ResultsPicture,
    begin_at_zero,
    has_intervals,
    is_wide,
    label_values,
    new_canvas,
    set_finding,
    set_legend,
    set_logarithmic,
    short_labels,
    to_pdf,
    to_svg,
)
from workflow.campaign.results.results_model import MetricFacts, TrialResult
from workflow.engines import ENGINES, traits_of
from workflow.formatting import three_figures

if TYPE_CHECKING:
    from workflow.campaign.results.picture_canvas import Axes


Dashes = str | tuple[int, tuple[int, ...]]
"""As matplotlib takes them; dotted is the ideal."""
MARKERS = "osD^vPX*"
DASHES: tuple[Dashes, ...] = ("-", "--", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (9, 3)))
HEIGHT = 3.8
LOGARITHMIC = 4.0
"""From this ratio of the largest to the smallest number on the axis is logarithmic."""
_TIMES = ("wall_s", "compute_s", "io_s", "step_s", "load_s")
_RATES = ("throughput", "transfer_rate", "load_rate", "perceived_throughput")


class LineStyle(NamedTuple):
    """How the points of some trials are drawn."""

    colour: str
    marker: str
    dashes: Dashes
    fill: Literal["full", "none"]
    """Of the marker: it says the same as the dashes, also where there is one point only."""


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
        """Colour and marker by the first dimension beside `across`, dashes and fill by those that follow."""
        others = [each for each in self.dimensions if each != across]
        first = next((each for each in others if each == self._first), others[0] if others else None)
        if first is None:
            return LineStyle(COLOURS[0], MARKERS[0], DASHES[0], "full")
        index, rest = first.values.index(first.value(parameters)), 0
        for each in others:
            if each != first:
                rest = rest * len(each.values) + each.values.index(each.value(parameters))
        fill: Literal["full", "none"] = "none" if rest % 2 else "full"
        return LineStyle(COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)], DASHES[rest % len(DASHES)], fill)


def scaling_picture(
    metric: MetricFacts,
    rows: Sequence[TrialResult],
    across: Dimension,
    colours: ValueColours,
    stated: Scaling | None,
    written: Mapping[str, str],
) -> ResultsPicture | None:
    """Medians over a dimension with numbers, a line for each combination of the others; None without numbers.

    `written`: as in `names_in_files`.
    """
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
            fillstyle=style.fill, label=label or None,
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
    set_finding(axes, growth(metric, lines, across, key, scaling))
    if any(lines) or has_ideal:
        set_legend(canvas, axes)
    name = short_names([key_ for each in points for key_ in each])[key]
    title = (
        f"{metric.title} ({metric.of}) by {name}: medians{' and their 95 % intervals' if has_intervals(rows) else ''}"
    )
    title += f"; dotted: ideal {scaling} scaling from the first point of each line" if has_ideal else ""
    in_file = names_in_files(points, written)[key]
    columns = ["line", in_file, "trial", "median", "low", "high", "ideal"]
    picture = f"{metric.name}-by-{in_file.replace('.', '-')}"
    return ResultsPicture(picture, title, to_svg(canvas), to_pdf(canvas), columns, data, metric.name)


def names_in_files(points: Sequence[Parameters], written: Mapping[str, str]) -> dict[str, str]:
    """Key → its last words as it is written in the campaign file, which name files and columns of data: a label that is
    changed changes no picture that a text includes. `written`: key with its label → the key of the file."""
    keys = varied(points)
    names = short_names([written.get(key, key) for key in keys])
    return {key: names[written.get(key, key)] for key in keys}


def growth(
    metric: MetricFacts, lines: Mapping[str, Sequence[TrialResult]], across: Dimension, key: str, scaling: Scaling
) -> list[str]:
    """By what factor the medians change from the smallest to the largest number, on the lines where that is least and
    most: `steps, 2 ranks ÷ 1 rank: 0.51 (async pipe) to 0.67 (async naive)`. Nothing where no line has both.
    """
    numbers = [across.number(each.parameters, key) for line in lines.values() for each in line]
    small, large = min(numbers), max(numbers)
    factors: list[tuple[float, str]] = []
    words: dict[float, str] = {}
    for label, line in lines.items():
        medians = {across.number(each.parameters, key): each.median for each in line}
        first, last = medians.get(small), medians.get(large)
        if small < large and first and last:
            factors.append((last / first, f" ({label})" if label else ""))
            words |= {across.number(each.parameters, key): _number_text(key, each.parameters) for each in line}
    if not factors:
        return []
    told = [f"{three_figures(factor)}{where}" for factor, where in (min(factors), max(factors))]
    found = [f"{metric.title}, {words[large]} ÷ {words[small]}: {' to '.join(dict.fromkeys(told))}"]
    ideal = _ideal(metric.of, key, scaling, large / small, 1.0)
    return found if ideal is None else [*found, f"ideal {scaling} scaling: {ideal:.3g}"]


def _number_text(key: str, parameters: Parameters) -> str:
    return in_words(key.rpartition(".")[2], parameters[key])


def _ideal(figure: str, key: str, scaling: Scaling, factor: float, first: float) -> float | None:
    times = ideal_factor(figure, key, scaling, factor) if is_ranks(key) else None
    return None if times is None else first * times


def _set_axes(
    axes: Axes, metric: MetricFacts, rows: Sequence[TrialResult], across: Dimension, key: str, is_straight: bool
) -> None:
    """`is_straight`: the ideal is a straight line where both axes are logarithmic."""
    others = Dimension(tuple(each for each in across.keys if each != key), ())
    marks = {across.number(each.parameters, key): others.words(each.parameters) for each in rows}
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
        begin_at_zero(axes, "y")
    names = short_names(varied(each.parameters for each in rows))
    axes.set_xlabel(", ".join(names[each] for each in [key, *others.keys]) + (LOGARITHM if is_logarithmic else ""))
    label_values(axes.yaxis, metric, max(medians))


@dataclass(frozen=True)
class Dimension:
    """Keys that vary together, as those of `zip` do: one of them says what the others are."""

    keys: tuple[str, ...]
    values: tuple[str, ...]
    """As texts, in the order of the trials."""

    def value(self, parameters: Parameters) -> str:
        """What a trial has: `sst`, or `2, [192, 96, 96]` for two keys."""
        return ", ".join(value_text(parameters[key]) for key in self.keys if key in parameters)

    def words(self, parameters: Parameters) -> str:
        """The same for people: `2, 192×96×96`."""
        return ", ".join(
            value_in_words(key.rpartition(".")[2], parameters[key]) for key in self.keys if key in parameters
        )

    def number(self, parameters: Parameters, key: str) -> float:
        """Where a trial is on the axis of a key that is a number."""
        return float(str(parameters[key]))


def meaningful(points: Sequence[Parameters]) -> list[Parameters]:
    """Each point without the values that mean nothing for it: a file has neither a transport nor a queue.

    Where two points would then be the same, all stay as they are.
    """
    kept = [{key: value for key, value in point.items() if _has_meaning(key, point)} for point in points]
    is_unique = len({repr(point) for point in kept}) == len({repr(dict(point)) for point in points})
    return [*kept] if is_unique else [*points]


def _has_meaning(key: str, point: Parameters) -> bool:
    words = key.split(".")
    via = point.get(".".join([*words[:2], "via"]))
    if words[0] != "streams" or len(words) < 3 or not isinstance(via, str) or via.upper() not in ENGINES:
        return True
    engine = traits_of(via)
    return {"transport": engine.over_network, "queue": engine.in_memory}.get(words[2], True)


def find_dimensions(points: Sequence[Parameters]) -> list[Dimension]:
    """The dimensions with more than one value, in the order of their first keys."""
    columns = {key: [value_text(point[key]) if key in point else "" for point in points] for key in varied(points)}
    groups: list[list[str]] = []
    for key, column in columns.items():
        if len(set(column)) < 2:
            continue
        group = next((each for each in groups if _follow_each_other(columns[each[0]], column)), None)
        if group is None:
            groups.append([key])
        else:
            group.append(key)
    found = []
    for group in groups:
        whole = Dimension(tuple(group), ())
        found.append(Dimension(whole.keys, tuple(dict.fromkeys(whole.value(point) for point in points))))
    return found


def number_key(dimension: Dimension, points: Sequence[Parameters]) -> str | None:
    """The key of a dimension whose values are numbers, ranks before all others; None where there is none."""
    numeric = [key for key in dimension.keys if all(_is_number(point.get(key)) for point in points)]
    return next((key for key in numeric if is_ranks(key)), numeric[0] if numeric else None)


def is_ranks(key: str) -> bool:
    """Whether a key says with how many processes a stage runs."""
    return key.startswith("stages.") and key.endswith(".ranks")


def find_scaling(dimension: Dimension, points: Sequence[Parameters], stated: Scaling | None) -> Scaling:
    """How the work grows with the ranks: as the campaign file says, or by the keys that vary with them.

    weak: a parameter of the component or of its environment grows in proportion to the ranks: a number, the product of
    a list, or the square or cube that one number is the edge of. strong: none varies with them. Where one grows
    otherwise there is no ideal: `none`.
    """
    ranks = number_key(dimension, points)
    if ranks is None or not is_ranks(ranks):
        return "none"
    if stated is not None:
        return stated
    sizes = [key for key in dimension.keys if ".with." in key or ".env." in key]
    if not sizes:
        return "strong"
    grows = any(
        _grows_with(dimension, ranks, key, power, points)
        for key in sizes
        for power in ((1, 2, 3) if all(_is_edge(point[key]) for point in points) else (1,))
    )
    return "weak" if grows else "none"


def _grows_with(dimension: Dimension, ranks: str, key: str, power: int, points: Sequence[Parameters]) -> bool:
    """Whether this power of a parameter is proportional to the ranks, as well as whole numbers allow."""
    first = points[0]
    return all(
        math.isclose(
            _amount(point[key]) ** power,
            dimension.number(point, ranks) / dimension.number(first, ranks) * _amount(first[key]) ** power,
            rel_tol=0.1,
        )
        for point in points
    )


def ideal_factor(figure: str, ranks_key: str, scaling: Scaling, factor: float) -> float | None:
    """By what a figure would grow if `factor` times the ranks had no cost; None where there is no ideal.

    A figure of another stage has none: its ranks are the same.
    """
    section, _, rest = figure.partition(".")
    stage, _, field = rest.rpartition(".")
    if scaling == "none" or (section == "stages" and stage != ranks_key.split(".")[1]):
        return None
    if field in _TIMES:
        return 1.0 if scaling == "weak" else 1 / factor
    if field == "step_rate":
        return 1.0 if scaling == "weak" else factor
    return factor if field in _RATES else None


def _follow_each_other(one: Sequence[str], other: Sequence[str]) -> bool:
    return len(set(one)) == len(set(other)) == len(set(zip(one, other, strict=True)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_edge(value: object) -> bool:
    """A list of one number: a square or a cube where a program takes one number for all sides."""
    return isinstance(value, list) and len(value) == 1


def _amount(value: object) -> float:
    """How much work a size means: the product of its numbers, NaN where it has none."""
    numbers = value if isinstance(value, list) else [value]
    try:
        return math.prod(float(str(number)) for number in numbers)
    except ValueError:
        return math.nan
