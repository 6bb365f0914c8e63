"""What `wf clean` shows, asks and does with the runs that were found."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from workflow.errors import Problem, RunError, to_message, to_notes
from workflow.formatting import plural, size
from workflow.report.read.removable_runs import FoundRun
from workflow.report.show.printing import show_messages, show_table
from workflow.report.show.tables_of_runs import removal_table
from workflow.run.records.run_removal import LeftDirectory, remove_rest, remove_run, repair_latest


@dataclass(frozen=True)
class Removal:
    """The runs that were found, the newest first, why each of them stays (empty: it is to be removed), and what is left
    of runs whose removal was interrupted: `left`, whole runs among them.
    """

    found: Sequence[FoundRun]
    stays: Sequence[str]
    left: Sequence[LeftDirectory]

    @property
    def rests(self) -> list[LeftDirectory]:
        """What is left of runs and is to be removed."""
        return [rest for rest in self.left if not rest.is_whole]

    @property
    def chosen(self) -> list[FoundRun]:
        """The runs to be removed."""
        return [run for run, reason in zip(self.found, self.stays, strict=True) if not reason]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remove."""
        return not self.chosen and not self.rests

    @property
    def text(self) -> str:
        """`3 of 8 runs, 1.24 GB`."""
        parts = [f"{len(self.chosen)} of {plural(len(self.found), 'run')}"] if self.chosen else []
        parts += [f"what is left of {plural(len(self.rests), 'removed run')}"] if self.rests else []
        total = sum(run.size for run in self.chosen) + sum(rest.size for rest in self.rests)
        return f"{' and '.join(parts)}, {size(total)}"


def show_removal(removal: Removal) -> None:
    """A line for each run to be removed, how much it is in all, and why the others stay."""
    show_table(removal_table(removal.chosen))
    click.echo(f"to remove: {removal.text}" if not removal.is_empty else "nothing to remove")
    stay = [f"{run.directory.name} stays: {run.must_stay}" for run in removal.found if run.must_stay]
    others = Counter(why for run, why in zip(removal.found, removal.stays, strict=True) if why and not run.must_stay)
    stay += [f"{plural(count, 'run')} {'stays' if count == 1 else 'stay'}: {why}" for why, count in others.items()]
    show_messages([*to_notes(stay), *map(_rest_note, removal.left)])


def _rest_note(rest: LeftDirectory) -> Problem:
    if not rest.is_whole:
        text = f"{rest.name} was removed in part: what is left is {rest.directory}, {size(rest.size)}"
        return to_message("note", text)
    back = shlex.join(["mv", "-T", str(rest.directory), str(rest.directory.with_name(rest.name))])
    return to_message("note", f"{rest.directory} stays: it is the whole run {rest.name}", f"to get it back: {back}")


def is_agreed(removal: Removal) -> bool:
    """Whether the user agrees. Raises RunError where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise RunError("nothing was removed: there is no terminal to ask on", "add `--yes` to remove what is listed")
    return click.confirm(f"Remove {removal.text}?", default=False, err=True)


def remove(removal: Removal) -> dict[Path, str]:
    """Remove what was listed, the oldest first. Returns what could not be removed, and why."""
    failed: dict[Path, str] = {}
    gone = 0
    try:
        for run in reversed(removal.chosen):
            reason = remove_run(run.directory, run.contents) if run.contents is not None else "it cannot be read"
            failed |= {run.directory: reason} if reason else {}
            gone += not reason
        for rest in removal.rests:
            failed |= {rest.directory: reason} if (reason := remove_rest(rest.directory)) else {}
    except KeyboardInterrupt:
        click.echo(f"removed {plural(gone, 'run')} of {len(removal.chosen)}; `wf clean` goes on there", err=True)
        raise
    finally:
        repair_latest()
    return failed
