"""The verbs about this machine: what is installed here, the sites, and the calibration."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from workflow import __version__
from workflow.cli.completion import complete_component, complete_site, script
from workflow.cli.options import GivenPipeline, json_option, wide_option
from workflow.cli.verb_group import VerbGroup
from workflow.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, SpecError, WfError, to_message, to_notes
from workflow.formatting import plural

if TYPE_CHECKING:
    from workflow.calibration.calibrate import GivenData
    from workflow.forecast.calibration_model import Calibration, MeasuredPart


@click.command()
@click.argument("name", required=False, shell_complete=complete_component)
@json_option("Print the components as JSON")
@wide_option
def components(name: str | None, as_json: bool, wide: bool) -> None:
    """List the components, or describe one.

    NAME is a component: show its parameters, what it reads and what it writes.
    """
    from workflow.report.show.component_tables import component_table
    from workflow.report.show.printing import show_component, show_table
    from workflow.report.show.rich_terminal import make_output
    from workflow.spec.component_files import known_components, load_component

    found = [load_component(each) for each in ([name] if name else known_components())]
    if as_json:
        from workflow.cli.json_output import ComponentList

        click.echo(ComponentList(components=found).to_json(), nl=False)
    elif name:
        show_component(found[0], make_output(wide=wide))
    else:
        show_table(component_table(found), make_output(wide=wide))


@click.command()
@click.argument("pipeline", required=False, type=click.Path(path_type=Path))
@json_option("Print the findings as JSON")
def doctor(pipeline: Path | None, as_json: bool) -> None:
    """Show what is installed here, and how to get the rest.

    PIPELINE is a YAML file: show also what each of its stages needs, and whether it is here. The last lines say
    whether pipelines can run here, and what to do next. Exits with 2 when something required is missing.
    """
    from workflow.cli.doctor import examine, show_findings

    if sys.stderr.isatty():
        click.echo("examining ADIOS2, the launcher and the components …", err=True)
    findings = examine(GivenPipeline(pipeline).load() if pipeline is not None else None)
    if as_json:
        click.echo(json.dumps([finding.fields() for finding in findings], indent=2))
    else:
        show_findings(findings, pipeline)
    sys.exit(EXIT_BAD_INPUT if any(finding.state == "missing" and finding.required for finding in findings) else 0)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script for shell completion.

    Use it as `eval "$(wf completion bash)"`.
    """
    click.echo(script(shell, click.get_current_context().find_root().command))


@click.command()
def schema() -> None:
    """Print the JSON Schema of the pipeline file, for editors."""
    from workflow.spec.json_schema import pipeline_schema

    click.echo(json.dumps(pipeline_schema(), indent=2))


@click.command()
@click.argument("name", required=False, shell_complete=complete_site)
@json_option("Print the sites as JSON")
@wide_option
def sites(name: str | None, as_json: bool, wide: bool) -> None:
    """List the machines that wf knows (sites), or describe one.

    NAME is a site: show its node, its queues and its workarounds. The column `here` marks what this machine is.
    """
    from workflow.report.show.printing import show_table
    from workflow.report.show.rich_terminal import make_output
    from workflow.report.show.site_tables import fact_lines, queue_table, site_table, workaround_table
    from workflow.site.known_sites import known_sites
    from workflow.spec.shipped import no_config

    found = [site for site in known_sites() if name in (None, site.name)]
    if not found and name is not None:
        raise no_config("sites", name)
    if as_json:
        from workflow.cli.json_output import SiteList

        click.echo(SiteList.of(found).to_json(), nl=False)
        return
    if name is None:
        show_table(site_table(found), make_output(wide=wide))
        return
    (site,) = found
    if site.file is None:
        raise SpecError(site.problems)
    click.echo(f"{site.name}: {site.file.summary}")
    for line in [*fact_lines(site.file), *(f"file: {path}" for path in site.files)]:
        click.echo(f"  {line}")
    for table in (queue_table(site.file.queues), workaround_table(site.file.workarounds)):
        if table.rows:
            click.echo("")
            show_table(table, make_output(wide=wide))


@click.group(cls=VerbGroup)
def site() -> None:
    """Describe a new machine in a site file of its own.

    Run `wf site probe` on one of its compute nodes. `wf sites` lists the machines that already have a file.
    """


@site.command()
@click.option("--write", type=click.Path(path_type=Path), metavar="FILE", help="The file to write (default: print it)")
@click.option("--name", metavar="NAME", help="The name of the site (default: that of the file, or of the cluster)")
def probe(write: Path | None, name: str | None) -> None:
    """Read this node and write what it has as a site file.

    Run it on a compute node that a job has for itself: `srun -N1 --exclusive wf site probe --write my-machine.yaml`.
    It reads cores, NUMA domains, caches, memory, GPUs and network adapters, and asks the scheduler and the launcher.
    """
    from workflow.report.show.printing import show_errors
    from workflow.site.load_site import read_site_file
    from workflow.site.probe.probed_node import probe_node
    from workflow.site.probe.site_text import site_text

    facts = probe_node()
    name = name or (write.stem if write is not None else facts.cluster) or "my-machine"
    text = site_text(facts, re.sub(r"[^A-Za-z0-9_-]+", "-", name), __version__)
    notes = [] if facts.in_job else [to_message(
        "note", "wf finds no batch job on this node: the values describe this machine",
        "on a cluster: `srun --nodes=1 --exclusive wf site probe`, or the same by another launcher",
    )]  # fmt: skip
    if write is None:
        click.echo(text, nl=False)
    else:
        if write.exists():
            raise WfError(f"{write} exists", "give another file, or move it away")
        try:
            write.write_text(text)
        except OSError as error:
            raise WfError(f"{write}: {error.strerror}", "name another file") from error
        read_site_file(str(write.absolute()), Path("/"))
        path = str(write) if "/" in str(write) else f"./{write}"
        click.echo(f"wrote {write}\n  next: read it, then `wf plan PIPELINE --site {shlex.quote(path)}`")
    if notes:
        show_errors(notes)


PARTS = ("memory", "transports", "launch", "file_system", "compressors")


@click.command()
@click.option(
    "--site",
    metavar="NAME",
    default="auto",
    shell_complete=complete_site,
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
    from workflow.api.plans import calibrate_site
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
        known = plural(len(kept.calibration.stages), "stage")
        click.echo(f"wrote {kept.file}: computing time of {known}\n  next: wf plan PIPELINE")
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
    from workflow.report.show.calibration_tables import calibration_tables, head_lines
    from workflow.report.show.printing import show_table

    for line in head_lines(calibration):
        click.echo(line)
    for table in calibration_tables(calibration):
        if table.rows:
            click.echo("")
            show_table(table)


def _notes(texts: list[str]) -> None:
    from workflow.report.show.printing import show_errors

    if texts:
        show_errors(to_notes(texts))
