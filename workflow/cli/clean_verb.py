"""`wf clean`: lists runs and what they hold on disk, asks, and removes them."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workflow.cli.completion import complete_run
from workflow.cli.options import json_option
from workflow.errors import EXIT_OK, EXIT_RUN_FAILED, RunError, to_message

if TYPE_CHECKING:
    from workflow.cli.cleaning import Removal
    from workflow.report.report_model import RunVerdict

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
    from workflow.report.read.removable_runs import ENDED
    from workflow.spec.suggest import did_you_mean

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
    from workflow.run.records.run_directory import RUNS
    from workflow.run.records.run_removal import find_rests

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
    from workflow.run.records.find_runs import find_whole_run
    from workflow.run.records.run_directory import LATEST, PLAN_FILE, RUNS

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
    from workflow.run.records.find_runs import known_runs
    from workflow.run.records.run_directory import RUNS

    return [Path(RUNS).absolute() / name for name in reversed(known_runs())]
