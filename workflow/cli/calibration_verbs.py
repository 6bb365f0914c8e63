"""`wf calibrate`: keep what runs measured, and show it."""

from __future__ import annotations

from pathlib import Path

import click

from workflow.cli.options import json_option
from workflow.errors import WfError, to_notes
from workflow.formatting import plural


@click.command()
@click.argument("source", metavar="[RUN]", required=False, type=click.Path(path_type=Path))
@click.option("--site", metavar="NAME", help="Without RUN: the site whose figures are shown (default: this one)")
@json_option("Without RUN: print the figures as JSON")
def calibrate(source: Path | None, site: str | None, as_json: bool) -> None:
    """Keep what a run has measured, for `wf plan`.

    `wf plan` then says what a step costs. RUN is a run or a campaign, by its name or directory. Kept are what its
    stages computed per step, and what moving the data took at each end of its streams: in calibration/SITE.json beside
    your sites. Without RUN the figures of this machine are shown.
    """
    if source is None:
        _show(site, as_json)
        return
    if site is not None or as_json:
        raise click.UsageError("--site and --json show what is kept: leave out RUN")
    from workflow.api.calibrations import keep_measurements
    from workflow.report.show.printing import show_errors

    kept = keep_measurements(source)
    known = len(kept.calibration.stages)
    older = f"; with earlier runs it has {known}" if known > kept.stages else ""
    click.echo(f"wrote {kept.file}: figures of {plural(kept.stages, 'stage')}{older}\n  next: wf plan PIPELINE")
    if kept.notes:
        show_errors(to_notes(kept.notes))


def _show(given: str | None, as_json: bool) -> None:
    from workflow.calibration.calibration_file import load_calibration
    from workflow.report.show.forecast_tables import calibration_tables
    from workflow.site.discover import discover_allocation
    from workflow.site.load_site import read_site_file, site_here

    site = read_site_file(given or site_here(discover_allocation()), Path.cwd()).site
    calibration = load_calibration(site)
    if calibration is None:
        raise WfError(
            f"nothing is known of site {site}", "run a pipeline, then keep what it measured: `wf calibrate RUN`"
        )
    if as_json:
        click.echo(calibration.to_json(), nl=False)
        return
    from workflow.report.show.terminal import make_output

    click.echo(f"site {site}")
    for table in calibration_tables(calibration):
        make_output().draw(table)
