"""Tables of several runs: `wf runs`, `wf clean`, and the differences that `wf compare` found. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from workflow.formatting import NOTHING, duration, moment, part_text, plural, size
from workflow.report.show.text_table import (
    Column,
    Table,
    make_table,
    number_column,
    prose_column,
    state_column,
    text_column,
)
from workflow.spec.suggest import shortened

if TYPE_CHECKING:
    from workflow.compare.comparison import Comparison, Difference
    from workflow.report.report_model import RunLine

# `wf note RUN` shows the whole.
LONGEST_NOTE = 40

RUN_COLUMNS: list[Column[RunLine]] = [
    text_column("run", lambda run: run.name),
    state_column("state", lambda run: state_text(run)),
    text_column("started", lambda run: moment(run.started), gives_way=3),
    text_column("duration", lambda run: duration(run.wall_s)),
    text_column("where", lambda run: ", ".join(each for each in (run.host, run.job) if each) or NOTHING, gives_way=2),
    text_column("site", lambda run: run.site or NOTHING, gives_way=1),
]

REMOVAL_COLUMNS: list[Column[tuple[RunLine, int]]] = [
    text_column("run", lambda run: run[0].name),
    state_column("state", lambda run: state_text(run[0])),
    text_column("started", lambda run: moment(run[0].started)),
    number_column("on disk", lambda run: size(run[1])),
]


def state_text(run: RunLine) -> str:
    """`succeeded, 5 of 6 members, violated`: what failed in it, and that it did not keep what the pipeline expects."""
    return ", ".join(filter(None, (run.state, run.lacks, "violated" if run.violated else "")))


def run_table(runs: list[RunLine]) -> Table:
    """A line for each run; tags, notes and earlier parts have a column where a run has any."""
    columns = list(RUN_COLUMNS)
    if any(run.tags for run in runs):
        columns.append(text_column("tags", lambda run: " ".join(run.tags)))
    if any(run.note for run in runs):
        columns.append(text_column("newest note", lambda run: shortened(run.note, LONGEST_NOTE), gives_way=4))
    if any(part_text(run.part, run.parts) for run in runs):
        columns.append(
            text_column("part", lambda run: part_text(run.part, run.parts).removeprefix("part "), gives_way=6)
        )
    if any(run.goes_on_with for run in runs):
        columns.append(text_column("goes on with", lambda run: run.goes_on_with, gives_way=5))
    names = {run.name for run in runs}
    if any(run.next_part and run.next_part not in names for run in runs):
        columns.append(text_column("next part", lambda run: run.next_part, gives_way=7))
    if any(run.reused_from for run in runs):
        columns.append(text_column("re-used from", lambda run: run.reused_from, gives_way=8))
    if any(run.restarts or run.skipped for run in runs):
        columns.append(text_column("started again", restarts_text, gives_way=9))
    return make_table(columns, runs)


def restarts_text(run: RunLine) -> str:
    """`pdf 3 times, without 1 step`: which stages were started again, and how many steps they have skipped."""
    texts = []
    for name in dict.fromkeys([*run.restarts, *run.skipped]):
        times = plural(run.restarts[name], "time") if run.restarts.get(name, 0) > 1 else ""
        skipped = f", without {plural(len(run.skipped[name]), 'step')}" if name in run.skipped else ""
        texts.append(f"{name} {times}".strip() + skipped)
    return "; ".join(texts)


def removal_table(runs: Sequence[tuple[RunLine, int]]) -> Table:
    """A line for each run to be removed, with its bytes on disk."""
    return make_table(REMOVAL_COLUMNS, runs)


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
    return make_table(DIFFERENCE_COLUMNS, rows, below=[MEANING])
