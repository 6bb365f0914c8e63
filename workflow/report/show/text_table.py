"""A table is a list of columns: each has a title and a function that makes its cells.

The terminal and the HTML page draw the same tables. To add a column, add a line to the table's list of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from workflow.formatting import visible

Row = TypeVar("Row")
# Where a table is shown: report.html, `wf report`, `wf status`. Other tables are shown on the terminal only.
View = Literal["page", "terminal", "status"]
# Numbers are aligned to the right; states have colours; prose may be wrapped between its words, commands anywhere.
Content = Literal["text", "number", "state", "prose", "command"]
PAGE: tuple[View, ...] = ("page",)
TERMINAL: tuple[View, ...] = ("terminal",)
REPORT: tuple[View, ...] = ("page", "terminal")
EVERYWHERE: tuple[View, ...] = ("page", "terminal", "status")
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


class Table(NamedTuple):
    """The text of a table; the first column holds names."""

    head: list[Heading]
    rows: list[list[str]]


def make_table(columns: Sequence[Column[Row]], rows: Iterable[Row], view: View = "terminal") -> Table:
    """The table that these columns make of these rows in this view. A row is a line, whatever a text holds."""
    shown = [column for column in columns if view in column.views]
    head = [Heading(column.title, column.content, column.gives_way) for column in shown]
    return Table(head, [[visible(column.cell(row)) for column in shown] for row in rows])


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
    return Table([table.head[index] for index in kept], rows), left_out


def column_widths(table: Table, width: int) -> list[int]:
    """The width of each column; together `width` at most, where that is possible.

    Prose gets what the others leave, and then the widest texts are narrowed. Numbers and states stay whole.
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
    return found


def total_width(widths: Sequence[int]) -> int:
    """Of columns of these widths, with the gaps between them."""
    return sum(widths) + GAP * (len(widths) - 1)


def _whole_widths(table: Table) -> list[int]:
    """The width at which no cell is wrapped, of prose that in which it is read."""
    widths = []
    for index, heading in enumerate(table.head):
        widest = max([len(heading.title), *(len(row[index]) for row in table.rows)])
        widths.append(min(widest, PROSE_WIDTH) if heading.content == "prose" else widest)
    return widths


def _least_widths(table: Table) -> list[int]:
    """The same, of prose less."""
    return [
        min(width, NARROWEST_PROSE) if heading.content == "prose" else width
        for width, heading in zip(_whole_widths(table), table.head, strict=True)
    ]
