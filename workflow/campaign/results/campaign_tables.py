"""All tables of a campaign and their columns: its plan, state and results for the terminal, the page and LaTeX, and its
data, one row per repetition and figure, as CSV and Parquet.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from workflow.campaign.file.trials import short_names, value_in_words, value_text
from workflow.campaign.planning.planned_trials import PlannedCampaign, ReadyTrial, RefusedTrial
from workflow.campaign.results.results_model import (
    CampaignLine,
    CampaignResults,
    CampaignStatus,
    ComparisonResult,
    MetricFacts,
    TrialCount,
    TrialResult,
    machine_is_busy,
    with_labels,
)
from workflow.campaign.results.samples import Measured
from workflow.campaign.verdicts import Decision
from workflow.formatting import (
    NOTHING,
    duration,
    fine_duration,
    moment,
    plain_figure,
    plural,
    rate,
    size,
    three_figures,
)
from workflow.replace_file import replace_file
from workflow.report.show.report_tables import engine_text
from workflow.report.show.text_table import (
    Column,
    Table,
    make_table,
    number_column,
    prose_column,
    state_column,
    text_column,
)
from workflow.report_figures import to_figure_name

R = TypeVar("R")
ShowValue = Callable[[float | None], str]
UnitFor = Callable[[str, float], tuple[float, str]]
"""A unit, and the largest value → the size of a unit that fits, and its name: `ms`; empty for plain numbers."""
LATEX_FILE = "tables.tex"
_ESCAPED = str.maketrans(
    {
        # After the end of a row LaTeX would take a bracket for the height of the gap.
        "[": r"{[}",
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
        "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
        "…": r"\ldots{}", "–": "--", "×": r"$\times$", "÷": r"$\div$", "µ": r"$\mu$", "²": r"$^2$", "≥": r"$\geq$",
        "≤": r"$\leq$", "≈": r"$\approx$", "→": r"$\to$", "−": "$-$",
    }
)  # fmt: skip
Cell = str | int | float | bool
FIRST_COLUMNS = ("trial", "baseline")
LAST_COLUMNS = ("repetition", "warmup", "metric", "part", "name", "figure", "value", "unit")


def metric_text(value: float | None, unit: str) -> str:
    """A value of a metric as people read it."""
    if value is None:
        return NOTHING
    texts: dict[str, Callable[[float], str]] = {
        # Trials differ by parts of a millisecond.
        "s": fine_duration,
        "B": size,
        "B/s": rate,
        "steps": _count,
        "steps/s": _step_rate,
        "1": plain_figure,
        "ratio": plain_figure,
    }
    if unit not in texts:
        # What a program measures itself may be no time at all, but a result: it is not rounded to two digits.
        return f"{value:.6g} {unit}".rstrip()
    return texts[unit](value)


def plan_table(planned: PlannedCampaign) -> Table:
    """The trials: what varies, what each needs, and whether it can run."""
    trials: list[ReadyTrial | RefusedTrial] = [*planned.ready, *planned.refused]
    keys = varied(each.trial.parameters for each in trials)
    most = "≤ " if planned.spec.search is not None else ""
    each_one = f"{most}{planned.spec.repetitions + planned.spec.warmup}"
    columns: list[Column[ReadyTrial | RefusedTrial]] = [
        text_column("trial", lambda each: each.key if isinstance(each, ReadyTrial) else NOTHING, gives_way=1),
        *parameter_columns(keys, lambda each: each.trial.parameters),
        text_column("engines", _engines, gives_way=5),
        number_column(
            "stages", lambda each: str(len(each.plan.stages)) if isinstance(each, ReadyTrial) else NOTHING, gives_way=2
        ),
        number_column("nodes", lambda each: str(each.nodes) if isinstance(each, ReadyTrial) else NOTHING, gives_way=3),
        number_column("runs", lambda each: each_one if isinstance(each, ReadyTrial) else "0", gives_way=4),
        state_column("state", _plan_state),
    ]
    return make_table(columns, trials)


def _engines(each: ReadyTrial | RefusedTrial) -> str:
    """The engines of all streams, each named once: `SST tcp, SHM`."""
    return ", ".join(dict.fromkeys(map(engine_text, each.plan.streams))) if isinstance(each, ReadyTrial) else NOTHING


def status_table(status: CampaignStatus) -> Table:
    """How far each trial is."""
    keys = varied(each.parameters for each in status.trials)
    columns: list[Column[TrialCount]] = [
        text_column("trial", lambda each: each.trial, gives_way=1),
        *parameter_columns(keys, lambda each: each.parameters),
        number_column("done", lambda each: f"{each.succeeded}/{each.wanted}"),
        number_column("failed", lambda each: str(each.failed)),
        *([number_column("violated", lambda each: str(each.violated))] if status.violated else []),
        state_column("state", _count_state),
    ]
    return make_table(columns, status.trials)


def campaign_list_table(campaigns: Sequence[CampaignLine]) -> Table:
    """The campaigns of a folder."""
    columns: list[Column[CampaignLine]] = [
        text_column("campaign", lambda each: each.name),
        state_column("state", lambda each: each.state),
        number_column("done", lambda each: f"{each.succeeded}/{each.wanted}"),
        number_column("failed", lambda each: str(each.failed)),
        *(
            [number_column("violated", lambda each: str(each.violated))]
            if any(each.violated for each in campaigns)
            else []
        ),
        number_column("running", lambda each: str(each.running), gives_way=5),
        number_column("spent", lambda each: duration(each.spent_s), gives_way=4),
        text_column("last entry", lambda each: moment(each.changed), gives_way=3),
        text_column("host", lambda each: each.host or NOTHING, gives_way=2),
        text_column("site", lambda each: each.site or NOTHING, gives_way=1),
    ]
    return make_table(columns, campaigns)


def metric_table(results: CampaignResults, metric: MetricFacts, show: ShowValue | None = None) -> Table:
    """One metric of all trials: median and interval. `show`: a value as text, by default with the unit that fits it."""
    rows = [each for each in results.results if each.metric == metric.name]
    keys = varied(each.parameters for each in rows)
    text = show or (lambda value: metric_text(value, metric.unit))
    columns: list[Column[TrialResult]] = [
        *parameter_columns(keys, lambda each: each.parameters),
        number_column("n", lambda each: str(len(each.values)), gives_way=4),
        number_column("median", lambda each: text(each.median)),
        number_column("95 % interval", lambda each: _interval(each, text)),
        number_column("smallest", lambda each: text(min(each.values, default=None)), gives_way=2),
        number_column("largest", lambda each: text(max(each.values, default=None)), gives_way=1),
        number_column("outliers", lambda each: str(sum(each.outliers)) if any(each.outliers) else "", gives_way=3),
    ]
    return make_table(columns, rows)


def comparison_table(results: CampaignResults) -> Table:
    """What the comparisons decided."""
    keys = varied(each.at for each in results.comparisons)
    facts = {metric.name: metric for metric in results.metrics}
    columns: list[Column[ComparisonResult]] = [
        text_column("metric", lambda each: facts[each.metric].title),
        prose_column("compared", lambda each: compared_text(each, "with")),
        *parameter_columns(keys, lambda each: each.at),
        number_column("ratio", lambda each: NOTHING if each.ratio is None else plain_figure(each.ratio)),
        number_column("95 % interval", lambda each: ratio_interval(each.ratio, each.low, each.high), gives_way=2),
        number_column("p", lambda each: p_text(each.corrected_p), gives_way=1),
        state_column("verdict", lambda each: decision_text(each.decision, facts[each.metric], each.reason)),
    ]
    return make_table(columns, results.comparisons)


def compared_text(each: ComparisonResult, word: str) -> str:
    """`pipe with off`, `ratio 4 with ratio 1`: the two values, with this word between them."""
    name = each.vary.rpartition(".")[2]
    return f"{value_in_words(name, each.value)} {word} {value_in_words(name, each.against)}"


def decision_text(decision: Decision, metric: MetricFacts, reason: str = "") -> str:
    """`faster`, or for what is no time or rate `better`; with the threshold where the medians are the same."""
    if reason:
        return f"{decision}: {reason}"
    if decision == "same":
        return f"same within {metric.threshold * 100:g} %"
    return verdict_word(decision, metric)


def verdict_word(decision: Decision, metric: MetricFacts) -> str:
    """`faster` for a time or a rate, for all else `better`."""
    is_speed = metric.unit == "s" or metric.unit.endswith("/s")
    words = {} if is_speed else {"faster": "better", "slower": "worse"}
    return words.get(decision, decision)


def method_text(compared: Sequence[ComparisonResult]) -> str:
    """What the ratios and p are: `median of the ratios within blocks; p of the sign test …, corrected for …`.

    `compared`: all whose p-values were corrected together.
    """
    count = plural(sum(each.p is not None for each in compared), "comparison")
    test = (
        "the sign test over the blocks"
        if _in_pairs(compared)
        else "Mann–Whitney or, where it is larger, of Welch on logarithms"
    )
    return f"{ratio_text(compared)}; p of {test}, corrected for {count} (Holm)"


def ratio_text(compared: Sequence[ComparisonResult]) -> str:
    """Of what the ratios are, as in `method_text`."""
    return "median of the ratios within blocks" if _in_pairs(compared) else "ratio of the medians"


def _in_pairs(compared: Sequence[ComparisonResult]) -> bool:
    return {each.test for each in compared if each.test is not None} == {"pairs"}


def p_text(p: float | None) -> str:
    """A p-value: `0.012`, `<0.001`."""
    return NOTHING if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def ratio_interval(ratio: float | None, low: float | None, high: float | None) -> str:
    """`0.98 … 1.04`; `too few` where only the ratio is known."""
    if low is None or high is None:
        return NOTHING if ratio is None else "too few"
    return f"{plain_figure(low)} … {plain_figure(high)}"


def varied(points: Iterable[Mapping[str, object]]) -> list[str]:
    """The keys of several parameter points, in the order in which they first appear."""
    return list(dict.fromkeys(key for point in points for key in point))


def parameter_columns(keys: Sequence[str], parameters: Callable[[R], Mapping[str, object]]) -> list[Column[R]]:
    """A column for each key that varies; empty for a row that does not have the key."""

    names = short_names(keys)

    def cell(key: str) -> Callable[[R], str]:
        return lambda row: value_in_words(names[key], parameters(row)[key]) if key in parameters(row) else ""

    return [text_column(names[key], cell(key)) for key in keys]


def _plan_state(trial: ReadyTrial | RefusedTrial) -> str:
    if isinstance(trial, RefusedTrial):
        return "error"
    return "baseline" if trial.is_baseline else "ok"


def _count_state(count: TrialCount) -> str:
    if count.succeeded == count.wanted:
        return "violated" if count.violated else "succeeded"
    return "failed" if count.failed else "unfinished" if count.succeeded else "waiting"


def _interval(result: TrialResult, show: ShowValue) -> str:
    if result.low is None or result.high is None:
        return "too few" if result.values else NOTHING
    return f"{show(result.low)} … {show(result.high)}"


def _step_rate(value: float) -> str:
    return f"{plain_figure(value)} steps/s"


def _count(value: float) -> str:
    return f"{value:.4g}"


def latex_tables(results: CampaignResults, unit_for: UnitFor) -> str:
    """A table for each metric, in one unit, and one of the comparisons. Their labels begin with the campaign's name."""
    results = with_labels(results)
    better = {"less": "less is better", "more": "more is better"}
    more, tables = "", []
    if results.load is not None and machine_is_busy(results.load, results.cores):
        more = f"; the machine was busy: a median load of {results.load:.1f} on {plural(results.cores, 'core')}"
    for each in results.metrics:
        show, unit = _in_one_unit(results, each, unit_for)
        caption = f"{each.title}{unit and f' in {unit}'} ({each.of}, {better[each.better]}){more}"
        tables.append(latex_table(metric_table(results, each, show), caption, f"{results.campaign}-{each.name}"))
    if results.comparisons:
        caption = f"Comparisons: {method_text(results.comparisons)}{more}"
        tables.append(latex_table(comparison_table(results), caption, f"{results.campaign}-comparisons"))
    return "% \\usepackage{booktabs}\n" + "\n".join(tables)


def _in_one_unit(results: CampaignResults, metric: MetricFacts, unit_for: UnitFor) -> tuple[ShowValue | None, str]:
    """(how to show a value of a metric in the unit of the largest median, that unit); ratios and counts have none."""
    medians = [each.median for each in results.results if each.metric == metric.name and each.median is not None]
    factor, unit = unit_for(metric.unit, max(medians, default=0.0))

    def show(value: float | None) -> str:
        if value is None:
            return NOTHING
        shown = value / factor
        return f"{shown:.3g}" if 0 < abs(shown) < 1 else three_figures(shown)

    return (show, unit) if unit else (None, "")


def latex_table(table: Table, caption: str, label: str) -> str:
    """One table; numbers are aligned to the right. `label`: a part of the label, by which the text refers to it."""
    alignment = "".join("r" if heading.content == "number" else "l" for heading in table.head)
    rows = [[heading.title for heading in table.head], *table.rows]
    head, *body = (" & ".join(map(latex_text, row)) + r" \\" for row in rows)
    lines = [
        r"\begin{table}", r"\centering", rf"\caption{{{latex_text(caption)}}}", rf"\label{{tab:{label}}}",
        rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}",
        r"\end{table}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
    """A text with the characters escaped that LaTeX reads as commands."""
    return text.translate(_ESCAPED)


def table_columns(keys: Sequence[str]) -> list[str]:
    """The titles: the trial, a column per key that varies, the repetition, and what was measured."""
    names = column_names(keys)
    return [*FIRST_COLUMNS, *(names[key] for key in keys), *LAST_COLUMNS]


def column_names(keys: Sequence[str]) -> dict[str, str]:
    """Key → the title of its column: short, unless another column has that title."""
    names = short_names(keys)
    return {key: key if names[key] in (*FIRST_COLUMNS, *LAST_COLUMNS) else names[key] for key in keys}


def table_rows(
    repetitions: Sequence[Measured], keys: Sequence[str], metrics: Sequence[MetricFacts]
) -> Iterator[list[Cell]]:
    """A row per repetition and figure; `metric` is empty for figures to which the campaign gives no name.

    Values of keys are texts, as they are written in YAML; units are s, B, B/s, steps and 1, or those
    of the metric.
    """
    named = {metric.of: metric for metric in metrics}
    for each in repetitions:
        values = [value_text(each.trial.parameters[key]) if key in each.trial.parameters else "" for key in keys]
        head: list[Cell] = [each.trial.key, each.trial.is_baseline, *values, each.number, each.warmup]
        for text, value in each.figures.items():
            figure = to_figure_name(text)
            if figure is not None and figure.is_known:
                part = figure.section.removesuffix("s")
                metric = named.get(text)
                name, unit = ("", figure.figure.unit) if metric is None else (metric.name, metric.unit)
                yield [*head, name, part, figure.name, figure.field, value, unit]


def write_table(directory: Path, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[Path]:
    """Write table.csv and, where pyarrow is installed, table.parquet; returns what was written."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    written = [directory / "table.csv"]
    replace_file(written[0], text.getvalue().encode())
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        return written
    data = {column: [row[index] for row in rows] for index, column in enumerate(columns)}
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(data), sink)
    written.append(directory / "table.parquet")
    replace_file(written[1], sink.getvalue().to_pybytes())
    return written
