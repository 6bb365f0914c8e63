"""`wf report --junit`: the verdict of a run and each of its expectations as JUnit's test cases."""

from __future__ import annotations

from pathlib import Path

from workflow.campaign.junit import JUnitCase, to_junit
from workflow.errors import RunError
from workflow.replace_file import replace_file
from workflow.report.report_model import Report
from workflow.report.show.expectation_table import expectation_messages
from workflow.report.show.run_summary import fault_text


def write_run_junit(path: Path, report: Report) -> None:
    """Raises RunError when the file cannot be written."""
    run = report.run
    missed = {each.key: f"{each.place}: {each.message}" for each in expectation_messages(report)}
    over = run.state == "succeeded"
    cases = [JUnitCase(run.name, run.wall_s or 0.0, "" if over else f"{run.state}: {fault_text(report)}".rstrip(": "))]
    cases += [
        JUnitCase(
            f"{each.figure} {each.expected}",
            fault=missed.get(each.key, ""),
            skipped="" if over else f"not checked: the run is {run.state}",
        )
        for each in report.expectations
    ]
    try:
        replace_file(path, to_junit(run.name, cases))
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}", "name another file: `--junit FILE`") from error
