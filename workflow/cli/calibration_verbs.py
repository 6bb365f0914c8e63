"""`wf calibrate`: measure a site, keep it, show it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from workflow.cli.options import json_option
from workflow.errors import EXIT_INTERRUPTED, WfError, to_notes
from workflow.formatting import plural

if TYPE_CHECKING:
    from workflow.calibration.calibrate import GivenData
    from workflow.forecast.calibration_model import Calibration, MeasuredPart

PARTS = ("memory", "transports", "launch", "file_system", "compressors")


@click.command()
@click.option(
    "--site",
    metavar="NAME",
    default="auto",
    help="The site (default: the one where wf runs)",
)
@click.option("--only", "parts", multiple=True, type=click.Choice(PARTS), help="Measure this part only (repeatable)")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    help="A folder of the file system to measure (default: the current one)",
)
@click.option("--data", metavar="FILE.bp:VARIABLE", help="The data to compress (default: data of component gray_scott)")
@click.option("--quick", is_flag=True, help="Fewer sizes, one repetition of each: less than a minute")
@click.option(
    "--from",
    "source",
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="Measure nothing; record the times of the stages of a run or campaign, given by name or directory",
)
@click.option("--show", is_flag=True, help="Measure nothing; show what is known about the site")
@click.option("--despite-load", is_flag=True, help="Measure even while other programs use much of this machine")
@click.option("--new", is_flag=True, help="Discard earlier measurements, and the times that --from recorded")
@json_option("With --show: print the calibration as JSON")
def calibrate(
    site: str,
    parts: tuple[str, ...],
    folder: Path,
    data: str | None,
    quick: bool,
    source: Path | None,
    show: bool,
    new: bool,
    despite_load: bool,
    as_json: bool,
) -> None:
    """Measure this machine, so that `wf plan` can forecast runs.

    It measures memory, file system, transports, compressors and launchers. `wf plan` then shows how long a run will
    take, and its report compares this with the times measured. The figures are kept in calibration/SITE.json beside
    your sites. It takes a few minutes; Ctrl-C keeps what was measured, and exits with 130. Refuses to measure while
    other programs use more than
    a quarter of the cores.
    """
    from workflow.api.calibrations import calibrate_site
    from workflow.calibration.keep_calibration import calibration_of, keep_stages

    if as_json and not show:
        raise click.UsageError("--json has no effect without --show: use `wf calibrate --show --json`")
    if show and (parts or data or quick or source or new or despite_load):
        raise click.UsageError("--show measures nothing: leave out the other options")
    if source is not None and (parts or data or quick or despite_load):
        raise click.UsageError("--from measures nothing: leave out --only, --data, --quick and --despite-load")
    if show:
        _show(calibration_of(site), as_json)
        return
    if source is not None:
        kept = keep_stages(site, source, new=new)
        now, known = len(kept.recorded), len(kept.calibration.stages)
        older = f"; with those of earlier runs it has {known}" if known > now else ""
        click.echo(f"wrote {kept.file}: computing time of {plural(now, 'stage')}{older}\n  next: wf plan PIPELINE")
        _notes(kept.notes)
        return
    with tempfile.TemporaryDirectory(prefix=".wf-calibrate-", dir=folder) as place:
        kept = calibrate_site(
            site,
            Path(place),
            parts=cast("tuple[MeasuredPart, ...]", parts),
            data=_data(data),
            quick=quick,
            new=new,
            despite_load=despite_load,
            show=lambda line: click.echo(line),
        )
    _notes(kept.notes)
    if kept.interrupted:
        click.echo(f"interrupted; what was measured is in {kept.file}")
        sys.exit(EXIT_INTERRUPTED)
    click.echo(f"wrote {kept.file}\n  next: wf calibrate --show; wf calibrate --from RUN; wf plan PIPELINE")


def _data(given: str | None) -> GivenData | None:
    """The file and the variable of `--data`."""
    if given is None:
        return None
    from workflow.calibration.calibrate import GivenData

    file, _, variable = given.rpartition(":")
    if not file or not variable:
        raise click.UsageError(f"--data {given}: expected FILE.bp:VARIABLE")
    if not Path(file).exists():
        raise WfError(f"--data {given}: there is no {file}", "name a BP file or directory that a run has kept")
    return GivenData(Path(file).absolute(), variable)


def _show(calibration: Calibration, as_json: bool) -> None:
    if as_json:
        click.echo(calibration.to_json(), nl=False)
        return
    from workflow.report.show.forecast_tables import calibration_tables, head_lines
    from workflow.report.show.terminal import make_output

    for line in head_lines(calibration):
        click.echo(line)
    for table in calibration_tables(calibration):
        if table.rows:
            click.echo("")
            make_output().draw(table)


def _notes(texts: list[str]) -> None:
    from workflow.report.show.printing import show_errors

    if texts:
        show_errors(to_notes(texts))
