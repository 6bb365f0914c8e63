"""`wf look`: a page that draws what a run archived."""

from __future__ import annotations

from pathlib import Path

import click

from workflow.cli.completion import complete_run
from workflow.cli.options import read_size, run_argument


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
    help="Bytes of numbers that the page carries; more than that is thinned, and listed (default: 20 MB)",
)
def look(run: Path | None, other: Path | None, output: Path | None, limit: int | None) -> None:
    """Write a page that draws the data of a run.

    On the page, choose a variable, step through, and move a plane. RUN is the name of a run below runs/ (its beginning
    or its id is enough), a path, or `latest` (default: the newest run); or an archive of one made with --data, a
    folder, or a BP or HDF5 file. With RUN2 the page shows both side by side, and their difference. The page is one file
    that opens in any browser and needs no network.
    """
    from workflow.api import look_at
    from workflow.errors import to_message
    from workflow.report.show.printing import show_errors

    written = look_at(run, other, output, limit=limit)
    click.echo(f"{written.path}: {written.summary}")
    for line in written.thinned:
        click.echo(f"  thinned: {line}")
    if written.notes:
        show_errors([to_message("note", note) for note in written.notes])
