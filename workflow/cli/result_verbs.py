"""The verbs about what a run has done: what its stages printed, its report, and whether two runs hold the same data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workflow.cli.completion import complete_run
from workflow.cli.options import json_option, run_argument, to_share, wide_option
from workflow.errors import RunError

if TYPE_CHECKING:
    from workflow.report.report_model import Report

# `wf report --junit`: the verdict of a run and each of its expectations as JUnit's test cases.


def write_run_junit(path: Path, report: Report) -> None:
    """Raises RunError when the file cannot be written."""
    from workflow.campaign.junit import JUnitCase, to_junit
    from workflow.replace_file import replace_file
    from workflow.report.show.report_tables import expectation_messages
    from workflow.report.show.run_in_words import fault_text

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


@click.command()
@click.argument("stage", required=False)
@click.option(
    "--run",
    "--run-dir",
    "-r",
    "run",
    metavar="RUN",
    type=click.Path(path_type=Path),
    shell_complete=complete_run,
    is_eager=True,
    help="The name of a run below runs/ (its beginning or its id is enough), a path, or `latest` "
    "(default: the newest run)",
)
@click.option(
    "--lines",
    "-n",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="How many of the last lines of each file",
)
@click.option("--follow", "-f", is_flag=True, help="Print new lines until the run ends")
@click.option("--raw", is_flag=True, help="Show the lines of SST's log and those caused by Ctrl-C, too")
def logs(stage: str | None, run: Path | None, lines: int, follow: bool, raw: bool) -> None:
    """Show what the stages of a run printed.

    STAGE is the name of a stage (default: all stages).
    """
    from workflow.report.read.stage_logs import follow_logs, last_logs
    from workflow.run.records.find_runs import find_run

    directory = find_run(run)
    show = follow_logs if follow else last_logs
    for line in show(directory, stage, lines, raw):
        click.echo(line)


@click.command()
@run_argument
@json_option("Print the report as JSON")
@wide_option
@click.option(
    "--junit",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the verdict and each expectation as test cases: JUnit's XML",
)
def report(run: Path | None, as_json: bool, wide: bool, junit: Path | None) -> None:
    """Show what a run did; write report.html and report.json.

    RUN is the name of a run below runs/ (its beginning or its id is enough), a path, or `latest` (default: the newest
    run).
    """
    from workflow.report.report_files import write_report
    from workflow.run.records.find_runs import find_run

    directory = find_run(run)
    result = write_report(directory)
    if junit is not None:
        write_run_junit(junit, result)
    if as_json:
        click.echo(result.to_json(), nl=False)
        return
    from workflow.report.show.printing import show_report
    from workflow.report.show.terminal import make_output

    show_report(result, make_output(wide=wide), directory)
    if (directory / "report.html").exists():
        click.echo(directory / "report.html")


@click.command()
@click.argument("run_a", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.argument("run_b", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.option(
    "--tolerance",
    default="0",
    show_default=True,
    callback=to_share,
    metavar="SHARE",
    help="Largest relative difference of equal values: 1e-6, 5%",
)
@json_option("Print the comparison as JSON")
@wide_option
def compare(run_a: Path, run_b: Path, tolerance: float, as_json: bool, wide: bool) -> None:
    """Compare the data of two runs or of two files.

    RUN_A and RUN_B are two runs (each the name below runs/, or its beginning or its id, a path, or `latest`), or two BP
    or HDF5 files. Exits with 0 when the data are equal, 1 when they differ, 2 when there is
    nothing to compare.
    """
    from workflow.compare.compare_runs import compare_runs

    result = compare_runs(run_a, run_b, tolerance)
    if as_json:
        click.echo(result.model_dump_json(indent=2))
    else:
        from workflow.report.show.printing import show_comparison
        from workflow.report.show.terminal import make_output

        show_comparison(result, make_output(wide=wide))
    sys.exit(result.exit_code)
