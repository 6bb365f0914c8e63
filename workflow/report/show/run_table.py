"""The table of `wf runs`. Pure."""

from __future__ import annotations

from workflow.formatting import NOTHING, duration, moment
from workflow.report.report_model import RunLine
from workflow.report.show.text_table import Column, Table, make_table, state_column, text_column

RUN_COLUMNS: list[Column[RunLine]] = [
    text_column("run", lambda run: run.name),
    state_column("state", lambda run: run.state),
    text_column("started", lambda run: moment(run.started)),
    text_column("duration", lambda run: duration(run.wall_s)),
    text_column("where", lambda run: ", ".join(each for each in (run.host, run.job) if each) or NOTHING),
    text_column("site", lambda run: run.site or NOTHING),
]


def run_table(runs: list[RunLine]) -> Table:
    """A line for each run."""
    return make_table(RUN_COLUMNS, runs)
