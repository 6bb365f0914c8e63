"""The report as the output of a notebook's cell: what `wf report` prints, as HTML without scripts and style sheets.

Its styles are attributes of the elements: notebooks that are not trusted, and pages made of notebooks, lose the others.
"""

from __future__ import annotations

from pathlib import Path

from workflow.formatting import moment
from workflow.report.html.page import SIGNS, TEMPLATES
from workflow.report.report_model import Report
from workflow.report.show.expectation_table import expectation_table
from workflow.report.show.run_summary import compression_lines, fault_text, last_lines, limit_lines, summary
from workflow.report.show.stage_table import stage_table
from workflow.report.show.stream_table import stream_table
from workflow.run.state.stream_rates import THROUGHPUT

# Readable on white and on black. All other text keeps the colour of the notebook.
STATE_COLOURS = {
    "succeeded": "#2a9d4a", "failed": "#d9363e", "lost": "#d9363e", "interrupted": "#bf8700", "stopped": "#bf8700",
    "running": "#128a9e", "submitted": "#128a9e", "unfinished": "#128a9e",
    "met": "#2a9d4a", "violated": "#d9363e", "not measured": "#d9363e",
}  # fmt: skip


def make_summary_html(report: Report, run_dir: Path) -> str:
    """The verdict, its reason, the stages and the streams; a link to report.html where that exists."""
    page = run_dir / "report.html"
    made = [make(report, "terminal") for make in (stage_table, stream_table, expectation_table)]
    tables = [table for table in made if table.rows]
    measured = any(stream.throughput for stream in report.streams)
    return TEMPLATES.get_template("notebook_summary.html.j2").render(
        run=report.run,
        sign=SIGNS[report.run.state],
        colours=STATE_COLOURS,
        started=moment(report.run.started),
        summary=summary(report),
        fault=fault_text(report),
        last_lines=[line for line, _ in last_lines(report)],
        tables=tables,
        small_lines=[*([THROUGHPUT] if measured else []), *limit_lines(report), *compression_lines(report)],
        notes=[*report.unfinished_files, *report.notes],
        page=page if page.exists() else None,
        link=_link(page),
    )


def _link(page: Path) -> str:
    """Relative to the notebook's directory, which is where Jupyter serves files from; otherwise a file: address."""
    page, here = page.resolve(), Path.cwd().resolve()
    return page.relative_to(here).as_posix() if page.is_relative_to(here) else page.as_uri()
