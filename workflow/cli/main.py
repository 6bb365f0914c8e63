"""The command line: one small function per verb. Only this file prints help and exits.

Other modules of `workflow` are imported inside the verb that needs them: no command pays for what it does not use.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workflow import __version__
from workflow.cli.archive_verbs import archive, archive_of_campaign
from workflow.cli.calibration_verbs import calibrate
from workflow.cli.campaign_verbs import campaign
from workflow.cli.clean_verb import clean
from workflow.cli.completion import (
    complete_component,
    complete_example,
    complete_key,
    complete_run,
    complete_stage,
    script,
)
from workflow.cli.graph_verb import graph
from workflow.cli.look_verb import look
from workflow.cli.options import (
    GivenPipeline,
    check_portable_option,
    check_strategy_options,
    json_option,
    pipeline_options,
    run_argument,
    strategy_options,
    wide_option,
)
from workflow.cli.run_verbs import cancel, runs, watch
from workflow.cli.site_verbs import site, sites
from workflow.cli.verb_group import VerbGroup
from workflow.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_OK, Problem, Severity, SpecError, WfError, to_message
from workflow.formatting import plural

if TYPE_CHECKING:
    from workflow.plan.plan_model import Plan

# `wf` alone prints its help: an error of click since 8.2.
NO_ARGUMENTS = getattr(click.exceptions, "NoArgsIsHelpError", ())


@click.group(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "--version", prog_name="wf")
def wf() -> None:
    """Couple simulations, analyses and sinks by ADIOS2 streams or files, from one YAML file.

    Start with `wf init my-first`, then `wf run my-first/pipeline.yaml`. `wf VERB --help` describes each verb.
    """


@wf.command()
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option(
    "--example",
    default="00-starter",
    show_default=True,
    shell_complete=complete_example,
    metavar="NAME",
    help="The example to copy",
)
@click.option("--list", "list_examples", is_flag=True, help="List the examples, and write nothing")
def init(directory: Path | None, example: str, list_examples: bool) -> None:
    """Write a working pipeline into a new directory.

    DIRECTORY is created; an example is copied there.
    """
    from workflow.spec.shipped import copy_example, known_examples

    if list_examples:
        for name, title in known_examples().items():
            click.echo(f"{name:24} {title}")
        return
    if directory is None:
        raise WfError("init needs the name of a new directory", "for example `wf init first`")
    pipeline = copy_example(example, directory)
    click.echo(f"wrote {pipeline}\n  next: wf run {shlex.quote(str(pipeline))}")


@wf.command()
@pipeline_options
@json_option("Print the messages as JSON")
@click.option("--strict", is_flag=True, help="Exit with 2 when this machine lacks something, too: for CI")
def check(given: GivenPipeline, as_json: bool, strict: bool) -> None:
    """List all mistakes in a pipeline file, and what this machine lacks for it; start no stage.

    PIPELINE is the YAML file. Exits with 2 when it has a mistake. What is missing here is a warning.
    """
    plan: Plan | None = None
    problems: list[Problem] = []
    try:
        plan, problems = _checked(given, strict)
    except WfError as error:
        if not as_json:
            raise
        problems = error.problems
    errors = [problem for problem in problems if problem.level == "error"]
    if as_json:
        from workflow.cli.json_output import CheckResult

        click.echo(CheckResult.of(given.path, plan, problems).to_json(), nl=False)
        sys.exit(EXIT_BAD_INPUT if errors else EXIT_OK)
    from workflow.report.show.printing import show_messages

    show_messages([problem for problem in problems if problem.level != "error"])
    if errors or plan is None:
        raise SpecError(errors)
    warnings = sum(problem.level == "warning" for problem in problems)
    counts = [plural(len(plan.stages), "stage"), plural(len(plan.streams), "stream")]
    counts += [plural(warnings, "warning")] if warnings else []
    click.echo(f"{given.path}: ok ({', '.join(counts)})")


def _checked(given: GivenPipeline, strict: bool) -> tuple[Plan, list[Problem]]:
    """The plan, and the messages about it: what is missing here is an error if `strict`, else a warning.

    Raises SpecError for mistakes.
    """
    from dataclasses import replace

    from workflow.api import make_plan, notes_on
    from workflow.api.plans import find_site
    from workflow.preflight import preflight
    from workflow.site.allocation.discover import discover_allocation

    loaded = given.load()
    allocation = discover_allocation()
    site = find_site(loaded, allocation)
    plan = make_plan(loaded, site, allocation)
    level: Severity = "error" if strict else "warning"
    found = [
        replace(problem, level=level) if problem.level != "note" else problem
        for problem in preflight(loaded, plan, site)
    ]
    return plan, [*sorted(found, key=lambda problem: problem.level == "note"), *notes_on(plan, loaded)]


@wf.command()
@pipeline_options
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON, byte for byte as a run writes it")
@click.option(
    "--portable", is_flag=True, help="With --json: placeholders for this machine, so that CI can compare two plans"
)
@click.option(
    "--explain",
    metavar="KEY",
    shell_complete=complete_key,
    help="Show where a value comes from: streams.atoms.queue.limit",
)
@click.option("--job-script", is_flag=True, help="Print the script that `wf run` would submit as a batch job")
@strategy_options
@wide_option
def plan(
    given: GivenPipeline,
    as_json: bool,
    portable: bool,
    job_script: bool,
    explain: str | None,
    strategies: str | None,
    blocks: str | None,
    shape: str | None,
    wide: bool,
) -> None:
    """Show what a run would start, and how; start nothing.

    PIPELINE is the YAML file.
    """
    from workflow.api import forecast_plan, make_plan, notes_on, portable_plan
    from workflow.api.plans import find_site, job_notes, show_warnings
    from workflow.site.allocation.discover import discover_allocation

    check_strategy_options(strategies, blocks, shape)
    check_portable_option(portable, as_json, others=bool(explain or strategies))
    loaded = given.load()
    if portable:
        click.echo(portable_plan(loaded), nl=False)
        return
    allocation = discover_allocation()
    site = find_site(loaded, allocation)
    decided = make_plan(loaded, site, allocation)
    if job_script:
        from workflow.cli.submitting import print_job_script

        print_job_script(decided, site)
    elif explain:
        from workflow.plan.explain import explain_key

        click.echo(explain_key(loaded, decided, explain))
    elif strategies and as_json:
        from workflow.report.show.strategy_table import strategies_json

        click.echo(strategies_json(decided, strategies, blocks, shape))
    elif strategies:
        from workflow.report.show.printing import show_strategies

        show_strategies(decided, strategies, blocks, shape, wide)
    elif as_json:
        click.echo(decided.to_json(), nl=False)
    else:
        from workflow.report.show.printing import show_forecast, show_messages, show_plan
        from workflow.report.show.rich_terminal import make_output

        console = make_output(wide=wide)

        show_plan(decided, console)
        show_messages(notes_on(decided, loaded), console)
        try:
            forecast = forecast_plan(decided)
        except WfError as error:
            # A plan is a plan without a forecast.
            show_messages([replace(problem, level="warning") for problem in error.problems])
        else:
            if forecast is not None:
                show_forecast(forecast, loaded, console)
        if allocation.source == "local":
            show_warnings(job_notes(decided, site))


wf.add_command(graph)


@wf.command()
@pipeline_options
@click.option(
    "--run-dir", type=click.Path(path_type=Path), help="The run directory to create (default: runs/NAME-TIME-ID)"
)
@click.option("--dry-run", is_flag=True, help="Print the plan as JSON; start nothing")
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, not the progress")
@click.option("--detach", "-d", is_flag=True, help="Return when the run has started; it goes on without a terminal")
@click.option("--no-probe", is_flag=True, help="Do not prove the placement on the nodes first: `--set proof=off`")
def run(given: GivenPipeline, run_dir: Path | None, dry_run: bool, quiet: bool, detach: bool, no_probe: bool) -> None:
    """Run a pipeline, show its progress, and wait for its end.

    PIPELINE is the YAML file. Exits with 0 when the run succeeded, 1 when it failed, 2 when it could not start, 3 when
    it succeeded and did not keep what the file expects (`expect`), 130 when it was interrupted, and 75 when it was
    stopped in order because its allocation was about to end. Ctrl-C and a closed terminal stop the run, unless it was
    started with --detach: see `wf watch` and `wf cancel`. On a site with a scheduler, outside of its jobs, the run is
    submitted as one job, which goes on without this terminal.
    """
    from workflow.api import detach_run, make_plan, start_run
    from workflow.api.plans import find_site, refuse_allocation, refuse_missing, show_warnings
    from workflow.site.allocation.discover import discover_allocation

    if no_probe:
        given = replace(given, sets=(*given.sets, "proof=off"))
    loaded = given.load()
    allocation = discover_allocation()
    site = find_site(loaded, allocation)
    decided = make_plan(loaded, site, allocation)
    if dry_run:
        click.echo(decided.to_json(), nl=False)
        return
    if decided.allocation is not None and allocation.source == "local":
        from workflow.cli.submitting import submit_and_follow

        sys.exit(submit_and_follow(loaded, decided, site, run_dir, detach=detach, quiet=quiet))
    found = refuse_allocation(decided, site, allocation)
    warnings = [*refuse_missing(loaded, decided, site), *found]
    if detach:
        show_warnings(warnings)
        directory = detach_run(loaded, decided, run_dir)
        name = directory.name if run_dir is None else shlex.quote(str(directory))
        click.echo(f"{directory.name} has started: {directory}\n  next: wf watch {name}, or wf cancel {name}")
        return
    from workflow.report.show.live_display import Progress

    directory, states = start_run(loaded, decided, run_dir, allocation)
    with contextlib.closing(states):
        # The run starts before anything is printed: a terminal that accepts no output does not hold it up.
        state = next(states)
        show_warnings(warnings)
        with Progress(decided, directory, quiet=quiet) as progress:
            progress.update(state)
            # The first stages are starting now: import meanwhile what only the end needs.
            from workflow.report.html.page import compile_templates
            from workflow.report.read.expectations_file import keep_expectations
            from workflow.report.report_files import write_report
            from workflow.report.show.printing import show_end

            compile_templates()
            gc.freeze()  # all that is imported by now stays: later collections need not examine it
            for state in states:
                progress.update(state)
    report = write_report(directory, state)
    keep_expectations(directory, report)
    show_end(report, directory)
    sys.exit(report.run.exit_code)


wf.add_command(watch)


@wf.command()
@run_argument
@json_option("Print the report so far as JSON")
@wide_option
def status(run: Path | None, as_json: bool, wide: bool) -> None:
    """Show how far a run is: its stages and streams.

    RUN is the name of a run below runs/ (its beginning or its id is enough), a path, or `latest` (default: the newest
    run).
    """
    from workflow.report.report_files import compute_report
    from workflow.report.show.printing import show_status
    from workflow.report.show.rich_terminal import make_output
    from workflow.run.run_names import find_run

    result = compute_report(run_dir := find_run(run))
    if result.run.job and result.run.state in ("submitted", "lost"):
        from workflow.cli.following import ask_scheduler

        result = ask_scheduler(run_dir, result)
    if as_json:
        click.echo(result.to_json(), nl=False)
    else:
        show_status(result, make_output(wide=wide))


wf.add_command(cancel)
wf.add_command(runs)
wf.add_command(clean)


@wf.command()
@click.argument("stage", required=False, shell_complete=complete_stage)
@click.option(
    "--run",
    "--run-dir",
    "-r",
    "run",
    metavar="RUN",
    type=click.Path(path_type=Path),
    shell_complete=complete_run,
    is_eager=True,
    help="The name of a run below runs/, a path, or `latest` (default: the newest run)",
)
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
def logs(stage: str | None, run: Path | None, lines: int, follow: bool, raw: bool) -> None:
    """Show what the stages of a run printed.

    STAGE is the name of a stage (default: all stages).
    """
    from workflow.report.read.stage_logs import follow_logs, last_logs
    from workflow.run.run_names import find_run

    directory = find_run(run)
    show = follow_logs if follow else last_logs
    for line in show(directory, stage, lines, raw):
        click.echo(line)


@wf.command()
@run_argument
@json_option("Print the report as JSON")
@wide_option
@click.option(
    "--junit",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the verdict and each expectation as test cases: JUnit's XML",
)
def report(run: Path | None, as_json: bool, wide: bool, junit: Path | None) -> None:
    """Show what a run did; write report.html and report.json.

    RUN is the name of a run below runs/ (its beginning or its id is enough), a path, or `latest` (default: the newest
    run).
    """
    from workflow.report.report_files import write_report
    from workflow.run.run_names import find_run

    directory = find_run(run)
    result = write_report(directory)
    if junit is not None:
        from workflow.cli.run_junit import write_run_junit

        write_run_junit(junit, result)
    if as_json:
        click.echo(result.to_json(), nl=False)
        return
    from workflow.report.show.printing import show_report
    from workflow.report.show.rich_terminal import make_output

    show_report(result, make_output(wide=wide))
    if (directory / "report.html").exists():
        click.echo(directory / "report.html")


@wf.command()
@click.argument("run_a", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.argument("run_b", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.option("--tolerance", default=0.0, show_default=True, help="Largest relative difference of equal values")
@json_option("Print the comparison as JSON")
@wide_option
def compare(run_a: Path, run_b: Path, tolerance: float, as_json: bool, wide: bool) -> None:
    """Compare the data of two runs or of two files.

    RUN_A and RUN_B are two runs (the name below runs/, a path, or `latest`), or two BP or HDF5 files. Exits with 0
    when the data are equal, 1 when they differ, 2 when there is nothing to compare.
    """
    from workflow.compare.compare_runs import compare_runs

    result = compare_runs(run_a, run_b, tolerance)
    if as_json:
        click.echo(result.model_dump_json(indent=2))
    else:
        from workflow.report.show.printing import show_comparison
        from workflow.report.show.rich_terminal import make_output

        show_comparison(result, make_output(wide=wide))
    sys.exit(result.exit_code)


wf.add_command(look)
campaign.add_command(archive_of_campaign)
wf.add_command(campaign)
wf.add_command(archive)


@wf.command()
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


wf.add_command(sites)
wf.add_command(site)
wf.add_command(calibrate)


@wf.command()
@click.argument("pipeline", required=False, type=click.Path(path_type=Path))
@json_option("Print the findings as JSON")
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
    click.echo(script(shell, wf))


def main() -> None:
    """`wf`: run the verb; show errors meant for users without a traceback; exit with a documented code."""
    # Importing modules leaves no garbage, and garbage at the end goes with the process: collecting it would cost about
    # 20 ms at the start and 30 ms at the end.
    gc.set_threshold(200_000)
    atexit.register(gc.freeze)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # searching for them costs 40 ms
    try:
        wf.main(prog_name="wf", standalone_mode=False)
        return
    except WfError as error:
        problems, code = error.problems, error.exit_code
    except NO_ARGUMENTS as error:
        error.show()
        sys.exit(EXIT_BAD_INPUT)
    except click.ClickException as error:
        from workflow.cli.usage_errors import usage_problem

        problems, code = [usage_problem(error, wf, sys.argv[1:])], EXIT_BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        problems, code = [to_message("note", "interrupted")], EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader left: `wf plan --json | head`
        sys.stderr.close()  # or Python complains at exit
        sys.exit(0)
    from workflow.report.show.printing import show_errors

    show_errors(problems)
    gc.collect()  # the error is gone, and with it ADIOS2's objects, of which ADIOS2 would complain at the exit
    sys.exit(code)


if __name__ == "__main__":
    main()
