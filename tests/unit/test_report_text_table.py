"""Tables in narrow terminals: which columns give way, and what is wrapped."""

from __future__ import annotations

import pytest

from workflow.report.show import printing
from workflow.report.show.text_table import (
    Heading,
    Table,
    column_widths,
    make_table,
    narrowed,
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


def test_prose_is_wrapped_in_a_pipe_too(capsys: pytest.CaptureFixture[str]) -> None:
    reason = "a reason of many words; " * 10
    printing.show_table(Table(HEAD, [["md", reason, "3 B", "kept"]]))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and "kept" in lines[2]
    begin, end = lines[1].index("because"), lines[1].index("data")
    assert end - begin <= 80 + 2 and " ".join(line[begin:end].strip() for line in lines[2:]) == reason.strip()
