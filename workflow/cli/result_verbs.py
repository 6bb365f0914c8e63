"""The verbs about what runs have left: logs, report, comparison, pages, archives; and their removal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from workflow.cli.completion import complete_run, complete_stage
from workflow.cli.options import json_option, read_size, run_argument, wide_option
from workflow.errors import EXIT_OK, EXIT_RUN_FAILED, RunError, to_message

if TYPE_CHECKING:
    from workflow.cli.cleaning import Removal
    from workflow.crate.archive_contents import ArchiveContents
    from workflow.report.report_model import Report, RunVerdict

# `wf report --junit`: the verdict of a run and each of its expectations as JUnit's test cases.


def write_run_junit(path: Path, report: Report) -> None:
    """Raises RunError when the file cannot be written."""
    from workflow.campaign.junit import JUnitCase, to_junit
    from workflow.replace_file import replace_file
    from workflow.report.show.expectation_table import expectation_messages
    from workflow.report.show.run_summary import fault_text

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
@click.argument("stage", required=False, shell_complete=complete_stage)
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
    from workflow.run.run_names import find_run

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
    from workflow.run.run_names import find_run

    directory = find_run(run)
    result = write_report(directory)
    if junit is not None:
        write_run_junit(junit, result)
    if as_json:
        click.echo(result.to_json(), nl=False)
        return
    from workflow.report.show.printing import show_report
    from workflow.report.show.rich_terminal import make_output

    show_report(result, make_output(wide=wide))
    if (directory / "report.html").exists():
        click.echo(directory / "report.html")


@click.command()
@click.argument("run_a", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.argument("run_b", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.option("--tolerance", default=0.0, show_default=True, help="Largest relative difference of equal values")
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
        from workflow.report.show.rich_terminal import make_output

        show_comparison(result, make_output(wide=wide))
    sys.exit(result.exit_code)


# `wf look`: a page that draws what a run archived.


@click.command()
@run_argument
@click.argument("other", metavar="[RUN2]", required=False, type=click.Path(path_type=Path), shell_complete=complete_run)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="The page to write (default: NAME.html in this directory)",
)
@click.option(
    "--limit",
    callback=read_size,
    metavar="SIZE",
    help="Most bytes of numbers on the page; larger data are thinned, and listed (default: 20 MB)",
)
def look(run: Path | None, other: Path | None, output: Path | None, limit: int | None) -> None:
    """Write a page that draws the data of a run.

    On the page, choose a variable, step through, and move a plane. RUN is the name of a run below runs/ (its beginning
    or its id is enough), a path, or `latest` (default: the newest run); or an archive of one made with --data, a
    folder, or a BP or HDF5 file. With RUN2 the page shows both side by side, and their difference. The page is one file
    that opens in any browser and needs no network.
    """
    from workflow.api.archives import look_at
    from workflow.errors import to_message
    from workflow.report.show.printing import show_errors

    written = look_at(run, other, output, limit=limit)
    click.echo(f"{written.path}: {written.summary}")
    for line in written.thinned:
        click.echo(f"  thinned: {line}")
    if written.notes:
        show_errors([to_message("note", note) for note in written.notes])


F = TypeVar("F", bound=Callable[..., Any])


def archive_options(function: F) -> F:
    """What the archive is to hold, and where it goes."""
    for decorate in (
        click.option("--license", metavar="TEXT", help="The licence of the archive: a URL, or text"),
        click.option(
            "--largest",
            callback=read_size,
            metavar="SIZE",
            help="Leave out inputs and records larger than this, and list them (default: 100 MiB)",
        ),
        click.option("--data", is_flag=True, help="Include the data that the stages wrote"),
        click.option(
            "--output",
            "-o",
            type=click.Path(path_type=Path),
            metavar="FILE.zip",
            help="The archive to write; a name without .zip is a folder (default: NAME.zip)",
        ),
    ):
        function = decorate(function)
    return function


@click.command()
@run_argument
@archive_options
def archive(run: Path | None, output: Path | None, data: bool, largest: int | None, license: str | None) -> None:
    """Write a run into one file (an RO-Crate), to repeat it.

    RUN is the name of a run below runs/ (its beginning or its id is enough), a path, or `latest` (default: the newest
    run). Its README has the command that repeats the run, and lists what was left out.
    """
    from workflow.api.archives import archive_run

    show_archive(*archive_run(run, output, data=data, largest=largest, license=license))


@click.command(name="archive")
@click.argument("name", metavar="CAMPAIGN", type=click.Path(path_type=Path))
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="The campaign's directory")
@archive_options
def archive_of_campaign(
    name: Path, directory: Path | None, output: Path | None, data: bool, largest: int | None, license: str | None
) -> None:
    """Write a campaign into one file (an RO-Crate), to repeat it.

    CAMPAIGN is its file, its directory, or its name below campaigns/. Its README has the command that repeats the
    campaign, and lists what was left out.
    """
    from workflow.api.archives import archive_campaign

    show_archive(*archive_campaign(name, output, directory, data=data, largest=largest, license=license))


def show_archive(target: Path, contents: ArchiveContents) -> None:
    """What was written, and what was not."""
    from workflow.errors import to_message
    from workflow.formatting import plural, size
    from workflow.report.show.printing import show_errors

    if found := [to_message("warning", each) for each in contents.warnings]:
        show_errors(found)
    total = sum(each.size for each in contents.files)
    left = f"; {len(contents.left_out)} left out: see its README.md" if contents.left_out else ""
    click.echo(f"{target}: {plural(len(contents.files), 'file')}, {size(total)}{left}")


# How many of the newest runs stay where nothing else is asked for.
KEPT = 5


def read_age(_context: click.Context, _option: click.Parameter, text: str | None) -> float:
    """Seconds of a duration with its unit: `7 d`."""
    from workflow.spec.models.units import to_seconds

    try:
        return 0.0 if text is None else float(to_seconds(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def read_states(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[RunVerdict, ...]:
    """States of runs that have ended, from a list with commas."""
    from workflow.errors import did_you_mean
    from workflow.report.read.removable_runs import ENDED

    if text is None:
        return ENDED
    words = [word.strip() for word in text.split(",")]
    if unknown := [word for word in words if word not in ENDED]:
        near = did_you_mean(unknown[0], ENDED)
        message = f"runs that can be removed are {', '.join(ENDED)}, not `{unknown[0]}`"
        raise click.BadParameter(f"{message}; {near}" if near else message)
    return tuple(state for state in ENDED if state in words)


@click.command()
@click.argument("names", metavar="[RUN]...", nargs=-1, type=click.Path(path_type=Path), shell_complete=complete_run)
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Keep the newest N runs (default: {KEPT}; 0 if runs are named)",
)
@click.option(
    "--older-than", callback=read_age, metavar="AGE", help="Only runs that ended at least this long ago: 7d, 12h"
)
@click.option(
    "--state", "states", callback=read_states, metavar="STATES", help="Only runs in these states: failed,interrupted"
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation")
@click.option("--dry-run", is_flag=True, help="List what would be removed; remove nothing")
@json_option("Print what is removed as JSON; with --yes or --dry-run")
def clean(
    names: tuple[Path, ...],
    keep: int | None,
    older_than: float,
    states: tuple[RunVerdict, ...],
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """List runs that have ended, ask, and remove them.

    The list shows the size of each on disk. RUN is the whole name of a run below runs/, a path, or `latest` (default:
    all runs below runs/ except the newest five). Only runs that were listed are removed, and only if they have not
    changed since. Runs without a verdict, runs in use, and the repetitions of campaigns are never removed. Exits with 1
    when a run
    could not be removed.
    """
    from workflow.campaign.ledger import LEDGER_FILE
    from workflow.cli.cleaning import Removal, is_agreed, remove, show_removal
    from workflow.cli.json_output import CleanResult
    from workflow.report.read.removable_runs import Criteria, find_runs, why_they_stay
    from workflow.run.run_directory import RUNS
    from workflow.run.run_removal import find_rests

    if as_json and not (yes or dry_run):
        raise click.UsageError("with --json nothing is asked: add `--dry-run` or `--yes`")
    found = find_runs(_named(names) if names else _all_runs(), LEDGER_FILE)
    for run in found if names else ():
        if run.must_stay:
            raise RunError(f"{run.directory.name} stays: {run.must_stay}", "nothing was removed")
    criteria = Criteria(keep if keep is not None else 0 if names else KEPT, older_than, states)
    removal = Removal(found, why_they_stay(found, criteria, time.time()), [] if names else find_rests(Path(RUNS)))
    if not as_json:
        show_removal(removal)
    agreed = not dry_run and not removal.is_empty and (yes or is_agreed(removal))
    failed = remove(removal) if agreed else {}
    if as_json:
        result = CleanResult.of(removal.found, removal.stays, removal.left, failed, dry_run)
        click.echo(result.to_json(), nl=False)
    else:
        _say_end(removal, agreed, failed)
    sys.exit(EXIT_RUN_FAILED if failed else EXIT_OK)


def _say_end(removal: Removal, agreed: bool, failed: dict[Path, str]) -> None:
    from workflow.report.show.printing import show_errors

    if failed:
        show_errors([to_message("error", f"{path.name}: {reason}") for path, reason in failed.items()])
    if agreed:
        gone = [run.directory for run in removal.chosen] + [rest.directory for rest in removal.rests]
        click.echo(f"removed {sum(path not in failed for path in gone)} of {len(gone)}")
    elif not removal.is_empty:
        click.echo("nothing was removed")


def _named(names: tuple[Path, ...]) -> list[Path]:
    """The directories of the runs that were named, each once, the newest first. Raises RunError."""
    from workflow.run.run_directory import LATEST, PLAN_FILE, RUNS
    from workflow.run.run_names import find_whole_run

    found: dict[Path, None] = {}
    for name in names:
        directory = find_whole_run(name)
        for place in (name, Path(RUNS) / name):
            if place.is_symlink() and place.name != LATEST:
                raise RunError(f"{place} is a link, and was not followed", f"name the run itself: {directory}")
        found[directory] = None
    return sorted(found, key=lambda each: (each / PLAN_FILE).stat().st_mtime, reverse=True)


def _all_runs() -> list[Path]:
    """Those below runs/, the newest first. Raises RunError where there is none."""
    from workflow.run.run_directory import RUNS
    from workflow.run.run_names import known_runs

    return [Path(RUNS).absolute() / name for name in reversed(known_runs())]
