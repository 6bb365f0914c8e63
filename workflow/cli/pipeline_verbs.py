"""The verbs about a pipeline file: get one, check it, plan it, run it."""

from __future__ import annotations

import gc
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workflow.cli.options import (
    GivenPipeline,
    check_strategy_options,
    json_option,
    pipeline_options,
    reuse_option,
    run_argument,
    strategy_options,
    tag_option,
)
from workflow.errors import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_OK, Problem, RunError, Severity, SpecError, WfError
from workflow.formatting import plural

if TYPE_CHECKING:
    from workflow.api.reuses import PlannedReuse
    from workflow.api.runs import PlannedRun
    from workflow.plan.plan_model import Plan
    from workflow.site.site_model import Site


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option(
    "--example",
    default="00-starter",
    show_default=True,
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


@click.command()
@pipeline_options
@json_option("Print the messages as JSON")
@click.option("--strict", is_flag=True, help="Exit with 2 also when this machine lacks something (for CI)")
def check(given: GivenPipeline, as_json: bool, strict: bool) -> None:
    """List all mistakes in a pipeline file; start nothing.

    PIPELINE is the YAML file. Exits with 2 when it has a mistake. What this machine lacks for it is a warning.
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
    from workflow.api.runs import plan_run
    from workflow.plan.plan_notes import located
    from workflow.preflight import preflight

    planned = plan_run(given.load())
    level: Severity = "error" if strict else "warning"
    found = _with_level(level, preflight(planned.pipeline, planned.plan, planned.site))
    return planned.plan, [
        *sorted(found, key=lambda problem: problem.level == "note"),
        *located(planned.plan.advice, planned.pipeline.origins),
    ]


def _with_level(level: Severity, problems: list[Problem]) -> list[Problem]:
    """The problems, of which those that are more than notes get this level."""
    return [problem if problem.level == "note" else problem._replace(level=level) for problem in problems]


@click.command()
@pipeline_options
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON, byte for byte as a run writes it")
@click.option(
    "--explain",
    metavar="KEY",
    help="Show where a value comes from: streams.atoms.queue.limit",
)
@click.option("--job-script", is_flag=True, help="Print the script that `wf run` would submit as a batch job")
@strategy_options
@reuse_option
@click.option("--wide", is_flag=True, help="Show everything, including engine parameters, environment and launch lines")
def plan(
    given: GivenPipeline,
    as_json: bool,
    job_script: bool,
    explain: str | None,
    strategies: str | None,
    blocks: str | None,
    shape: str | None,
    reuse: str | None,
    wide: bool,
) -> None:
    """Show what a run would start, and how; start nothing.

    PIPELINE is the YAML file. The first line says whether it fits and what is missing. `--wide` shows everything.
    """
    from workflow.api.plans import forecast_plan, job_notes, show_warnings
    from workflow.api.runs import plan_run

    check_strategy_options(strategies, blocks, shape)
    loaded = given.load()
    planned = plan_run(loaded)
    reused = None
    if reuse is not None:
        from workflow.api.reuses import plan_reuse

        reused = plan_reuse(planned, reuse or None)
        planned = reused.planned
    decided, site = planned.plan, planned.site
    if job_script:
        _print_job_script(decided, site)
    elif explain:
        from workflow.plan.explain import explain_key

        click.echo(explain_key(planned.pipeline, decided, explain))
    elif strategies and as_json:
        from workflow.report.show.strategy_table import strategies_json

        click.echo(strategies_json(decided, strategies, blocks, shape))
    elif strategies:
        from workflow.report.show.printing import show_strategies

        show_strategies(decided, strategies, blocks, shape, wide)
    elif as_json:
        click.echo(decided.to_json(), nl=False)
    else:
        from workflow.plan.plan_notes import located
        from workflow.preflight import preflight
        from workflow.report.show.printing import show_forecast, show_messages, show_plan
        from workflow.report.show.terminal import make_output

        output, origins = make_output(wide=wide), planned.pipeline.origins
        found = preflight(planned.pipeline, decided, site)
        show_plan(decided, output, [each for each in found if each not in loaded.warnings], whole=wide)
        if reused is not None:
            click.echo(_reuse_text(reused))
        # What is missing here is not missing where the plan may be executed: the plan is good.
        show_messages([*_with_level("warning", found), *located(decided.advice, origins)], output)
        try:
            forecast = forecast_plan(decided)
        except WfError as error:
            # A plan is a plan without a forecast.
            show_messages([problem._replace(level="warning") for problem in error.problems])
        else:
            if forecast is not None:
                show_forecast(forecast, output)
        if planned.allocation.source == "local":
            show_warnings(job_notes(decided, site))


def _print_job_script(plan: Plan, site: Site) -> None:
    """Print the script that `wf run` would submit. Raises RunError where it would submit none."""
    from workflow.api.plans import job_notes, show_warnings
    from workflow.site.queue_model import HOW_TO_SUBMIT
    from workflow.submit.submission import job_script

    if plan.allocation is None:
        text = f"the file of site {site.site} has no `scheduler:`, and `wf run` starts the stages without a job"
        raise RunError(text, f"{HOW_TO_SUBMIT}, or name another site: `--site NAME`")
    click.echo(job_script(plan, site), nl=False)
    show_warnings(job_notes(plan, site))


@click.command()
@pipeline_options
@click.option(
    "--run-dir", type=click.Path(path_type=Path), help="The run directory to create (default: runs/NAME-TIME-ID)"
)
@click.option("--dry-run", is_flag=True, help="Print the plan as JSON; start nothing")
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, not the progress")
@click.option("--detach", "-d", is_flag=True, help="Return once the run has started; it continues without a terminal")
@click.option("--no-probe", is_flag=True, help="Do not prove the placement on the nodes first: `--set proof=off`")
@tag_option("Add this tag to the run: `wf runs --tag TAG` lists it (repeatable)")
@reuse_option
def run(
    given: GivenPipeline,
    run_dir: Path | None,
    dry_run: bool,
    quiet: bool,
    detach: bool,
    no_probe: bool,
    tags: tuple[str, ...],
    reuse: str | None,
) -> None:
    """Run a pipeline, show its progress, and wait for its end.

    PIPELINE is the YAML file. Exits with 0 when the run succeeded, 1 when it failed, 2 when it could not start, 3 when
    it succeeded but did not meet an expectation (`expect`), 130 when it was interrupted, and 75 when it was
    stopped cleanly because its allocation was about to end. Ctrl-C and a closed terminal stop the run, unless it was
    started with --detach: see `wf watch` and `wf cancel`. On a site with a scheduler, outside of its jobs, the run is
    submitted as one job, which continues without this terminal.
    """
    from workflow.api.runs import plan_run

    if no_probe:
        given = given._replace(sets=(*given.sets, "proof=off"))
    planned = plan_run(given.load())
    if reuse is not None:
        planned = _with_reuse(planned, reuse, run_dir, dry_run)
    if dry_run:
        click.echo(planned.plan.to_json(), nl=False)
        return
    _run_planned(planned, run_dir, tags, quiet=quiet, detach=detach)


def _with_reuse(planned: PlannedRun, run: str, run_dir: Path | None, dry_run: bool) -> PlannedRun:
    """The same with what is re-used of an earlier run. Says what that is; of a dry run the plan says it."""
    from workflow.api.reuses import plan_reuse

    reused = plan_reuse(planned, run or None)
    part = reused.planned.plan.part
    if part is not None and run_dir is not None:
        _check_beside(run_dir, Path(part.run))
    click.echo(_reuse_text(reused), err=dry_run)
    return reused.planned


def _reuse_text(reused: PlannedReuse) -> str:
    from workflow.report.show.part_table import reuse_text

    return reuse_text(None if reused.run is None else reused.run.name, reused.reasons)


def _check_beside(run_dir: Path, other: Path) -> None:
    """Raise RunError where a run would have links to one in another folder."""
    folder = other.resolve().parent
    if run_dir.resolve().parent != folder:
        text = f"{run_dir} is not in the folder of {other.name}: the files of a part are links to those before it"
        raise RunError(text, f"use a name there: --run-dir {folder / run_dir.name}")


def _run_planned(
    planned: PlannedRun, run_dir: Path | None, tags: tuple[str, ...] = (), *, quiet: bool, detach: bool
) -> None:
    """Run it here, in a process of its own, or as a job; exit as the run does, unless it is detached."""
    from workflow.api.plans import show_warnings
    from workflow.api.runs import detach_run, run_planned_here, submit_planned

    if planned.is_job:
        from workflow.cli.following import cancel_parts, show_to_the_end
        from workflow.submit.submission import SubmissionInterruptedError

        try:
            directory, job = submit_planned(planned, run_dir, tags, lambda text: click.echo(text, err=True))
        except SubmissionInterruptedError as interrupted:
            # Told first: a second Ctrl-C ends this.
            click.echo(f"interrupted: {interrupted}", err=True)
            cancel_parts(interrupted.run_dir)
            sys.exit(EXIT_INTERRUPTED)
        click.echo(f"{directory.name}: {job.text} was submitted, {directory}")
        if detach:
            click.echo(f"  next: wf watch {directory.name}, or wf cancel {directory.name}")
            return
        sys.exit(show_to_the_end(directory, quiet))
    if detach:
        show_warnings(planned.check_here())
        directory = detach_run(planned.loaded, planned.plan, run_dir, tags)
        name = directory.name if run_dir is None else shlex.quote(str(directory))
        click.echo(f"{directory.name} has started: {directory}\n  next: wf watch {name}, or wf cancel {name}")
        return
    report, directory = run_planned_here(planned, run_dir, tags, quiet=quiet, while_starting=_import_for_the_end)
    from workflow.report.show.printing import show_end

    show_end(report, directory)
    sys.exit(report.run.exit_code)


@click.command()
@run_argument
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Change a value of the pipeline (repeatable)")
@click.option("--run-dir", type=click.Path(path_type=Path), help="The directory of the new part (default: below runs/)")
@click.option("--dry-run", is_flag=True, help="Print where each stage would begin; start nothing")
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, not the progress")
@click.option("--detach", "-d", is_flag=True, help="Return once the part has started; it continues without a terminal")
def resume(
    run: Path | None, sets: tuple[str, ...], run_dir: Path | None, dry_run: bool, quiet: bool, detach: bool
) -> None:
    """Go on with a run that has ended before its work was done.

    RUN is the name of a run below runs/ (its beginning or its id is enough), a path, or `latest` (default: the newest
    run). However it has ended, stages that had done their work are not started again, and the others go on in a new
    directory, a part of the run: an analysis at the step where it was, a simulation at the newest state that it had
    saved. Files of streams hold the steps of all parts. Exits as `wf run` does.
    """
    from workflow.api.resumes import plan_part
    from workflow.report.show.part_table import planned_part_text
    from workflow.run.records.find_runs import find_run, newest_part
    from workflow.submit.next_part import awaits_next_part

    newest = newest_part(find_run(run))
    if awaits_next_part(newest):
        text = f"the job of {newest.name} is about to submit the next part"
        raise RunError(text, f"wait for it: wf watch {newest.name}; or end it: wf cancel {newest.name}")
    if run_dir is not None:
        _check_beside(run_dir, newest)
    part = plan_part(newest, sets=sets)
    own = [stage.name for stage in part.planned.plan.stages if stage.component is None]
    if dry_run or not quiet:
        click.echo(planned_part_text(part.plan, part.cut, part.reached, own))
    if not dry_run:
        _run_planned(part.planned, run_dir, quiet=quiet, detach=detach)


@click.command()
@run_argument
@click.option("--stages", default="", metavar="A,B", help="The stages that run again (default: all that read a stream)")
@click.option("--pace", type=click.Choice(["max", "recorded"]), default="max", help="How fast the steps come")
@click.option("--steps", default="", metavar="FIRST:LAST", help="Only these steps, counted from 0, LAST not included")
@click.option("--pipeline", type=click.Path(path_type=Path), help="Another pipeline file with these stages and streams")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Change a value of the pipeline (repeatable)")
@click.option("--run-dir", type=click.Path(path_type=Path), help="The directory of the new run (default: below runs/)")
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, not the progress")
def replay(
    run: Path | None,
    stages: str,
    pace: str,
    steps: str,
    pipeline: Path | None,
    sets: tuple[str, ...],
    run_dir: Path | None,
    quiet: bool,
) -> None:
    """Run the analyses of a run again, on what it has recorded.

    RUN is the name of a run below runs/ (its beginning or its id is enough), a path, or `latest` (default: the newest
    run). Recorded streams stand in for the stages that are not named: files, spools (`keep: true`), and what the
    component `archive` has kept. Exits as `wf run` does.
    """
    from workflow.api.replays import load_replay
    from workflow.api.runs import plan_run, run_planned_here
    from workflow.plan.topology.replayed_pipeline import ReplayOptions
    from workflow.report.show.printing import show_end
    from workflow.run.records.find_runs import find_run

    names = [name.strip() for name in stages.split(",") if name.strip()]
    options = ReplayOptions(pace, *_step_range(steps))
    loaded = load_replay(find_run(run), names, pipeline=pipeline, sets=sets, options=options)
    report, directory = run_planned_here(plan_run(loaded), run_dir, quiet=quiet)
    show_end(report, directory)
    sys.exit(report.run.exit_code)


def _step_range(text: str) -> tuple[int, int]:
    """`40:60` → (40, 60); either number may be left out. Raises UsageError."""
    first, colon, last = text.partition(":")
    if text and (not colon or not all(part.isdigit() or not part for part in (first, last))):
        raise click.UsageError(f"--steps {text}: expected FIRST:LAST; for example `--steps 40:60`")
    if first and last and int(first) >= int(last):
        raise click.UsageError(f"--steps {text}: the first step is not before the last; for example `--steps 40:60`")
    return int(first or 0), int(last or 0)


def _import_for_the_end() -> None:
    """What only the end of a run needs, while its first stages start."""
    import workflow.report.show.printing  # noqa: F401
    from workflow.report.html.page import compile_templates

    compile_templates()
    gc.freeze()  # all that is imported by now stays: later collections need not examine it
