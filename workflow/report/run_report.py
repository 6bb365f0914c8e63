"""The report of a run as notebooks and scripts get it: with the place of the run, and as a notebook shows it."""

from __future__ import annotations

import io
from pathlib import Path

from pydantic import PrivateAttr

from workflow.report.report_model import Report


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
        from workflow.report.show.plain_output import PlainOutput
        from workflow.report.show.printing import show_report

        printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        show_report(self, PlainOutput(printed))
        printed.seek(0)
        return printed.read().rstrip()

    def __repr__(self) -> str:
        """One line for the prompt of Python: all fields would be pages."""
        return f"<RunReport {self.run.name}: {self.run.state}, {self.run_dir}>"

    def _repr_html_(self) -> str:
        """What a notebook shows of it: the verdict, the tables of `wf report`, and a link to report.html."""
        from workflow.report.html.notebook_summary import make_summary_html

        return make_summary_html(self, self.run_dir)
