"""The tables of a campaign as LaTeX: the same cells as on the terminal, and nothing that LaTeX takes for a command."""

from __future__ import annotations

import re

import pytest

from tests.support.measured_campaign import history_of, schedule_of, spec_of
from workflow.campaign.results.campaign_tables import (
    comparison_table,
    latex_table,
    latex_tables,
    latex_text,
    metric_table,
)
from workflow.campaign.results.make_results import make_results
from workflow.campaign.results.picture_canvas import axis_unit
from workflow.report.show.text_table import Heading, Table

ROW = re.compile(r"^(.*) \\\\$", re.MULTILINE)


def unescaped(cell: str) -> str:
    """As the reader of the paper sees it: the inverse for the characters of these tables."""
    for latex, seen in ((r"\ldots{}", "…"), ("--", "–"), (r"\textless{}", "<"), (r"\_", "_"), (r"\%", "%")):
        cell = cell.replace(latex, seen)
    return cell


def test_the_cells_are_those_of_the_terminal() -> None:
    results = make_results(spec_of(), schedule_of(), history_of())
    text = latex_tables(results, lambda _unit, _largest: (1.0, ""))
    tables = [*(metric_table(results, each) for each in results.metrics), comparison_table(results)]
    shown = [[heading.title for heading in table.head] for table in tables]
    found = text.split(r"\begin{table}")[1:]
    assert len(found) == len(tables)
    for part, table, titles in zip(found, tables, shown, strict=True):
        cells = [[unescaped(cell) for cell in row.split(" & ")] for row in ROW.findall(part)]
        assert cells == [titles, *table.rows]
        assert len(re.findall(r"\\begin\{tabular\}\{([lr]+)\}", part)[0]) == len(titles)
    assert text.count(r"\begin{") == text.count(r"\end{")


def test_a_table_has_one_unit_and_the_name_of_its_campaign() -> None:
    """The trials of each engine differ by a factor of 1000: `9.9 ms` and `9.9 s` on the terminal."""
    spec = spec_of(campaign="engines")
    results = make_results(spec, schedule_of(), history_of())
    small = [
        each.model_copy(update={"median": each.median and each.median / 1000, "low": None, "high": None})
        if each.parameters["streams.d.via"] == "bp5"
        else each
        for each in results.results
    ]
    results = results.model_copy(update={"results": small, "load": 7.0, "cores": 2})
    text = latex_tables(results, axis_unit)
    assert r"\label{tab:engines-time}" in text and r"\label{tab:engines-comparisons}" in text
    assert text.count("the machine was busy: a median load of 7.0 on 2 cores") == 2
    assert r"\caption{time in s (run.wall\_s, less is better)" in text
    medians = [row.split(" & ")[3] for row in ROW.findall(text.split(r"\end{table}")[0])]
    assert medians == ["median", "10.0", "6.03", "0.0201", "0.00613"]
    assert "busy" not in latex_tables(results.model_copy(update={"load": 0.1}), axis_unit)


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("50 % of a_b & {c}", r"50 \% of a\_b \& \{c\}"),
        ("1.2 … 1.4 µs", r"1.2 \ldots{} 1.4 $\mu$s"),
        ("[1, 128]", r"{[}1, 128]"),
        ("<0.001", r"\textless{}0.001"),
        ("C:\\x ~ ^2 $ #", r"C:\textbackslash{}x \textasciitilde{} \textasciicircum{}2 \$ \#"),
    ],
)
def test_what_latex_takes_for_commands_is_escaped(text: str, latex: str) -> None:
    assert latex_text(text) == latex


def test_numbers_are_aligned_to_the_right() -> None:
    table = Table([Heading("via", "text"), Heading("median", "number")], [["sst", "1.2 s"]])
    assert r"\begin{tabular}{lr}" + "\n\\toprule\nvia & median \\\\\n\\midrule\nsst & 1.2 s \\\\\n" in latex_table(
        table, "c", "l"
    )
