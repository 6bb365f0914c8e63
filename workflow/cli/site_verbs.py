"""The verbs about sites: list them, describe one, and write the file of the machine at hand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from workflow import __version__
from workflow.cli.options import json_option, wide_option
from workflow.cli.verb_group import VerbGroup
from workflow.errors import SpecError, WfError, to_message


@click.command()
@click.argument("name", required=False)
@json_option("Print the sites as JSON")
@wide_option
def sites(name: str | None, as_json: bool, wide: bool) -> None:
    """List the machines that wf knows (sites), or describe one.

    NAME is a site: show its node, its queues and its workarounds. The column `here` marks what this machine is.
    """
    from workflow.report.show.component_and_site_tables import fact_lines, queue_table, site_table, workaround_table
    from workflow.report.show.terminal import make_output
    from workflow.site.load_site import known_sites
    from workflow.spec.shipped import no_config

    found = [site for site in known_sites() if name in (None, site.name)]
    if not found and name is not None:
        raise no_config("sites", name)
    if as_json:
        from workflow.cli.json_output import SiteList

        click.echo(SiteList.of(found).to_json(), nl=False)
        return
    if name is None:
        make_output(wide=wide).draw(site_table(found))
        return
    (site,) = found
    if site.file is None:
        raise SpecError(site.problems)
    click.echo(f"{site.name}: {site.file.summary}")
    for line in [*fact_lines(site.file), *(f"file: {path}" for path in site.files)]:
        click.echo(f"  {line}")
    for table in (queue_table(site.file.queues), workaround_table(site.file.workarounds)):
        make_output(wide=wide).draw(table)


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
    from workflow.site.site_probe import probe_node, site_text

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
