"""The pictures of a campaign: every value, heat maps, what stages did with their time, ratios; each with its data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from workflow.campaign.file.trials import Parameters, in_words, short_names
from workflow.campaign.results.campaign_tables import compared_text, metric_text, ratio_text, varied, verdict_word
from workflow.campaign.results.picture_canvas import (
    BLACK,
    COLOURS,
    LOGARITHM,
    LONGEST,
    MOST_ROWS,
    PALE,
    ROOM,
    ROW,
    WIDTH,
    ResultsPicture,
    RowLabels,
    RowSpace,
    begin_at_zero,
    has_intervals,
    is_wide,
    label_axis,
    label_values,
    line_length,
    new_canvas,
    new_row_canvas,
    set_finding,
    set_legend,
    set_logarithmic,
    set_ratio_axis,
    short_labels,
    shown_rows,
    to_pdf,
    to_svg,
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
from workflow.campaign.results.scaling_picture import (
    Dimension,
    ValueColours,
    find_dimensions,
    meaningful,
    names_in_files,
    number_key,
    scaling_picture,
)
from workflow.campaign.verdicts import Decision
from workflow.formatting import in_one_line, plural
from workflow.report.html.svg_charts import LABELS
from workflow.report_figures import Better

if TYPE_CHECKING:
    from workflow.campaign.results.picture_canvas import Axes, Canvas


COMPARISONS = "comparisons"
POINTS, LETTER = 0.7 * 72 * WIDTH, 0.62
"""Width of the cells of a map together, and of a letter in its size."""
SMALLEST = 5.0
"""Points of the numbers in the cells of a map; in smaller cells there are none."""
MARK = 4
"""Letters that each label of a map's columns has room for; where there are too many, some have none."""
# The hues of the report of a run.
OPERATIONS: dict[Operation, str] = {
    "compute": COLOURS[0], "device": COLOURS[2], "io": COLOURS[1], "wait": COLOURS[3],
}  # fmt: skip
NAMES: dict[Operation, str] = {name: LABELS[name] for name in get_args(Operation)}
BOX = 0.12
"""Height of a box in inches, as that of a trial."""
TRIAL = 0.55
# Tukey 1977: whiskers reach the farthest value within 1.5 times the height of the box.
WHISKER = 1.5
FEWEST_IN_BOX = 5
"""Values; quartiles of fewer say no more than the values themselves."""
VERDICTS: dict[Decision, str] = {
    "faster": COLOURS[2], "slower": COLOURS[5], "same": COLOURS[0], "undecided": COLOURS[6],
}  # fmt: skip
MEANINGS: dict[Decision, str] = {"faster": "better", "slower": "worse", "same": "the same", "undecided": "undecided"}
BAND = 12
"""Points: the interval is seen behind the dots."""
DOT: Any = {"markersize": 3, "alpha": 0.7}
# Of ratios that are all near 1 this much is shown, so that noise does not look like an effect.
NARROWEST = 1.1


def make_pictures(results: CampaignResults) -> list[ResultsPicture]:
    """All that the results allow: values of each metric, medians by a number, heat maps, operations, ratios."""
    written = {label: key for key, label in labelled_keys(results).items()}
    results = with_labels(_without_meaningless(results))
    pictures = []
    for metric in results.metrics:
        rows = [each for each in results.results if each.metric == metric.name and each.values]
        if not rows:
            continue
        points = [each.parameters for each in rows]
        compared = [each.vary for each in results.comparisons]
        colours = ValueColours([each.parameters for each in results.results], compared)
        of_metric = [each for each in results.comparisons if each.metric == metric.name]
        pictures.append(_values(metric, rows, colours, of_metric))
        drawn = (
            scaling_picture(metric, rows, each, colours, results.scaling, written) for each in find_dimensions(points)
        )
        pictures += [each for each in drawn if each is not None]
        pictures += _heat_map(metric, rows, of_metric, written)
    for stage in dict.fromkeys(each.stage for each in results.operations):
        pictures.append(operation_picture(stage, [each for each in results.operations if each.stage == stage]))
    ratios = list(_ratio_rows(results))
    title = (
        f"comparisons, better to the right: {ratio_text(results.comparisons)} (its inverse where less is better) with "
        "its 95 % interval; the band counts as the same"
    )
    found = overall_finding(results)
    return [*pictures, *([ratio_picture(COMPARISONS, title, found, ratios)] if ratios else [])]


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


def _values(
    metric: MetricFacts, rows: Sequence[TrialResult], colours: ValueColours, compared: Sequence[ComparisonResult]
) -> ResultsPicture:
    """Every value of every trial, its median and the interval; outliers are hollow. The finding is the title."""
    shown = compared_adjacent(rows, {each.vary for each in compared})[:MOST_ROWS]
    naming = RowLabels([each.parameters for each in rows])
    labels = [naming.text(each.parameters) for each in shown]
    canvas, axes = new_row_canvas(RowSpace(labels, ROW), 1.3)
    axes.set_ylabel(naming.title)
    for height, each in enumerate(shown):
        colour = colours.colour(each.parameters)
        if each.low is not None and each.high is not None:
            axes.plot(
                [each.low, each.high], [height, height], color=colour, linewidth=BAND, alpha=0.3, solid_capstyle="butt"
            )
        for value, is_outlier in zip(each.values, each.outliers, strict=True):
            axes.plot(value, height, "o", color=colour, **DOT, fillstyle="none" if is_outlier else "full")
        axes.plot(each.median or 0.0, height, "|", markersize=15, markeredgewidth=2, color=BLACK)
    values = [value for each in shown for value in each.values]
    if is_wide(values):
        set_logarithmic(axes, "x", values)
    else:
        begin_at_zero(axes, "x")
    label_values(axes.xaxis, metric, max(values))
    _explain_values(canvas, axes, shown)
    set_finding(axes, finding(metric, rows, compared))
    told = ", the median and its 95 % interval" if has_intervals(shown) else " and the median"
    title = f"{metric.title} ({metric.of}): every repetition{told}"
    data = [
        [naming.whole(each.parameters), number, value, is_outlier, each.median, each.low, each.high]
        for each in shown
        for number, (value, is_outlier) in enumerate(zip(each.values, each.outliers, strict=True), 1)
    ]
    columns = ["trial", "number", "value", "outlier", "median", "low", "high"]
    return ResultsPicture(
        f"{metric.name}-values", title + shown_rows(len(rows), "trials"), to_svg(canvas), to_pdf(canvas), columns, data,
        metric.name,
    )  # fmt: skip


def compared_adjacent(rows: Sequence[TrialResult], keys: Collection[str]) -> list[TrialResult]:
    """The rows in the order of the trials, but those that differ only in these keys one below the other.

    Keys that change together with one of them, as in `zip`, differ with it.
    """
    dimensions = find_dimensions([each.parameters for each in rows])
    differing = {key for each in dimensions if not set(keys).isdisjoint(each.keys) for key in each.keys}
    groups: dict[str, list[TrialResult]] = {}
    for row in rows:
        rest = {key: value for key, value in row.parameters.items() if key not in differing}
        groups.setdefault(repr(rest), []).append(row)
    return [row for group in groups.values() for row in group]


def finding(metric: MetricFacts, rows: Sequence[TrialResult], compared: Sequence[ComparisonResult]) -> list[str]:
    """The largest certain differences to the better and to the worse, with where they are, and how many there are.

    Without comparisons the best median.
    """
    if not compared:
        naming = RowLabels([each.parameters for each in rows])
        best = sorted((each for each in rows if each.median is not None), key=lambda each: each.median or 0.0)
        if len(best) < 2:
            return []
        first = best[-1 if metric.better == "more" else 0]
        value = in_one_line(metric_text(first.median, metric.unit))
        return [f"{metric.title}: best median {value}, {naming.text(first.parameters)}"]
    words: dict[Decision, str] = {each: verdict_word(each, metric) for each in MEANINGS}
    total = "of " + count_text([each.decision for each in compared], {**words, "same": MEANINGS["same"]})
    decided = certain(compared)
    if not decided:
        return [f"{metric.title}: no certain difference", total]
    most = {each.decision: each for each in reversed(decided)}
    told = [_difference(each, metric, compared) for each in decided if most[each.decision] is each]
    also = [f"but also {each}" for each in told[1:]]
    return [f"{metric.title}: {told[0]}", *also, f"largest {'differences' if also else 'difference'} {total}"]


def overall_finding(results: CampaignResults) -> list[str]:
    """The largest certain difference of all metrics, and how many comparisons have which result."""
    total = "of " + count_text([each.decision for each in results.comparisons])
    largest = next(iter(certain(results.comparisons)), None)
    if largest is None:
        return ["no certain difference", total]
    metric = next(each for each in results.metrics if each.name == largest.metric)
    its = [each for each in results.comparisons if each.metric == metric.name]
    return [f"{metric.title}: {_difference(largest, metric, its)}", f"largest difference {total}"]


def count_text(decisions: Sequence[Decision], words: Mapping[Decision, str] = MEANINGS) -> str:
    """`6 comparisons: 1 faster, 1 slower, 4 undecided`."""
    count = Counter(decisions)
    counts = ", ".join(f"{count[decision]} {word}" for decision, word in words.items() if count[decision])
    return f"{plural(len(decisions), 'comparison')}: {counts}"


def _difference(each: ComparisonResult, metric: MetricFacts, compared: Sequence[ComparisonResult]) -> str:
    """`pipe is 1.14 × better than off (1 rank)`: in brackets what tells this comparison from the others."""
    points = [other.at for other in compared]
    names = short_names(varied([*points, {each.vary: each.value}]))
    keys = [number_key(dimension, points) or dimension.keys[0] for dimension in find_dimensions(points)]
    at = ", ".join(in_words(names[key], each.at[key]) for key in keys if key in each.at)
    factor = math.exp(abs(math.log(each.ratio or 1.0)))
    between = f"is {factor:.3g} × {verdict_word(each.decision, metric)} than"
    return compared_text(each, between) + (f" ({at})" if at else "")


def _explain_values(canvas: Canvas, axes: Axes, shown: Sequence[TrialResult]) -> None:
    """What the marks of a row are."""
    axes.plot([], [], "o", color=BLACK, **DOT, label="repetition")
    if any(any(each.outliers) for each in shown):
        axes.plot([], [], "o", color=BLACK, **DOT, fillstyle="none", label="outlier")
    axes.plot([], [], "|", markersize=11, markeredgewidth=2, color=BLACK, label="median")
    if has_intervals(shown):
        axes.plot([], [], color=BLACK, linewidth=BAND, alpha=0.3, solid_capstyle="butt", label="95 % interval")
    set_legend(canvas, axes)


def _heat_map(
    metric: MetricFacts,
    rows: Sequence[TrialResult],
    compared: Sequence[ComparisonResult],
    written: Mapping[str, str],
) -> Iterator[ResultsPicture]:
    """Medians over two dimensions, where trials differ in exactly two: that of more values goes down.

    `written`: key with its label → the key of the file, by which the data are named.
    """
    points = [each.parameters for each in rows]
    dimensions = sorted(find_dimensions(points), key=lambda each: -len(each.values))
    if len(dimensions) != 2:
        return
    down, across = dimensions
    medians = {(down.value(each.parameters), across.value(each.parameters)): each.median for each in rows}
    nothing = float("nan")
    grid = [[nothing if (value := medians.get((y, x))) is None else value for x in across.values] for y in down.values]
    names = short_names(varied(points))
    height = 1.4 + 0.5 * len(down.values)
    canvas, axes = new_canvas(height)
    texts = [metric_text(median, metric.unit) for median in medians.values()]
    size = min(10.0, POINTS / len(across.values) / max(map(len, texts)) / LETTER)
    image = axes.imshow(grid, cmap="cividis", aspect="auto")
    known = [value for value in medians.values() if value is not None]
    if size < SMALLEST:
        scale = canvas.colorbar(image, ax=axes, location="top", pad=0.1 / height, fraction=0.2 / height, aspect=20)
        label_axis(scale.ax.xaxis, metric.title, metric.unit, max(known))
    else:
        _write_medians(axes, grid, metric, size)
    axes.set_xticks(*_column_marks(_in_words(across, points)))
    axes.set_yticks(range(len(down.values)), short_labels(_in_words(down, points), LONGEST))
    titles = [", ".join(names[key] for key in each.keys) for each in dimensions]
    axes.set_xlabel(titles[1])
    axes.set_ylabel(titles[0])
    set_finding(axes, finding(metric, rows, compared))
    bright = f"medians; {metric.better} ({'bright' if metric.better == 'more' else 'dark'}) is better"
    axes.set_title(bright, loc="right", fontsize="small")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    title = f"{metric.title} ({metric.of}): medians by {titles[0]} and {titles[1]}"
    data = [[*point, value] for point, value in medians.items()]
    in_file = names_in_files(points, written)
    columns = [", ".join(in_file[key] for key in each.keys) for each in dimensions]
    yield ResultsPicture(
        f"{metric.name}-map", title, to_svg(canvas), to_pdf(canvas), [*columns, "median"], data, metric.name
    )


def _in_words(dimension: Dimension, points: Sequence[Parameters]) -> list[str]:
    """The values of a dimension as labels, in their order."""
    words = {dimension.value(each): dimension.words(each) for each in points}
    return [words[value] for value in dimension.values]


def _write_medians(axes: Axes, grid: Sequence[Sequence[float]], metric: MetricFacts, size: float) -> None:
    """The number of each cell, in letters of this size in points."""
    known = [value for line in grid for value in line if value == value]
    middle = (min(known) + max(known)) / 2
    for y, line in enumerate(grid):
        for x, value in enumerate(line):
            text = metric_text(None if value != value else value, metric.unit)
            colour = "white" if value < middle else "black"
            axes.text(x, y, text, ha="center", va="center", color=colour, fontsize=size)


def _column_marks(values: Sequence[str]) -> tuple[range, list[str]]:
    """Which columns of a map are labelled, every k-th, and how."""
    room = int(POINTS / 10 / LETTER)
    each = min(MARK, max(map(len, values))) + 1  # with the gap to the next one
    marked = range(0, len(values), -(-len(values) * each // (room + 1)))
    return marked, short_labels([values[place] for place in marked], room // len(marked))


def _ratio_rows(results: CampaignResults) -> Iterator[RatioRow]:
    metrics = {metric.name: metric for metric in results.metrics}
    names = short_names(varied(keys for each in results.comparisons for keys in ({each.vary: each.value}, each.at)))
    compared = [each for each in results.comparisons if each.ratio is not None]
    labels = [_comparison_label(each, metrics[each.metric], names, each.at) for each in compared]
    if max(map(len, labels), default=0) > line_length(labels):
        labels = [_comparison_label(each, metrics[each.metric], names, _own(each, compared)) for each in compared]
    for each, label in zip(compared, labels, strict=True):
        if each.ratio is not None:
            yield RatioRow(
                label=label,
                ratio=each.ratio,
                low=each.low,
                high=each.high,
                corrected_p=each.corrected_p,
                decision=each.decision,
                threshold=metrics[each.metric].threshold,
                better=metrics[each.metric].better,
            )


def _own(each: ComparisonResult, compared: Sequence[ComparisonResult]) -> Parameters:
    """Where a comparison is, without what is the same of all others of its metric and key."""
    others = [other.at for other in compared if (other.metric, other.vary) == (each.metric, each.vary)]
    return {
        key: value
        for key, value in each.at.items()
        if len(others) == 1 or any(key not in at or at[key] != value for at in others)
    }


def _comparison_label(each: ComparisonResult, metric: MetricFacts, names: Mapping[str, str], where: Parameters) -> str:
    at = f" ({', '.join(in_words(names[key], value) for key, value in where.items())})" if where else ""
    return f"{metric.title}: {compared_text(each, 'with')}{at}"


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
    begin_at_zero(axes, "x")
    label_axis(axes.xaxis, f"time of {stage}", "s", max(value for each in times for value in each.values))
    for operation, colour in OPERATIONS.items():
        if any(each.operation == operation for each in times):
            axes.plot([], [], "s", color=colour, label=NAMES[operation])
    set_legend(canvas, axes)
    set_finding(axes, [where_time_goes(stage, list(trials.values()))])
    title = (
        f"{stage}: time for {_listed(times)}; median, quartiles, and values within 1.5 times their distance"
        if any(len(each.values) >= FEWEST_IN_BOX for each in times)
        else f"{stage}: time for {_listed(times)}; every repetition, and the median"
    )
    columns = ["trial", "operation", "number", "value", "low", "first_quartile", "median", "third_quartile", "high"]
    return ResultsPicture(
        f"operations-{stage}", title + shown_rows(len(trials), "trials"), to_svg(canvas), to_pdf(canvas), columns, data
    )


def where_time_goes(stage: str, trials: Sequence[Sequence[OperationTimes]]) -> str:
    """By the medians: `md, what takes longest: computing in 6, waiting in 1 of 7 trials`."""
    longest = Counter(max(trial, key=lambda each: median(each.values)).operation for trial in trials)
    told = ", ".join(f"{NAMES[operation]} in {count}" for operation, count in longest.most_common())
    return f"{stage}, what takes longest: {told} of {plural(len(trials), 'trial')}"


def _listed(times: Sequence[OperationTimes]) -> str:
    """All operations; copies to a device where there are some."""
    drawn = {each.operation for each in times}
    *first, last = (name for operation, name in NAMES.items() if operation != "device" or operation in drawn)
    return f"{', '.join(first)} and {last}"


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


def ratio_picture(name: str, title: str, found: Sequence[str], rows: Sequence[RatioRow]) -> ResultsPicture:
    """The gain of each row with its interval; the band is what counts as the same. `found`: what stands above it."""
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
    axes.set_xlabel(f"← worse · by this factor{LOGARITHM} · better →")
    set_finding(axes, found)
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
