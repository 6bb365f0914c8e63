"""A table is a list of columns: each has a title and a function that makes its cells.

The terminal and the HTML page draw the same tables. To add a column, add a line to the table's list of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

Row = TypeVar("Row")
# Where a table is shown: report.html, `wf report`, `wf status`. Other tables are shown on the terminal only.
View = Literal["page", "terminal", "status"]
# Numbers are aligned to the right; states have colours.
Content = Literal["text", "number", "state"]
PAGE: tuple[View, ...] = ("page",)
TERMINAL: tuple[View, ...] = ("terminal",)
REPORT: tuple[View, ...] = ("page", "terminal")
EVERYWHERE: tuple[View, ...] = ("page", "terminal", "status")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column: its title, the text of a cell, what the cells hold, and where the column is shown."""

    title: str
    cell: Callable[[Row], str]
    content: Content
    views: tuple[View, ...]


def text_column(title: str, cell: Callable[[Row], str], views: tuple[View, ...] = REPORT) -> Column[Row]:
    """A column of text."""
    return Column(title, cell, "text", views)


def number_column(title: str, cell: Callable[[Row], str], views: tuple[View, ...] = REPORT) -> Column[Row]:
    """A column of numbers."""
    return Column(title, cell, "number", views)


def state_column(title: str, cell: Callable[[Row], str], views: tuple[View, ...] = REPORT) -> Column[Row]:
    """A column of states, e.g. `failed`: coloured."""
    return Column(title, cell, "state", views)


class Heading(NamedTuple):
    """What stands above a column."""

    title: str
    content: Content


class Table(NamedTuple):
    """The text of a table; the first column holds names."""

    head: list[Heading]
    rows: list[list[str]]


def make_table(columns: Sequence[Column[Row]], rows: Iterable[Row], view: View = "terminal") -> Table:
    """The table that these columns make of these rows in this view."""
    shown = [column for column in columns if view in column.views]
    head = [Heading(column.title, column.content) for column in shown]
    return Table(head, [[column.cell(row) for column in shown] for row in rows])
