"""Tables in narrow terminals: which columns give way, and what is wrapped."""

from __future__ import annotations

import pytest

from workflow.report.show.terminal import make_output
from workflow.report.show.text_table import (
    Column,
    Heading,
    LineBelow,
    Table,
    column_widths,
    make_table,
    narrowed,
    table_lines,
    text_column,
    total_width,
)

ROWS = [["md", "a sentence that is long enough to be wrapped", "1.25 MB", "kept"], ["saxs", "short", "3 B", "violated"]]
HEAD = [
    Heading("name", "text"),
    Heading("because", "prose"),
    Heading("data", "number", 1),
    Heading("state", "state", 2),
]


def test_a_row_is_a_line_whatever_a_text_holds() -> None:
    """A value with a new line, a bell, or half of a name with another one."""
    table = make_table([text_column("value", lambda row: row)], ["a\nb", "\x07\t", "µ, 1\u00a0s"])
    assert table.rows == [[r"a\nb"], [r"\x07\t"], ["µ, 1\u00a0s"]]


@pytest.mark.parametrize(
    ("width", "left_out"), [(80, []), (49, []), (48, ["data"]), (39, ["data", "state"]), (10, ["data", "state"])]
)
def test_columns_give_way_in_their_order(width: int, left_out: list[str]) -> None:
    table, gone = narrowed(Table(HEAD, ROWS), width)
    assert gone == left_out
    assert [heading.title for heading in table.head] == [each.title for each in HEAD if each.title not in left_out]
    assert all(len(row) == len(table.head) for row in table.rows)


@pytest.mark.parametrize("width", [24, 30, 48, 80, 200])
def test_prose_is_narrowed_first_and_numbers_never(width: int) -> None:
    table, _ = narrowed(Table(HEAD, ROWS), width)
    widths = dict(zip((heading.title for heading in table.head), column_widths(table, width), strict=True))
    assert total_width(list(widths.values())) <= width
    assert widths["name"] == 4 and widths.get("data", 7) == 7 and widths.get("state", 8) == 8
    assert widths["because"] == min(44, width - sum(w + 2 for name, w in widths.items() if name != "because"))


def drawn(table: Table, width: int | None) -> list[str]:
    lines = ["".join(text for text, _ in line) for line in table_lines(table, width)]
    assert all(line == line.rstrip() for line in lines)
    return lines


def test_a_row_is_a_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """For grep, however long a cell is."""
    reason = "a reason of many words; " * 10
    make_output().draw(Table(HEAD, [["md", reason.strip(), "3 B", "kept"]]))
    empty, titles, row = capsys.readouterr().out.splitlines()
    assert (empty, titles.split()) == ("", ["name", "because", "data", "state"])
    assert row == f"md    {reason.strip()}   3 B  kept"
    assert titles.index("state") == row.index("kept")


@pytest.mark.parametrize("width", [20, 40, 60, 200])
def test_a_terminal_has_a_line_below_the_titles_and_wraps_within_columns(width: int) -> None:
    table, _ = narrowed(Table(HEAD, ROWS), width)
    titles, rule, *rows = drawn(table, width)
    assert set(rule) == {"─"} and max(map(len, (titles, *rows))) <= len(rule) <= width
    begin = titles.index("because") if "because" in titles else 6
    assert " ".join(" ".join(rows).split()).startswith("md a") and rows[0][begin] == "a"
    assert all(row[:begin].strip() in ("md", "saxs", "") for row in rows)


def test_a_terminal_that_is_too_narrow_for_all_wraps_words_and_numbers() -> None:
    table = Table([Heading("name", "text"), Heading("data", "number")], [["a-long-name-of-a-stage", "123456789012"]])
    lines = drawn(table, 12)
    assert max(map(len, lines)) <= 12
    assert sum(len(line.replace(" ", "")) for line in lines[2:]) == 34, "nothing is cut off"


def test_wide_characters_take_two_columns() -> None:
    table = Table([Heading("name", "text"), Heading("n", "number")], [["日本", "1"], ["abcd", "10"]])
    assert drawn(table, None) == ["name   n", "日本   1", "abcd  10"]


def test_what_stands_above_and_below_a_table_goes_with_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    columns: list[Column[str]] = [
        text_column("run", lambda row: f"run-{row}"), text_column("long", lambda _: "x" * 40, gives_way=1)
    ]  # fmt: skip
    below: list[str | LineBelow] = ["what a run is", LineBelow("what is long", frozenset({"long"}))]
    table = make_table(columns, "ab", title="runs", below=below)
    make_output().draw(table)
    make_output().draw(make_table(columns, "", title="runs", below=below))
    said = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in said] == [
        "", "runs", "", "run", "run-a", "run-b", "what a run is", "what is long"
    ]  # fmt: skip
    narrow, _ = narrowed(table, 20)
    assert [line.text for line in narrow.below] == ["what a run is"]


def test_a_state_has_its_colour() -> None:
    table = Table([Heading("state", "state")], [["succeeded, violated"], ["5 running, 2 failed"], ["failed"]])
    assert [line[0][1] for line in table_lines(table, None)] == ["dim", "bold red", "", "bold red"]
