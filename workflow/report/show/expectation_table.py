"""The expectations of a pipeline as a table, and those that its run did not meet, as messages. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workflow.errors import Problem
from workflow.formatting import NOTHING, duration, percent, plural, rate, size, three_figures
from workflow.report.show.text_table import EVERYWHERE, Column, Table, View, make_table, state_column, text_column

if TYPE_CHECKING:
    from workflow.plan.plan_model import ExpectationPlan, Plan
    from workflow.report.report_model import ExpectationPart, Report

_TEXTS: dict[str, Callable[[float], str]] = {
    "s": duration, "B": size, "B/s": rate, "1": percent,
    "steps": lambda value: f"{value:.0f}",
    "steps/s": lambda value: f"{three_figures(value)} steps/s",
}  # fmt: skip
# Nearer to its limit than this share, a figure that misses it is shown with more digits.
_NEAR = 0.01
_EXACT: dict[str, Callable[[float], str]] = {
    "s": lambda value: f"{value:.6g} s", "B": lambda value: f"{value:.0f} B", "B/s": lambda value: f"{value:.9g} B/s",
    "1": lambda value: f"{value * 100:.6g} %", "steps/s": lambda value: f"{value:.6g} steps/s",
}  # fmt: skip


def measured_text(each: ExpectationPart) -> str:
    """`312 MB/s`; nothing where it was not measured."""
    if each.measured is None:
        return NOTHING
    return figure_text(each.measured, each.unit, each.limit if each.state == "violated" else None)


def figure_text(value: float, unit: str, limit: float | None) -> str:
    """`312 MB/s`; of one that misses a limit by little `59.98 %`, where rounding would show the limit itself."""
    texts = _EXACT if limit is not None and abs(value - limit) <= _NEAR * abs(limit) else _TEXTS
    return texts[unit](value) if unit in texts else f"{value:.6g}"


def state_text(each: ExpectationPart) -> str:
    """`met`, `not measured`."""
    return each.state.replace("_", " ")


PLANNED_COLUMNS: list[Column[ExpectationPlan]] = [
    text_column("expected of", lambda each: each.figure),
    text_column("condition", lambda each: each.expected),
    text_column("written at", lambda each: place_text(each), gives_way=1),
]
EXPECTATION_COLUMNS: list[Column[ExpectationPart]] = [
    text_column("expected of", lambda each: each.figure, EVERYWHERE),
    text_column("condition", lambda each: each.expected, EVERYWHERE),
    text_column("measured", measured_text, EVERYWHERE),
    state_column("state", state_text, EVERYWHERE),
    text_column("written at", lambda each: each.place, EVERYWHERE, gives_way=1),
]


def place_text(each: ExpectationPlan) -> str:
    """`pipeline.yaml:14:9`, or the option."""
    return f"{each.source}:{each.line}:{each.column}" if each.line else each.source


def planned_expectation_table(plan: Plan) -> Table:
    """What a run of the plan will be compared with."""
    return make_table(PLANNED_COLUMNS, plan.expectations)


def expectation_table(report: Report, view: View) -> Table:
    """What was expected, and what the run measured."""
    return make_table(EXPECTATION_COLUMNS, report.expectations, view)


def expectations_text(report: Report) -> str:
    """`3 expectations met`, `1 of 3 expectations not met`; empty where there are none, or none were checked."""
    checked = [each for each in report.expectations if each.state != "not_checked"]
    missed = sum(each.state != "met" for each in checked)
    count = plural(len(checked), "expectation")
    return "" if not checked else f"{missed} of {count} not met" if missed else f"{count} met"


def expectation_messages(report: Report) -> list[Problem]:
    """An error for each expectation that was not met: key and place, what was expected, what was measured."""
    return [_message(each, report) for each in report.expectations if each.is_violated]


def _message(each: ExpectationPart, report: Report) -> Problem:
    if each.state == "not_measured":
        text = f"expected {each.expected}, but the run did not measure it"
        return Problem(each.place, 0, 0, each.key, text, _why_unknown(each, report))
    return Problem(each.place, 0, 0, each.key, f"expected {each.expected}, measured {measured_text(each)}", "")


def _why_unknown(each: ExpectationPart, report: Report) -> str:
    """What to look at where a figure is missing."""
    section, _, rest = each.figure.partition(".")
    stage = rest.partition(".")[0]
    if section == "stages" and ".figures." in each.figure:
        known = next((sorted(one.figures) for one in report.stages if one.name == stage), [])
        if not known:
            return f"{stage} wrote no figures.json"
        return f"figures of {stage}: {', '.join(known)}"
    return "the notes of `wf report` say what was not recorded"
