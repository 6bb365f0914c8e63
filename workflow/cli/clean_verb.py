"""`wf clean`: lists runs that have ended and what they hold on disk, asks, and removes them.

Only a run with a verdict is removed, when nobody works on it any more, and never a repetition of a campaign.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from workflow.cli.completion import complete_run
from workflow.cli.options import json_option
from workflow.errors import EXIT_OK, EXIT_RUN_FAILED, RunError, to_message, to_notes

if TYPE_CHECKING:
    from workflow.cli.json_output import CleanResult
    from workflow.report.report_model import RunLine

# How many of the newest runs stay where nothing else is asked for.
KEPT = 5
# The name that a run gets before it is removed: whenever that is interrupted, a run is whole or gone.
REMOVED = ".removed-"


class FoundRun(NamedTuple):
    """A run as it was found. `size`: bytes on disk; `stays`: why it is not to be removed; empty: it is."""

    directory: Path
    line: RunLine
    size: int
    stays: str


def read_age(_context: click.Context, _option: click.Parameter, text: str | None) -> float:
    """Seconds of a duration with its unit: `7 d`."""
    from workflow.spec.models.units import to_seconds

    try:
        return 0.0 if text is None else float(to_seconds(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


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
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation")
@click.option("--dry-run", is_flag=True, help="List what would be removed; remove nothing")
@json_option("Print what is removed as JSON; with --yes or --dry-run")
def clean(
    names: tuple[Path, ...], keep: int | None, older_than: float, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """List runs that have ended, ask, and remove them.

    The list shows the size of each on disk. RUN is the whole name of a run below runs/, a path, or `latest` (default:
    all runs below runs/ except the newest five). Only runs that were listed are removed. Runs without a verdict, runs
    in use, and the repetitions of campaigns are never removed. Exits with 1 when a run could not be removed.
    """
    from workflow.report.show.printing import show_errors
    from workflow.run.records.find_runs import known_runs
    from workflow.run.records.run_directory import RUNS

    if as_json and not (yes or dry_run):
        raise click.UsageError("with --json nothing is asked: add `--dry-run` or `--yes`")
    found = find_runs(_named(names) if names else [Path(RUNS).absolute() / name for name in reversed(known_runs())])
    for run in found if names else ():
        if run.stays:
            raise RunError(f"{run.directory.name} stays: {run.stays}", "nothing was removed")
    newest = keep if keep is not None else 0 if names else KEPT
    found = [_with_choice(run, place < newest, older_than) for place, run in enumerate(found)]
    rests = [] if names else sorted(Path(RUNS).glob(f"{REMOVED}{'[0-9a-f]' * 8}-*"))
    text = _text(found, rests)
    if not as_json:
        _show(found, text)
    agreed = bool(text) and not dry_run and (yes or _is_agreed(text))
    failed = remove([run for run in found if not run.stays], rests) if agreed else {}
    # The document is of runs only.
    told = {path: reason for path, reason in failed.items() if not as_json or path in rests}
    show_errors([to_message("error", f"{path.name}: {reason}") for path, reason in told.items()])
    if as_json:
        click.echo(_document(found, failed, dry_run).to_json(), nl=False)
    elif text:
        click.echo("removed, but for what is named above" if failed else "removed" if agreed else "nothing was removed")
    sys.exit(EXIT_RUN_FAILED if failed else EXIT_OK)


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


def find_runs(run_dirs: Sequence[Path]) -> list[FoundRun]:
    """These runs, in this order. Takes up to ten seconds where a supervisor on another host may be dead."""
    from workflow.report.read.run_states import list_runs

    return [_find(run_dir, line) for run_dir, line in zip(run_dirs, list_runs(run_dirs), strict=True)]


def _find(run_dir: Path, line: RunLine) -> FoundRun:
    """A run with its size, and why it cannot be removed. What is inside it is looked at last."""
    from workflow.campaign.ledger import LEDGER_FILE
    from workflow.run.records.run_directory import ATTACHED, PLAN_FILE

    def stop(error: OSError) -> None:
        raise error

    size, stays = 0, _in_use(run_dir, line)
    try:
        for folder, folders, files in os.walk(run_dir, onerror=stop):
            size += sum(Path(folder, name).lstat().st_blocks * 512 for name in (*folders, *files))
            parts = Path(folder).relative_to(run_dir).parts
            # What was attached to the run goes with it; files of an engine may have any name.
            is_own = not parts or parts[0] == ATTACHED or any(part.endswith(".bp") for part in parts)
            if not is_own and {PLAN_FILE, LEDGER_FILE} & {*files}:
                stays = stays or f"it has other runs in it: {'/'.join(parts)}"
    except OSError:
        stays = stays or "not all of it can be read"
    return FoundRun(run_dir, line, size, stays)


def _in_use(run_dir: Path, line: RunLine) -> str:
    """Why a run cannot be removed, whatever is in it; empty: it can."""
    from workflow.campaign.ledger import LEDGER_FILE
    from workflow.report.read.run_states import list_runs
    from workflow.run.control.lease import may_be_written
    from workflow.run.records.attached_runs import attached_runs
    from workflow.run.records.find_runs import linking_runs
    from workflow.run.state.lifecycle_events import OUTCOMES

    if run_dir.is_symlink():
        return "it is a link to a run elsewhere"
    if (run_dir.resolve().parent.parent / LEDGER_FILE).exists():
        return "it is a repetition of a campaign"
    if line.state == "submitted":
        return f"its job has not started; `wf cancel {run_dir.name}` cancels it"
    if line.state not in OUTCOMES:
        return f"it is {line.state}; `wf cancel {run_dir.name}` ends what is left of it, and gives it a verdict"
    if may_be_written(run_dir):
        return "its supervisor may still write the report"
    if linking := linking_runs(run_dir):
        path, record = linking[-1]
        return f"{path.name} {'goes on with' if record.number > 1 else 're-uses'} it, and has links to its data"
    if Path.cwd().is_relative_to(run_dir.resolve()):
        return "the working directory is in it; `cd` to another one first"
    for each in list_runs(attached_runs(run_dir)):
        if each.state not in OUTCOMES:
            return f"{each.name}, which is attached to it, is {each.state}: wf detach {run_dir.name} {each.name}"
    return ""


def _with_choice(run: FoundRun, is_newest: bool, older_than_s: float) -> FoundRun:
    """The run, which stays also where the options do not mean it."""
    from workflow.formatting import duration

    line = run.line
    ended = None if line.started is None or line.wall_s is None else line.started + line.wall_s
    is_young = older_than_s and (ended is None or time.time() - ended < older_than_s)
    why = "among the newest" if is_newest else f"ended less than {duration(older_than_s)} ago" if is_young else ""
    return run._replace(stays=run.stays or why)


def _text(found: Sequence[FoundRun], rests: Sequence[Path]) -> str:
    """`3 of 8 runs, 1.24 GB`; empty where nothing is to be removed."""
    from workflow.formatting import plural, size

    sizes = [run.size for run in found if not run.stays]
    parts = [f"{len(sizes)} of {plural(len(found), 'run')}, {size(sum(sizes))}"] if sizes else []
    parts += [f"what is left of {plural(len(rests), 'removed run')}"] if rests else []
    return ", and ".join(parts)


def _show(found: Sequence[FoundRun], text: str) -> None:
    """The runs to be removed, and why the others stay."""
    from workflow.formatting import plural
    from workflow.report.show.printing import show_messages
    from workflow.report.show.tables_of_runs import removal_table
    from workflow.report.show.terminal import make_output

    make_output().draw(removal_table([(run.line, run.size) for run in found if not run.stays]))
    click.echo(f"to remove: {text}" if text else "nothing to remove")
    stay: dict[str, list[str]] = {}
    for run in found:
        stay.setdefault(run.stays, []).append(run.directory.name)
    stay.pop("", None)
    texts = (
        f"{names[0] if len(names) == 1 else plural(len(names), 'run')} {'stays' if len(names) == 1 else 'stay'}: {why}"
        for why, names in stay.items()
    )
    show_messages(to_notes(texts))


def _document(found: Sequence[FoundRun], failed: Mapping[Path, str], dry_run: bool) -> CleanResult:
    """What `--json` prints; `failed`: why runs could not be removed."""
    from workflow.cli.json_output import CleanedRun, CleanResult

    runs = []
    for run in found:
        reason = run.stays or failed.get(run.directory, "")
        action: Literal["removed", "would_remove", "stays"] = (
            "stays" if reason else "would_remove" if dry_run else "removed"
        )
        name, state = run.line.name, run.line.state
        directory = str(run.directory)
        runs.append(
            CleanedRun(name=name, directory=directory, state=state, bytes=run.size, action=action, reason=reason)
        )
    return CleanResult(removed_bytes=sum(run.bytes for run in runs if run.action == "removed"), runs=runs)


def _is_agreed(text: str) -> bool:
    """Whether the user agrees. Raises RunError where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise RunError("nothing was removed: there is no terminal to ask on", "add `--yes` to remove what is listed")
    return click.confirm(f"Remove {text}?", default=False, err=True)


def remove(chosen: Sequence[FoundRun], rests: Sequence[Path]) -> dict[Path, str]:
    """Remove the listed runs, the oldest first, and what is left of others; returns what stays, and why."""
    from workflow.run.records.find_runs import known_runs
    from workflow.run.records.run_directory import LATEST, RUNS, point_latest

    try:
        failed = {run.directory: reason for run in reversed(chosen) if (reason := _remove_run(run))}
        return failed | {rest: reason for rest in rests if (reason := _remove_folder(rest))}
    finally:
        link = Path(RUNS).absolute() / LATEST
        if link.is_symlink() and not link.exists():
            left = known_runs()
            point_latest(link.parent, link.parent / left[-1]) if left else link.unlink(missing_ok=True)


def _remove_run(run: FoundRun) -> str:
    """Remove a run that nobody works on since it was listed. Returns why it stays; empty when it is gone."""
    from workflow.formats.node_folder import folders_here

    (now,) = find_runs([run.directory])
    if now.line != run.line:
        return now.stays or "it has changed since it was listed"
    # Somebody may have begun to work on it while its size was summed up.
    if reason := now.stays or _in_use(run.directory, now.line):
        return reason
    on_node = folders_here(run.directory)  # of a run that was killed together with its guard
    name = os.fsencode(run.directory.name)[:200].decode(errors="ignore")  # file systems allow 255 bytes
    away = run.directory.with_name(f"{REMOVED}{secrets.token_hex(4)}-{name}")
    try:
        run.directory.rename(away)
    except OSError as error:
        return f"it cannot be renamed: {error.strerror}"
    for folder in on_node:
        shutil.rmtree(folder, ignore_errors=True)
    return _remove_folder(away)


def _remove_folder(folder: Path) -> str:
    """Why a folder could not be removed; empty when it is gone."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return _remove_folder(folder) if folder.exists() else ""  # somebody else removes it, too
    except OSError as error:
        return f"what is left of it is {folder}: {error.strerror}: {error.filename}"
    return ""
