"""The command line: one small function per verb. Only this file prints help and exits.

Other modules of `workflow` are imported inside the verb that needs them: no command pays for what it does not use.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from workflow import __version__
from workflow.cli.completion import complete_component, complete_example
from workflow.cli.options import (
    GivenPipeline,
    check_portable_option,
    check_strategy_options,
    pipeline_options,
    strategy_options,
)
from workflow.cli.usage_errors import unknown_verb, usage_problem
from workflow.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, Problem, SpecError, WfError, to_message
from workflow.formatting import plural

# `wf` alone prints its help: an error of click since 8.2.
NO_ARGUMENTS = getattr(click.exceptions, "NoArgsIsHelpError", ())


class VerbGroup(click.Group):
    """Lists the verbs in the order of their definitions, which is that of their use, not by name."""

    def list_commands(self, _: click.Context) -> list[str]:
        """The verbs in the order of `--help`."""
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The verb that the first word names. Raises UsageError when there is none."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise click.UsageError(unknown_verb(args[0], list(self.commands)), ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "--version", prog_name="wf")
def wf() -> None:
    """Couple simulations, analyses and sinks by ADIOS2 streams or files, from one YAML file.

    Start with `wf init my-first`, then `wf run my-first/pipeline.yaml`. `wf VERB --help` describes each verb.
    """


@wf.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--example",
    default="00-starter",
    show_default=True,
    shell_complete=complete_example,
    metavar="NAME",
    help="The example to copy; `list` shows all",
)
def init(directory: Path, example: str) -> None:
    """Write a working pipeline into a new directory.

    DIRECTORY is created; an example is copied there.
    """
    from workflow.spec.shipped import copy_example, known_examples

    if example == "list":
        click.echo("\n".join(known_examples()))
        return
    pipeline = copy_example(example, directory)
    click.echo(f"wrote {pipeline}\n  next: wf run {pipeline}")


@wf.command()
@pipeline_options
@click.option("--strict", is_flag=True, help="Exit with 2 when this machine lacks something, too: for CI")
def check(given: GivenPipeline, strict: bool) -> None:
    """List all mistakes in a pipeline file, and what this machine lacks for it; start no stage.

    PIPELINE is the YAML file. Exits with 2 when it has a mistake. What is missing here is a warning.
    """
    from dataclasses import replace

    from workflow.api import find_site, make_plan, notes_on
    from workflow.preflight import preflight
    from workflow.report.show.printing import show_messages

    loaded = given.load()
    site = find_site(loaded)
    plan = make_plan(loaded, site)
    found = preflight(loaded, plan, site)
    missing = [problem for problem in found if problem.level == "error"]
    notes = [problem for problem in found if problem.level == "note"]
    warnings = [] if strict else [replace(problem, level="warning") for problem in missing]
    show_messages([*warnings, *notes, *notes_on(plan, loaded)])
    if strict and missing:
        raise SpecError(missing)
    counts = [plural(len(plan.stages), "stage"), plural(len(plan.streams), "stream")]
    counts += [plural(len(warnings), "warning")] if warnings else []
    click.echo(f"{given.path}: ok ({', '.join(counts)})")


@wf.command()
@pipeline_options
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON, byte for byte as a run writes it")
@click.option(
    "--portable", is_flag=True, help="With --json: placeholders for this machine, so that CI can compare two plans"
)
@click.option("--explain", metavar="KEY", help="Show where a value comes from: streams.atoms.queue.limit")
@strategy_options
def plan(
    given: GivenPipeline,
    as_json: bool,
    portable: bool,
    explain: str | None,
    strategies: str | None,
    blocks: str | None,
    shape: str | None,
) -> None:
    """Show what a run would start, and how; start nothing.

    PIPELINE is the YAML file.
    """
    from workflow.api import make_plan, notes_on, portable_plan

    check_strategy_options(strategies, blocks, shape)
    check_portable_option(portable, as_json, others=bool(explain or strategies))
    loaded = given.load()
    if portable:
        click.echo(portable_plan(loaded), nl=False)
        return
    decided = make_plan(loaded)
    if explain:
        from workflow.plan.explain import explain_key

        click.echo(explain_key(loaded, decided, explain))
    elif strategies and as_json:
        from workflow.report.show.strategy_table import strategies_json

        click.echo(strategies_json(decided, strategies, blocks, shape))
    elif strategies:
        from workflow.report.show.printing import show_strategies

        show_strategies(decided, strategies, blocks, shape)
    elif as_json:
        click.echo(decided.to_json(), nl=False)
    else:
        from workflow.report.show.printing import show_messages, show_plan

        show_plan(decided)
        show_messages(notes_on(decided, loaded))


@wf.command()
@pipeline_options
@click.option(
    "--run-dir", type=click.Path(path_type=Path), help="The run directory to create (default: runs/NAME-TIME-ID)"
)
@click.option("--dry-run", is_flag=True, help="Print the plan as JSON; start nothing")
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, not the progress")
def run(given: GivenPipeline, run_dir: Path | None, dry_run: bool, quiet: bool) -> None:
    """Run a pipeline, show its progress, and wait for its end.

    PIPELINE is the YAML file. Exits with 0 when the run succeeded, 1 when it failed, 2 when it could not start, and
    130 when it was interrupted.
    """
    from workflow.api import find_site, make_plan, refuse_missing, start_run

    loaded = given.load()
    site = find_site(loaded)
    decided = make_plan(loaded, site)
    if dry_run:
        click.echo(decided.to_json(), nl=False)
        return
    refuse_missing(loaded, decided, site)
    from workflow.report.show.live_display import Progress

    directory, states = start_run(loaded, decided, run_dir)
    with contextlib.closing(states):
        # The run starts before anything is printed: a terminal that accepts no output does not hold it up.
        state = next(states)
        with Progress(decided, directory, quiet=quiet) as progress:
            progress.update(state)
            # The first stages are starting now: import meanwhile what only the end needs.
            from workflow.report.html.page import compile_templates
            from workflow.report.report_files import write_report
            from workflow.report.show.printing import show_end

            compile_templates()
            gc.freeze()  # all that is imported by now stays: later collections need not examine it
            for state in states:
                progress.update(state)
    report = write_report(directory, state)
    show_end(report, directory)
    sys.exit(report.run.exit_code)


@wf.command()
@click.argument("run_dir", required=False, type=click.Path(path_type=Path))
def status(run_dir: Path | None) -> None:
    """Show how far a run is: its stages and streams.

    RUN_DIR is a run directory (default: the newest run).
    """
    from workflow.report.report_files import compute_report
    from workflow.report.show.printing import show_status
    from workflow.run.run_directory import find_run

    show_status(compute_report(find_run(run_dir)))


@wf.command()
@click.argument("stage", required=False)
@click.option("--run-dir", type=click.Path(path_type=Path), help="The run directory (default: the newest run)")
@click.option(
    "--lines",
    "-n",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="How many of the last lines of each file",
)
@click.option("--follow", "-f", is_flag=True, help="Print new lines until the run ends")
@click.option("--raw", is_flag=True, help="Do not hide the lines of SST's log and those caused by Ctrl-C")
def logs(stage: str | None, run_dir: Path | None, lines: int, follow: bool, raw: bool) -> None:
    """Show what the stages of a run printed.

    STAGE is the name of a stage (default: all stages).
    """
    from workflow.report.read.stage_logs import follow_logs, last_logs
    from workflow.run.run_directory import find_run

    directory = find_run(run_dir)
    show = follow_logs if follow else last_logs
    for line in show(directory, stage, lines, raw):
        click.echo(line)


@wf.command()
@click.argument("run_dir", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON")
def report(run_dir: Path | None, as_json: bool) -> None:
    """Show what a run did; write report.html and report.json.

    RUN_DIR is a run directory (default: the newest run).
    """
    from workflow.report.report_files import write_report
    from workflow.run.run_directory import find_run

    directory = find_run(run_dir)
    result = write_report(directory)
    if as_json:
        click.echo(result.model_dump_json(indent=2))
        return
    from workflow.report.show.printing import show_report

    show_report(result)
    if (directory / "report.html").exists():
        click.echo(directory / "report.html")


@wf.command()
@click.argument("run_a", type=click.Path(path_type=Path))
@click.argument("run_b", type=click.Path(path_type=Path))
@click.option("--tolerance", default=0.0, show_default=True, help="Largest relative difference of equal values")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON")
def compare(run_a: Path, run_b: Path, tolerance: float, as_json: bool) -> None:
    """Compare the data of two runs or of two files.

    RUN_A and RUN_B are two run directories, or two BP or HDF5 files. Exits with 0 when the data are equal, 1 when they
    differ, 2 when there is nothing to compare.
    """
    from workflow.compare.compare_runs import compare_runs

    result = compare_runs(run_a, run_b, tolerance)
    if as_json:
        click.echo(result.model_dump_json(indent=2))
    else:
        from workflow.report.show.printing import show_comparison

        show_comparison(result)
    sys.exit(result.exit_code)


@wf.command()
@click.argument("name", required=False, shell_complete=complete_component)
def components(name: str | None) -> None:
    """List the components, or describe one.

    NAME is a component: show its parameters, what it reads and what it writes.
    """
    from workflow.report.show.component_tables import component_table
    from workflow.report.show.printing import show_component, show_table
    from workflow.spec.component_files import known_components, load_component

    if name:
        show_component(load_component(name))
    else:
        show_table(component_table([load_component(each) for each in known_components()]))


@wf.command()
@click.argument("pipeline", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON")
def doctor(pipeline: Path | None, as_json: bool) -> None:
    """Show what is installed here, and how to get the rest.

    PIPELINE is a YAML file: show also what each of its stages needs, and whether it is here. Exits with 2 when
    something required is missing.
    """
    from workflow.cli.doctor import examine, show_findings

    findings = examine(GivenPipeline(pipeline).load() if pipeline is not None else None)
    if as_json:
        click.echo(json.dumps([finding.fields() for finding in findings], indent=2))
    else:
        show_findings(findings)
    sys.exit(EXIT_BAD_INPUT if any(finding.state == "missing" and finding.required for finding in findings) else 0)


@wf.command()
def schema() -> None:
    """Print the JSON Schema of the pipeline file, for editors."""
    from workflow.spec.json_schema import pipeline_schema

    click.echo(json.dumps(pipeline_schema(), indent=2))


@wf.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script for shell completion.

    Use it as `eval "$(wf completion bash)"`.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is not None:
        click.echo(kind(wf, {}, "wf", "_WF_COMPLETE").source())


def main() -> None:
    """`wf`: run the verb; show errors meant for users without a traceback; exit with a documented code."""
    # Importing modules leaves no garbage, and garbage at the end goes with the process: collecting it would cost about
    # 20 ms at the start and 30 ms at the end.
    gc.set_threshold(200_000)
    atexit.register(gc.freeze)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # searching for them costs 40 ms
    try:
        wf.main(prog_name="wf", standalone_mode=False)
    except WfError as error:
        _exit_with(error.problems, error.exit_code)
    except NO_ARGUMENTS as error:
        error.show()
        sys.exit(EXIT_BAD_INPUT)
    except click.ClickException as error:
        _exit_with([usage_problem(error, wf, sys.argv[1:])], EXIT_BAD_INPUT)
    except (click.Abort, KeyboardInterrupt):
        _exit_with([to_message("error", "interrupted")], EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader left: `wf plan --json | head`
        sys.stderr.close()  # or Python complains at exit
        sys.exit(0)


def _exit_with(problems: Sequence[Problem], code: int) -> NoReturn:
    from workflow.report.show.printing import show_errors

    show_errors(problems)
    sys.exit(code)


if __name__ == "__main__":
    main()
