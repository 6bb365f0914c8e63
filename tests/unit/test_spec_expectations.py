"""Conditions of `expect:`: operators, quantities, units, and what overlays do to them."""

from __future__ import annotations

import pytest

from tests.support.planner import CHAIN, Planner
from workflow.conditions import COMPARATORS
from workflow.errors import SpecError
from workflow.plan.plan_model import ExpectationPlan, Plan
from workflow.report_figures import FIGURES, STAGE
from workflow.spec.written_conditions import condition_example, to_condition


@pytest.mark.parametrize(
    ("given", "unit", "condition"),
    [
        ("> 1 GB/s", "B/s", (">", 1e9, "> 1 GB/s")),
        (">1.5MiB/s", "B/s", (">", 1.5 * 2**20, "> 1.5 MiB/s")),
        (">= 1e9 B/s", "B/s", (">=", 1e9, ">= 1e9 B/s")),
        (41, "steps", ("==", 41, "== 41")),
        ("41 steps", "steps", ("==", 41, "== 41 steps")),
        ("== 0", "steps", ("==", 0, "== 0")),
        ("<= 1 step", "steps", ("<=", 1, "<= 1 step")),
        (" < 10 min ", "s", ("<", 600, "< 10 min")),
        ("< .5 s", "s", ("<", 0.5, "< .5 s")),
        ("> 60 %", "1", (">", 0.6, "> 60 %")),
        ("< 1.5", "ratio", ("<", 1.5, "< 1.5")),
        (">60%", "1", (">", 0.6, "> 60 %")),
        (">= 12.0", "steps", (">=", 12, ">= 12.0")),
        ("> 0 s", "s", (">", 0, "> 0 s")),
        ("2 GiB", "B", ("==", 2**31, "== 2 GiB")),
        ("> 5 steps/s", "steps/s", (">", 5, "> 5 steps/s")),
        ("< 1e-6", "", ("<", 1e-6, "< 1e-6")),
        (-1.5, "", ("==", -1.5, "== -1.5")),
    ],
)
def test_conditions(given: object, unit: str, condition: tuple[str, float, str]) -> None:
    comparator, value, text = to_condition(given, unit)
    assert (comparator, text) == (condition[0], condition[2])
    assert value == pytest.approx(condition[1], rel=1e-12)


@pytest.mark.parametrize("unit", ["s", "B", "B/s", "steps", "steps/s", "1", "ratio"])
@pytest.mark.parametrize(
    "given", ["", ">", "> fast", "> 1 furlong", "1 2", "=> 1", "> -1", "> 1e999", True, None, [1], {}, "> 0.5"]
)
def test_what_is_no_condition_is_refused_with_what_to_type(given: object, unit: str) -> None:
    with pytest.raises(ValueError, match=r".+; .+"):
        to_condition(given, unit)


@pytest.mark.parametrize(
    ("given", "unit", "hint"),
    [
        ("> 3.5", "steps", '"> 3"'), (">= 3.5 steps", "steps", '"> 3"'), ("< 3.5", "steps", '"<= 3"'),
        (3.5, "steps", "`3` or `4`"), ("> 0.6", "1", '"> 60 %"'),
        (0.125, "1", '">= 12.5 %"'), ("< 60", "1", '"< 60 %"'),
    ],
)  # fmt: skip
def test_the_hint_says_what_was_meant(given: object, unit: str, hint: str) -> None:
    with pytest.raises(ValueError, match="; did you mean ") as caught:
        to_condition(given, unit)
    assert hint in str(caught.value)


@pytest.mark.parametrize("section", FIGURES)
def test_the_example_of_each_figure_is_a_condition_on_it(section: str) -> None:
    for figure in FIGURES[section].values():
        assert to_condition(condition_example(figure), figure.unit).comparator in COMPARATORS


def test_each_operator_compares_as_it_reads() -> None:
    held = {sign: [compare(value, 2) for value in (1, 2, 3)] for sign, compare in COMPARATORS.items()}
    assert held == {
        "<": [True, False, False], "<=": [True, True, False], "==": [False, True, False],
        ">=": [False, True, True], ">": [False, False, True],
    }  # fmt: skip


PIPELINE = """
oversubscribe: true
stages:
  walk: {component: walker, expect: {compute_share: "> 60 %", figures: {residual: "< 1e-6"}}}
  count: {component: tally, with: {variable: position}}
  keep: {component: keep}
streams:
  positions:
    from: walk
    to: count
    expect: {steps: 41, throughput: "> 1 GB/s"}
  counts: {from: count, to: keep}
expect: {wall_s: "< 10 min"}
profiles:
  slow: {streams: {positions: {expect: {throughput: null, dropped: 0}}}}
"""


def of_figure(plan: Plan) -> dict[str, ExpectationPlan]:
    return {each.figure: each for each in plan.expectations}


def test_the_plan_has_each_expectation_with_its_place(plan_of: Planner) -> None:
    found = of_figure(plan_of(PIPELINE))
    assert {figure: (each.comparator, each.value, each.unit) for figure, each in found.items()} == {
        "run.wall_s": ("<", 600, "s"), "stages.walk.compute_share": (">", 0.6, "1"),
        "stages.walk.figures.residual": ("<", 1e-6, ""), "streams.positions.steps": ("==", 41, "steps"),
        "streams.positions.throughput": (">", 1e9, "B/s"),
    }  # fmt: skip
    lines = (plan_of.folder / "pipeline.yaml").read_text().splitlines()
    for each in found.values():
        assert each.source == str(plan_of.folder / "pipeline.yaml")
        assert lines[each.line - 1][each.column - 1 :].lstrip('"').startswith(each.expected.removeprefix("== ")), each
    assert found["stages.walk.figures.residual"].key == "stages.walk.expect.figures.residual"


def test_profiles_and_options_change_and_remove_expectations(plan_of: Planner) -> None:
    found = of_figure(plan_of(PIPELINE, profile="slow"))
    assert "streams.positions.throughput" not in found and found["streams.positions.dropped"].expected == "== 0"
    option = "streams.positions.expect.throughput=> 2 MB/s"
    found = of_figure(plan_of(PIPELINE, profile="slow", sets=(option, "stages.walk.expect.figures.residual=null")))
    assert "stages.walk.figures.residual" not in found
    each = found["streams.positions.throughput"]
    assert (each.value, each.source, each.line) == (2e6, f"--set {option}", 0)


def test_expectations_change_no_other_decision(plan_of: Planner) -> None:
    plan = plan_of(CHAIN)
    expecting = CHAIN.replace(
        "{from: walk, to: count}", '{from: walk, to: count, expect: {steps: 41, bytes: "> 1 MB"}}'
    )
    found = plan_of(expecting)
    assert len(found.expectations) == 2 and found.model_copy(update={"expectations": []}) == plan


def test_what_no_run_can_measure_is_refused(plan_of: Planner) -> None:
    text = 'stages: {solve: {command: ["true"], expect: {cpu_s: "< 1 s", io_s: "< 1 s"}}}\n'
    with pytest.raises(SpecError) as caught:
        plan_of(text)
    assert [each.key for each in caught.value.problems] == ["stages.solve.expect.io_s"]


def test_the_slowest_rank_is_compared_with_the_median_one_not_as_a_share() -> None:
    assert condition_example(STAGE["compute_imbalance"]) == "< 1.5"
    with pytest.raises(ValueError, match="expected a ratio, got a share: 60 %"):
        to_condition("> 60 %", STAGE["compute_imbalance"].unit)
