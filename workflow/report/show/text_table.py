"""A table is a list of columns: each has a title and a function that makes its cells.

The terminal and the HTML page draw the same tables. To add a column, add a line to the table's list of columns.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Generic, Literal, NamedTuple, TypeVar

from workflow.formatting import visible
from workflow.messages import text_width

Row = TypeVar("Row")
# Where a table is shown: report.html, `wf report`, `wf status`. Other tables are shown on the terminal only.
View = Literal["page", "terminal", "status"]
# Numbers are aligned to the right; states have colours; prose may be wrapped between its words, commands anywhere.
Content = Literal["text", "number", "state", "prose", "command"]
PAGE: tuple[View, ...] = ("page",)
TERMINAL: tuple[View, ...] = ("terminal",)
REPORT: tuple[View, ...] = ("page", "terminal")
EVERYWHERE: tuple[View, ...] = ("page", "terminal", "status")
# Styles of Rich, for states and for the parts of messages.
COLOURS = {
    "succeeded": "green", "failed": "bold red", "lost": "bold red", "interrupted": "yellow", "stopped": "yellow",
    "running": "cyan", "submitted": "cyan", "waiting": "dim", "ok": "green", "missing": "bold red",
    "error": "bold red", "warning": "bold yellow", "note": "cyan", "place": "bold", "margin": "dim",
    "met": "green", "violated": "bold red", "not measured": "bold red", "not checked": "dim",
}  # fmt: skip
# Empty columns of a terminal between two columns of a table.
GAP = 2
# Prose is read in lines of this width, on a narrow terminal down to the other one.
PROSE_WIDTH = 80
NARROWEST_PROSE = 24
# Names and other texts are wrapped only where nothing else helps.
NARROWEST_TEXT = 10


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column: its title, the text of a cell, what the cells hold, and where the column is shown.

    `gives_way`: in a terminal that is too narrow for all, the column with the smallest number is left out first; one
    with 0 stays.
    """

    title: str
    cell: Callable[[Row], str]
    content: Content
    views: tuple[View, ...]
    gives_way: int = 0


def text_column(
    title: str, cell: Callable[[Row], str], views: tuple[View, ...] = REPORT, gives_way: int = 0
) -> Column[Row]:
    """A column of text."""
    return Column(title, cell, "text", views, gives_way)


def number_column(
    title: str, cell: Callable[[Row], str], views: tuple[View, ...] = REPORT, gives_way: int = 0
) -> Column[Row]:
    """A column of numbers."""
    return Column(title, cell, "number", views, gives_way)


def state_column(
    title: str, cell: Callable[[Row], str], views: tuple[View, ...] = REPORT, gives_way: int = 0
) -> Column[Row]:
    """A column of states, e.g. `failed`: coloured."""
    return Column(title, cell, "state", views, gives_way)


def prose_column(
    title: str, cell: Callable[[Row], str], views: tuple[View, ...] = REPORT, gives_way: int = 0
) -> Column[Row]:
    """A column of sentences or lists, which may be wrapped."""
    return Column(title, cell, "prose", views, gives_way)


def command_column(title: str, cell: Callable[[Row], str]) -> Column[Row]:
    """A column of command lines, for the page."""
    return Column(title, cell, "command", PAGE)


class Heading(NamedTuple):
    """What stands above a column; `gives_way` as for the column."""

    title: str
    content: Content
    gives_way: int = 0


class LineBelow(NamedTuple):
    """A sentence below a table; `columns`: it is about these, and is left out together with any of them."""

    text: str
    columns: frozenset[str] = frozenset()


class Table(NamedTuple):
    """The text of a table; the first column holds names. `title`: where it needs one beside what it stands in."""

    head: list[Heading]
    rows: list[list[str]]
    title: str = ""
    below: Sequence[LineBelow] = ()


def make_table(
    columns: Sequence[Column[Row]],
    rows: Iterable[Row],
    view: View = "terminal",
    title: str = "",
    below: Iterable[str | LineBelow] = (),
) -> Table:
    """The table that these columns make of these rows in this view. A row is a line, whatever a text holds."""
    shown = [column for column in columns if view in column.views]
    head = [Heading(column.title, column.content, column.gives_way) for column in shown]
    lines = [LineBelow(line) if isinstance(line, str) else line for line in below]
    return Table(head, [[visible(column.cell(row)) for column in shown] for row in rows], title, lines)


def narrowed(table: Table, width: int) -> tuple[Table, list[str]]:
    """The table with as many of its columns as fit into `width`, and the titles of those that were left out.

    Columns that stay may be wider together: `column_widths` then narrows some.
    """
    least = _least_widths(table)
    kept = list(range(len(table.head)))
    while total_width([least[index] for index in kept]) > width:
        ready = [index for index in kept if table.head[index].gives_way]
        if not ready:
            break
        kept.remove(min(ready, key=lambda index: table.head[index].gives_way))
    left_out = [heading.title for index, heading in enumerate(table.head) if index not in kept]
    rows = [[row[index] for index in kept] for row in table.rows]
    below = [line for line in table.below if line.columns.isdisjoint(left_out)]
    return table._replace(head=[table.head[index] for index in kept], rows=rows, below=below), left_out


def column_widths(table: Table, width: int) -> list[int]:
    """The width of each column; together `width` at most.

    Prose gets what the others leave, and then the widest texts are narrowed. Numbers and states stay whole, unless
    there is no other way.
    """
    whole, found = _whole_widths(table), _least_widths(table)
    texts = [index for index, heading in enumerate(table.head) if heading.content in ("text", "prose")]
    for index in sorted(texts, key=lambda index: -whole[index]):
        if total_width(found) > width:
            found[index] = min(found[index], NARROWEST_TEXT)
    lacking = sorted((whole[index] - found[index], index) for index in range(len(found)) if whole[index] > found[index])
    spare = width - total_width(found)
    for place, (need, index) in enumerate(lacking):
        given = max(0, min(need, spare // (len(lacking) - place)))
        found[index] += given
        spare -= given
    while total_width(found) > max(width, total_width([1] * len(found))):
        found[found.index(max(found))] -= 1
    return found


def total_width(widths: Sequence[int]) -> int:
    """Of columns of these widths, with the gaps between them."""
    return sum(widths) + GAP * (len(widths) - 1)


def table_lines(table: Table, width: int | None) -> Iterator[list[tuple[str, str]]]:
    """The lines of a table, each in parts of (text, style).

    Args:
        width: columns of the terminal, in which cells are wrapped, and a line stands below the titles; None for a pipe,
            in which a row is a line.
    """
    widths = _whole_widths(table, None) if width is None else column_widths(table, width)
    yield from _row_lines(table.head, widths, [(each.title, "dim") for each in table.head])
    if width is not None:
        yield [("─" * total_width(widths), "")]
    yield from row_lines(table, widths)


def row_lines(table: Table, widths: Sequence[int]) -> Iterator[list[tuple[str, str]]]:
    """The same without titles, in columns of these widths."""
    for row in table.rows:
        styles = [_style(*each) for each in zip(table.head, row, strict=True)]
        yield from _row_lines(table.head, widths, list(zip(row, styles, strict=True)))


def _style(heading: Heading, cell: str) -> str:
    # `succeeded, violated`: the last word is the one to be seen.
    return COLOURS.get(cell.rpartition(", ")[2], "") if heading.content == "state" else ""


def _row_lines(
    head: Sequence[Heading], widths: Sequence[int], cells: Sequence[tuple[str, str]]
) -> Iterator[list[tuple[str, str]]]:
    """One line, unless a cell is wider than its column. No line has spaces at its end."""
    wrapped = [_wrapped(text, width) for (text, _), width in zip(cells, widths, strict=True)]
    for texts in zip_longest(*wrapped, fillvalue=""):
        last = max((index for index, text in enumerate(texts) if text), default=0)
        line = []
        for index, text in enumerate(texts[: last + 1]):
            space = " " * (widths[index] - text_width(text))
            gap = " " * GAP if index else ""
            before, after = (space, "") if head[index].content == "number" else ("", space if index < last else "")
            line += [(gap + before, ""), (text, cells[index][1]), (after, "")]
        yield [part for part in line if part[0]]


def _wrapped(cell: str, width: int) -> list[str]:
    """A cell in lines: between its words, and within those that are wider than the column."""
    if text_width(cell) <= width:
        return [cell]
    lines = textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False) or [""]
    return [line[begin : begin + width] for line in lines for begin in range(0, len(line), width)]


def _whole_widths(table: Table, prose: int | None = PROSE_WIDTH) -> list[int]:
    """The width at which no cell is wrapped; of prose at most `prose`."""
    widths = []
    for index, heading in enumerate(table.head):
        widest = max(map(text_width, [heading.title, *(row[index] for row in table.rows)]))
        widths.append(widest if prose is None or heading.content != "prose" else min(widest, prose))
    return widths


def _least_widths(table: Table) -> list[int]:
    """The narrowest widths: only prose is wrapped."""
    return _whole_widths(table, NARROWEST_PROSE)
