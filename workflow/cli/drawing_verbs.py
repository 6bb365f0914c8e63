"""The verbs that draw: `wf graph`, the pipeline; `wf look`, what a run archived."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from workflow.cli.completion import complete_run
from workflow.cli.options import GivenPipeline, pipeline_options, read_size, run_argument, say_wait
from workflow.errors import WfError

if TYPE_CHECKING:
    from workflow.look.write_look import WrittenPage
    from workflow.plan.plan_model import Plan
    from workflow.report.graph.pipeline_graph import PipelineGraph


Form = Literal["text", "svg", "mermaid"]
SUFFIXES: dict[str, Form] = {".svg": "svg", ".mmd": "mermaid", ".mermaid": "mermaid", ".txt": "text"}


@click.command()
@pipeline_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "svg", "mermaid"]),
    help="What is drawn (default: by the suffix of FILE, else text)",
)
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write it there")
def graph(given: GivenPipeline, form: Form | None, output: Path | None) -> None:
    """Draw a pipeline, or a run as it was; start nothing.

    PIPELINE is the YAML file, or a run: its directory, its name below runs/, or `latest`; what was attached to the run
    is drawn, too. The drawing shows the plan: it includes stages that wf adds, and the transports and
    queues that a run would have. A dashed arrow is a stream whose reader starts after its writer; a dashed outline a
    stage that wf adds. GitHub and GitLab draw Mermaid text in Markdown.
    """
    from workflow.report.graph.pipeline_graph import make_pipeline_graph
    from workflow.report.show.folded_members import fold_plan

    chosen = form or _form_of(output)
    drawn = make_pipeline_graph(fold_plan(_plan_of(given)))
    if output is not None:
        _write(output, _to_text(drawn, chosen))
    elif chosen == "text":
        from workflow.report.show.printing import show_lines

        show_lines(_lines(drawn))
    else:
        click.echo(_to_text(drawn, chosen), nl=False)


def _plan_of(given: GivenPipeline) -> Plan:
    """The plan of a pipeline file, or of a run with what was attached to it."""
    if given.path.suffix in (".yaml", ".yml") or given.path.is_file():
        from workflow.api.plans import find_site, make_plan
        from workflow.site.discover import discover_allocation

        loaded, allocation = given.load(), discover_allocation()
        return make_plan(loaded, find_site(loaded, allocation), allocation)
    from workflow.report.graph.pipeline_graph import with_attached
    from workflow.run.records.attached_runs import attached_runs
    from workflow.run.records.find_runs import find_run
    from workflow.run.records.run_directory import read_plan_file

    if given.profiles or given.sets or given.via or given.site:
        raise click.UsageError("a run is drawn as it was: name its pipeline file to change something")
    run_dir = find_run(given.path)
    return with_attached(read_plan_file(run_dir), {each.name: read_plan_file(each) for each in attached_runs(run_dir)})


def _form_of(output: Path | None) -> Form:
    if output is None:
        return "text"
    form = SUFFIXES.get(output.suffix.lower())
    if form is None:
        raise click.UsageError(
            f"which format is {output}? Add `--format`, or one of these suffixes: {', '.join(SUFFIXES)}"
        )
    return form


def _to_text(drawn: PipelineGraph, form: Form) -> str:
    """The drawing as a file."""
    if form == "text":
        return "\n".join(_lines(drawn)) + "\n"
    if form == "mermaid":
        from workflow.report.graph.graph_mermaid import make_mermaid

        return make_mermaid(drawn)
    from workflow.report.graph.graph_svg import draw_pipeline

    return draw_pipeline(drawn).element()


def _lines(drawn: PipelineGraph) -> list[str]:
    import shutil

    from workflow.report.graph.graph_text import graph_lines

    return graph_lines(drawn, shutil.get_terminal_size().columns)


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WfError(f"cannot write {output}: {error.strerror}", "name another file: `--output FILE`") from error


# `wf look`: a page that draws what a run archived.


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
    help="Most bytes of numbers on the page; larger data are thinned, and listed (default: 20 MB)",
)
@click.option("--live", is_flag=True, help="Show the newest steps of a running run, until it ends")
@click.option(
    "--stream",
    "streams",
    multiple=True,
    metavar="STREAM",
    help="With --live: only this stream (repeatable; default: all that the run keeps)",
)
@click.option("--port", type=click.IntRange(1, 65535), help="With --live: the port of the page (default: a free one)")
def look(
    run: Path | None,
    other: Path | None,
    output: Path | None,
    limit: int | None,
    live: bool,
    streams: tuple[str, ...],
    port: int | None,
) -> None:
    """Write a page that draws the data of a run.

    On the page, choose a variable, step through, and move a plane. RUN is the name of a run below runs/ (its beginning
    or its id is enough), a path, or `latest` (default: the newest run); or an archive of one made with --data, a
    folder, or a BP or HDF5 file. With RUN2 the page shows both side by side, and their difference. The page is one file
    that opens in any browser and needs no network.

    With --live the page is served at an address that is printed, on this machine only, and follows the newest steps of
    a run in progress. When the run ends, the page is written as without --live. Ctrl-C ends it; the run goes on.
    """
    from workflow.api.archives import look_at

    if not live:
        if streams or port is not None:
            raise click.UsageError("--stream and --port belong to --live: `wf look RUN --live`")
        say_wait("reading the data…")
        _show_page(look_at(run, other, output, limit=limit))
        return
    if other is not None:
        raise click.UsageError("--live shows one run; two are compared when they have ended: `wf look RUN RUN2`")
    from workflow.api.live_looks import live_look

    with live_look(run, streams, limit=limit, port=port or 0) as page:
        click.echo(f"{page.url}\n  {page.run_dir.name}: the newest steps of {' and '.join(page.streams)}")
        click.echo(f"  from another machine: {_tunnel(page.port)}, then open the same address there")
        click.echo("  Ctrl-C ends this; the run goes on")
        click.echo(f"{page.wait()}; writing the page of what it has archived")
    _show_page(page.write_page(output))


def _tunnel(port: int) -> str:
    """The command that makes a port of this machine's loopback one of the machine where it is typed."""
    import platform

    return f"ssh -N -L {port}:127.0.0.1:{port} {platform.node()}"


def _show_page(written: WrittenPage) -> None:
    from workflow.errors import to_message
    from workflow.report.show.printing import show_errors

    click.echo(f"{written.path}: {written.summary}")
    for line in written.thinned:
        click.echo(f"  thinned: {line}")
    if written.notes:
        show_errors([to_message("note", note) for note in written.notes])
