"""The verbs about what is installed here, and what can be written into a pipeline file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from workflow.cli.options import GivenPipeline, json_option, say_wait, wide_option
from workflow.errors import EXIT_BAD_INPUT


@click.command()
@click.argument("name", required=False)
@json_option("Print the components as JSON")
@wide_option
def components(name: str | None, as_json: bool, wide: bool) -> None:
    """List the components, or describe one.

    NAME is a component: show its parameters, what it reads and what it writes.
    """
    from workflow.report.show.component_and_site_tables import component_table
    from workflow.report.show.printing import show_component
    from workflow.report.show.terminal import make_output
    from workflow.spec.component_files import known_components, load_component

    found = [load_component(each) for each in ([name] if name else known_components())]
    if as_json:
        from workflow.cli.json_output import ComponentList

        click.echo(ComponentList(components=found).to_json(), nl=False)
    elif name:
        show_component(found[0], make_output(wide=wide))
    else:
        make_output(wide=wide).draw(component_table(found))


@click.command()
@click.argument("pipeline", required=False, type=click.Path(path_type=Path))
@json_option("Print the findings as JSON")
def doctor(pipeline: Path | None, as_json: bool) -> None:
    """Show what is installed here, and how to get the rest.

    PIPELINE is a YAML file: show also what each of its stages needs, and whether it is here. The last lines say
    whether pipelines can run here, and what to do next. Exits with 2 when something required is missing.
    """
    from workflow.cli.doctor import examine, show_findings

    say_wait("examining ADIOS2, the launcher and the components…", as_json)
    findings = examine(GivenPipeline(pipeline).load() if pipeline is not None else None)
    if as_json:
        click.echo(json.dumps([finding.fields() for finding in findings], indent=2))
    else:
        show_findings(findings, pipeline)
    sys.exit(EXIT_BAD_INPUT if any(finding.state == "missing" and finding.required for finding in findings) else 0)


@click.command()
def schema() -> None:
    """Print the JSON Schema of the pipeline file, for editors."""
    from workflow.spec.json_schema import pipeline_schema

    click.echo(json.dumps(pipeline_schema(), indent=2))
