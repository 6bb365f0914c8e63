"""The report of a run in notebooks and scripts: with the place of the run, as HTML in a cell, and as pandas tables.

Only this module uses pandas, which it imports on first use.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr

from workflow.errors import WfError
from workflow.formatting import moment
from workflow.installation import install_command
from workflow.report.read.run_records import SUFFIX, read_records
from workflow.report.report_model import RankSpread, ReaderPart, Report, StagePart, StepTimes, StreamPart
from workflow.report.show.report_tables import tables_of_report
from workflow.report.show.run_in_words import compression_lines, fault_text, last_lines, summary
from workflow.run.records.find_runs import find_run

if TYPE_CHECKING:
    import pandas


class RunReport(Report):
    """A report together with its run directory, which is no part of report.json: runs may be moved."""

    _run_dir: Path = PrivateAttr()

    @classmethod
    def of(cls, report: Report, run_dir: Path) -> RunReport:
        """That report, of the run in that directory."""
        made = cls.model_construct(report.model_fields_set, **dict(report))
        made._run_dir = run_dir.absolute()
        return made

    @property
    def run_dir(self) -> Path:
        """The directory of the run, absolute: its data and its report.html are there."""
        return self._run_dir

    def __str__(self) -> str:
        """What `wf report` prints of it."""
        from workflow.report.show.printing import show_report
        from workflow.report.show.terminal import Output

        printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        show_report(self, Output(printed), self.run_dir)
        printed.seek(0)
        return printed.read().rstrip()

    def __repr__(self) -> str:
        """One line for the prompt of Python: all fields would be pages."""
        return f"<RunReport {self.run.name}: {self.run.verdict}, {self.run_dir}>"

    def _repr_html_(self) -> str:
        """What a notebook shows of it: the verdict, the tables of `wf report`, and a link to report.html."""
        return make_summary_html(self, self.run_dir)


def report_tables(report: Report) -> dict[str, pandas.DataFrame]:
    """`stages` (by stage), `streams` (by stream), `readers` (by stream and stage); columns as in the report, those of
    steps and ranks as `step_times_p95`.

    Raises:
        WfError: pandas is not installed.
    """
    frame = _pandas().DataFrame
    stages = [_cells(stage) for stage in report.stages]
    streams = [_cells(stream) for stream in report.streams]
    readers = [{"stream": each.name} | _cells(reader) for each in report.streams for reader in each.readers]
    return {
        "stages": frame(stages, columns=_columns(StagePart)).set_index("name"),
        "streams": frame(streams, columns=_columns(StreamPart)).set_index("name"),
        "readers": frame(readers, columns=["stream", *_columns(ReaderPart)]).set_index(["stream", "stage"]),
    }


def steps_table(run: str | os.PathLike[str] | None = None) -> pandas.DataFrame:
    """One row per step and end: stage, stream, side, step, t (Unix s), bytes, wait_s, io_s, device_s, compute_s, count.

    `t` is its end. The file of a sink has rows as a stream has, by its name. In a long run, later rows hold the sums
    over `count` steps; `step` is the last of them. A run is named by its path, by its name below `runs/`, or as
    `latest`, the default.

    Raises:
        RunError: there is no such run.
        WfError: pandas is not installed.
    """
    columns = ["stage", "stream", "side", "step", "t", "bytes", "wait_s", "io_s", "device_s", "compute_s", "count"]
    rows = [
        [stage, step.stream.removesuffix(SUFFIX), *(getattr(step, column) for column in columns[2:])]
        for stage, metrics in sorted(read_records(find_run(run)).metrics.items())
        for step in metrics.steps
    ]
    return _pandas().DataFrame(rows, columns=columns)


# Fields that have fields themselves; those that are tables of their own, or long texts.
_INNER: dict[str, type[StepTimes | RankSpread]] = {
    **dict.fromkeys(("step_times", "write_times", "load_times", "device_times"), StepTimes),
    **dict.fromkeys(("compute_ranks", "write_ranks", "load_ranks", "device_ranks"), RankSpread),
}
_WITHOUT = {"last_lines", "last_output", "notes", "readers", "parameters"}


def _columns(part: type[StagePart | StreamPart | ReaderPart]) -> list[str]:
    names = [name for name in part.model_fields if name not in _WITHOUT]
    return [column for name in names for column in _inner_columns(name) or [name]]


def _inner_columns(name: str) -> list[str]:
    return [f"{name}_{field}" for field in _INNER[name].model_fields] if name in _INNER else []


def _cells(part: StagePart | StreamPart | ReaderPart) -> dict[str, Any]:
    cells = part.model_dump(exclude=_WITHOUT)
    for name in _INNER.keys() & cells.keys():
        inner = cells.pop(name) or {}
        cells |= {f"{name}_{field}": value for field, value in inner.items()}
    return cells


def _pandas() -> Any:
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise WfError("tables need pandas", install_command("notebook")) from error
    return pandas


# Readable on white and on black. All other text keeps the colour of the notebook.
STATE_COLOURS = {
    "succeeded": "#2a9d4a", "failed": "#d9363e", "lost": "#d9363e", "interrupted": "#bf8700", "stopped": "#bf8700",
    "running": "#128a9e", "submitted": "#128a9e", "unfinished": "#128a9e",
    "met": "#2a9d4a", "violated": "#d9363e", "not measured": "#d9363e",
}  # fmt: skip


def make_summary_html(report: Report, run_dir: Path) -> str:
    """What `wf report` prints, as HTML without scripts and style sheets; a link to report.html where that exists.

    Its styles are attributes of the elements: notebooks that are not trusted, and pages made of notebooks, lose the
    others.
    """
    from workflow.report.html.page import SIGNS, TEMPLATES

    page = run_dir / "report.html"
    return TEMPLATES.get_template("notebook_summary.html.j2").render(
        run=report.run,
        sign=SIGNS[report.run.state],
        colours=STATE_COLOURS,
        started=moment(report.run.started),
        summary=summary(report),
        fault=fault_text(report),
        last_lines=[line for line, _ in last_lines(report)],
        tables=[table for table in tables_of_report(report, "terminal") if table.rows],
        small_lines=compression_lines(report),
        notes=[*report.unfinished_files, *report.notes],
        page=page if page.exists() else None,
        link=_link(page),
    )


def _link(page: Path) -> str:
    """Relative to the notebook's directory, which is where Jupyter serves files from; otherwise a file: address."""
    page, here = page.resolve(), Path.cwd().resolve()
    return page.relative_to(here).as_posix() if page.is_relative_to(here) else page.as_uri()
