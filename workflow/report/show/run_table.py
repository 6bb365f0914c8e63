"""The tables of `wf runs` and `wf clean`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from workflow.formatting import NOTHING, duration, moment, size
from workflow.report.read.removable_runs import FoundRun
from workflow.report.report_model import RunLine
from workflow.report.show.text_table import Column, Table, make_table, number_column, state_column, text_column
from workflow.spec.suggest import shortened

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

REMOVAL_COLUMNS: list[Column[FoundRun]] = [
    text_column("run", lambda run: run.line.name),
    state_column("state", lambda run: state_text(run.line)),
    text_column("ended", lambda run: moment(run.ended)),
    number_column("on disk", lambda run: size(run.size)),
]


def state_text(run: RunLine) -> str:
    """`succeeded, violated`: the programs did their work, and the report did not show what the pipeline expects."""
    return f"{run.state}, violated" if run.violated else run.state


def run_table(runs: list[RunLine]) -> Table:
    """A line for each run; tags, notes and earlier parts have a column where a run has any."""
    columns = list(RUN_COLUMNS)
    if any(run.tags for run in runs):
        columns.append(text_column("tags", lambda run: " ".join(run.tags)))
    if any(run.note for run in runs):
        columns.append(text_column("newest note", lambda run: shortened(run.note, LONGEST_NOTE), gives_way=4))
    if any(run.goes_on_with for run in runs):
        columns.append(text_column("goes on with", lambda run: run.goes_on_with, gives_way=5))
    return make_table(columns, runs)


def removal_table(runs: Sequence[FoundRun]) -> Table:
    """A line for each run to be removed, with what it holds on disk."""
    return make_table(REMOVAL_COLUMNS, runs)
