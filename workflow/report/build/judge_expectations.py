"""Whether a run met the expectations of its pipeline. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workflow.errors import EXIT_VIOLATED
from workflow.plan.plan_model import ExpectationPlan
from workflow.report.build.figure_values import figures_of
from workflow.report.report_model import ExpectationPart, ExpectationState, Report
from workflow.spec.expectations import COMPARATORS


def with_expectations(
    report: Report, expected: Sequence[ExpectationPlan], judged: Sequence[ExpectationPart] | None = None
) -> Report:
    """The report with what was expected beside what was measured, and the exit code that follows.

    `judged`: what was found when the run ended, where that was kept.
    """
    over = report.run.state == "succeeded"
    found = list(judged) if over and judged is not None else judge(expected, figures_of(report), over=over)
    changed: dict[str, object] = {"expectations": found}
    if violations(found):
        changed["run"] = report.run.model_copy(update={"exit_code": EXIT_VIOLATED})
    return report.model_copy(update=changed) if found else report


def judge(
    expected: Sequence[ExpectationPlan], figures: Mapping[str, float], *, over: bool = True
) -> list[ExpectationPart]:
    """Each expectation, beside the figure that was measured. `over`: whether the run has succeeded."""
    return [_judged(each, figures.get(each.figure), over) for each in expected]


def violations(judged: Sequence[ExpectationPart]) -> list[ExpectationPart]:
    """Those that were not kept."""
    return [each for each in judged if each.is_violated]


def _judged(each: ExpectationPlan, measured: float | None, over: bool) -> ExpectationPart:
    state: ExpectationState = "not_checked"
    if over and measured is None:
        state = "not_measured"
    elif over and measured is not None:
        state = "met" if COMPARATORS[each.comparator](measured, each.value) else "violated"
    place = f"{each.source}:{each.line}:{each.column}" if each.line else each.source
    return ExpectationPart(
        figure=each.figure, expected=each.expected, limit=each.value, unit=each.unit, measured=measured, state=state,
        key=each.key, place=place,
    )  # fmt: skip
