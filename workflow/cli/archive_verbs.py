"""`wf archive` and `wf campaign archive`: all that repeats a run or a campaign, in one file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from workflow.cli.options import read_size, run_argument, say_wait

if TYPE_CHECKING:
    from workflow.crate.archive_files import ArchiveContents

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

    say_wait("writing the archive: checksums of all files, results and pictures…")
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
