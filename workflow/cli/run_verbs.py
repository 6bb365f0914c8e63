"""The verbs about a run that somebody else supervises: watch it, see how far it is, end it, list all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from workflow.cli.completion import complete_run
from workflow.cli.options import json_option, run_argument, tag_option, wide_option
from workflow.errors import EXIT_INTERRUPTED, RunError, WfError


@click.command()
@run_argument
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, not the progress")
def watch(run: Path | None, quiet: bool) -> None:
    """Show the progress of a run until its end.

    Works on any host that sees the directory of the run. RUN is the name of a run below runs/ (its beginning or its id
    is enough), a path, or `latest` (default: the newest run). Exits as `wf run` does, and with 1 when the run's
    supervisor has died. Ending `wf watch` does not end the run; Ctrl-C on a terminal asks.
    """
    from workflow.cli.following import show_to_the_end
    from workflow.run.records.find_runs import find_run

    sys.exit(show_to_the_end(find_run(run), quiet))


@click.command()
@run_argument
@json_option("Print the report so far as JSON")
@wide_option
def status(run: Path | None, as_json: bool, wide: bool) -> None:
    """Show how far a run is: its stages and streams.

    RUN is the name of a run below runs/ (its beginning or its id is enough), a path, or `latest` (default: the newest
    run).
    """
    from workflow.cli.following import report_now
    from workflow.report.show.printing import show_status
    from workflow.report.show.terminal import make_output
    from workflow.run.records.find_runs import find_run

    result = report_now(run_dir := find_run(run))
    if as_json:
        click.echo(result.to_json(), nl=False)
    else:
        show_status(result, make_output(wide=wide), run_dir)


@click.command()
@run_argument
def explain(run: Path | None) -> None:
    """Say in words what a run does or did, and what limits it.

    RUN is the name of a run below runs/ (its beginning or its id is enough), a path, or `latest` (default: the newest
    run). The last sentence says what to do next.
    """
    from workflow.cli.following import report_now
    from workflow.data_files.read_steps import find_data, has_steps
    from workflow.formats.run_clock import run_time
    from workflow.report.read.run_records import read_records
    from workflow.report.show.run_in_words import explanation
    from workflow.report.show.terminal import make_output
    from workflow.run.records.find_runs import find_run

    result, records = report_now(run_dir := find_run(run)), read_records(run_dir)
    if result.run.state == "running":
        records = records.at(run_time(run_dir))
    has_data = any(map(has_steps, find_data(run_dir).values()))
    output = make_output()
    for sentence in explanation(result, records, has_data=has_data):
        output.say_prose(sentence)


@click.command()
@run_argument
@click.option("--follow", "-f", is_flag=True, help="Print new events until the run has ended")
@json_option("Print the lines of events.jsonl as they are")
@click.option("--all", "everything", is_flag=True, help="Print also steps and CPU times so far, as --json does")
@click.option(
    "--since", type=click.IntRange(min=0), default=0, metavar="N", help="Leave out the first N lines of --json"
)
def events(run: Path | None, follow: bool, as_json: bool, everything: bool, since: int) -> None:
    """Print what has happened in a run, a line for each event.

    RUN is the name of a run below runs/ (its beginning or its id is enough), a path, or `latest` (default: the newest
    run). Works on any host that sees the directory of the run. docs/reference/events.md describes the lines of --json.
    Exits with 0 however the run has ended; with --follow also when its supervisor has died, and says so then.
    """
    from workflow.cli.following import print_events
    from workflow.run.records.find_runs import find_run

    try:
        print_events(find_run(run), follows=follow, as_json=as_json, everything=everything, leave_out=since)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)  # without a word: the run goes on


@click.command()
@run_argument
@click.option("--now", is_flag=True, help="Kill the stages at once, without time to close their files")
def cancel(run: Path | None, now: bool) -> None:
    """End a run, and wait for its end.

    Works on any host that sees the directory of the run. RUN is the whole name of a run below runs/, a path, or
    `latest` (default: the newest run). Of a run in several parts the newest one is ended, and none follows it. If the
    supervisor of the run has died, this ends the processes that are left on this host.
    Exits with 1 when something could not be ended.
    """
    from workflow.cli.following import cancel_parts
    from workflow.run.records.find_runs import find_whole_run

    sys.exit(cancel_parts(find_whole_run(run), now))


@click.command()
@click.argument("run", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.argument("text", required=False)
@tag_option("Add this tag to the run (repeatable)")
@json_option("Print the notes as JSON")
def note(run: Path, text: str | None, tags: tuple[str, ...], as_json: bool) -> None:
    """Put a note or tags on a run, or show them.

    RUN is the name of a run below runs/ (its beginning or its id is enough), a path, or `latest`. TEXT is added to its
    notes; without TEXT and --tag they are shown. Notes can be added at any time, also while the run is in progress.
    """
    from workflow.run.records.find_runs import find_run
    from workflow.run.records.run_notes import add_note, read_notes

    directory = find_run(run)
    if text is not None and not text.strip():
        raise WfError("the note is empty", 'give its text: wf note RUN "TEXT"')
    if text or tags:
        add_note(directory, text or "", tags)
    found = read_notes(directory)
    if as_json:
        from workflow.cli.json_output import NoteList

        click.echo(NoteList(run=directory.name, tags=found.tags, notes=found.notes).to_json(), nl=False)
        return
    from workflow.errors import to_message
    from workflow.report.show.printing import show_messages
    from workflow.report.show.run_in_words import note_lines

    lines = note_lines(found.tags, found.with_text)
    click.echo(
        "\n".join(
            [f"{directory.name}: {'no notes' if not lines else ''}".rstrip(": "), *(f"  {line}" for line in lines)]
        )
    )
    show_messages([to_message("warning", damage) for damage in found.damage])


@click.command()
@click.option(
    "--lines", "-n", type=click.IntRange(min=1), default=20, show_default=True, help="How many of the newest runs"
)
@click.option("--all", "everywhere", is_flag=True, help="List also runs with --run-dir that were started elsewhere")
@tag_option("Only runs with this tag (repeatable: with all of these tags)")
@json_option("Print the runs as JSON")
@wide_option
def runs(lines: int, everywhere: bool, tags: tuple[str, ...], as_json: bool, wide: bool) -> None:
    """List the runs that were started in this folder.

    The newest comes first. Listed are the runs below runs/ and those with --run-dir. A run is `lost` when its
    supervisor has died without a verdict.
    """
    from workflow.report.read.run_states import list_named_runs, tagged_runs
    from workflow.report.show.tables_of_runs import run_table
    from workflow.report.show.terminal import make_output
    from workflow.run.records.find_runs import listed_runs
    from workflow.run.records.run_directory import RUNS

    found = list_named_runs(tagged_runs(listed_runs(everywhere), tags)[-lines:][::-1])
    if as_json:
        from workflow.cli.json_output import RunList

        click.echo(RunList(runs=found).to_json(), nl=False)
    elif not found and tags:
        raise RunError(f"no run here has the tag {' and '.join(tags)}", "list all runs: wf runs")
    elif not found:
        more = "" if everywhere else "; `wf runs --all` also looks for those with --run-dir that were started elsewhere"
        raise RunError(f"no runs here: there is none below {RUNS}/", f"start one: wf run PIPELINE{more}")
    else:
        make_output(wide=wide).draw(run_table(found))
