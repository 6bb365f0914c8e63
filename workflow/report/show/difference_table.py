"""The columns of the table of `wf compare`. Pure."""

from __future__ import annotations

from typing import NamedTuple

from workflow.compare.comparison import Comparison, Difference
from workflow.formatting import NOTHING
from workflow.report.show.text_table import Column, Table, make_table, number_column, prose_column, text_column


class DifferenceRow(NamedTuple):
    """A difference, and the path of its file."""

    path: str
    found: Difference


def step_text(found: Difference) -> str:
    """`3 (+1)`: the first step that differs, and how many more do."""
    return NOTHING if found.step is None else str(found.step) + (f" (+{found.steps - 1})" if found.steps > 1 else "")


def amount_text(amount: float | None) -> str:
    """Three digits, or `-`."""
    return NOTHING if amount is None else f"{amount:.3g}"


MEANING = (
    "step: the first one that differs (+ how many more do); values: how many differ in these steps; largest: the "
    "largest |A - B|; relative: the largest |A - B| ÷ max(|A|, |B|); at: the index of the largest in the first step"
)
DIFFERENCE_COLUMNS: list[Column[DifferenceRow]] = [
    text_column("file", lambda row: row.path),
    text_column("variable", lambda row: row.found.name or NOTHING),
    number_column("step", lambda row: step_text(row.found)),
    text_column("what", lambda row: row.found.what),
    prose_column("A and B", lambda row: row.found.message),
    text_column(
        "at", lambda row: f"[{', '.join(map(str, row.found.where))}]" if row.found.where else NOTHING, gives_way=1
    ),
    number_column(
        "values", lambda row: f"{row.found.values} of {row.found.of}" if row.found.of else NOTHING, gives_way=2
    ),
    number_column("largest", lambda row: amount_text(row.found.max_abs), gives_way=3),
    number_column("relative", lambda row: amount_text(row.found.max_rel), gives_way=4),
]


def difference_table(comparison: Comparison) -> Table:
    """Every difference that was found."""
    rows = [DifferenceRow(file.path, found) for file in comparison.files for found in file.differences]
    return make_table(DIFFERENCE_COLUMNS, rows)
