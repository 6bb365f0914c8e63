"""What `wf run` does outside of an allocation, on a site with a scheduler: submit, say how to go on, follow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workflow.errors import EXIT_OK, RunError, SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workflow.errors import Problem
    from workflow.plan.plan_model import Plan
    from workflow.site.site_model import Site
    from workflow.spec.load import Loaded


def submit_and_follow(
    loaded: Loaded, plan: Plan, site: Site, run_dir: Path | None, *, detach: bool, quiet: bool, tags: Sequence[str] = ()
) -> int:
    """Write the run directory, submit its job, and follow the run unless `detach`. Returns the exit code.

    Raises RunError when the job is not accepted.
    """
    from workflow.api import create_run
    from workflow.api.plans import job_notes, show_warnings
    from workflow.cli.following import show_to_the_end
    from workflow.run.run_directory import RUNS
    from workflow.submit.submission import check_submission, submit_run

    check_submission(plan, site, (run_dir or Path(RUNS)).absolute())
    show_warnings([*_missing_here(loaded, plan, site), *job_notes(plan, site)])
    directory = create_run(loaded, plan, run_dir, tags)
    job = submit_run(plan, site, directory)
    click.echo(f"{directory.name}: {job.text} was submitted, {directory}")
    if detach:
        click.echo(f"  next: wf watch {directory.name}, or wf cancel {directory.name}")
        return EXIT_OK
    return show_to_the_end(directory, quiet)


def _missing_here(loaded: Loaded, plan: Plan, site: Site) -> list[Problem]:
    """What this machine lacks for the stages, as warnings: modules of the job may bring it. Without modules the nodes
    have what the login node has: raises SpecError then.
    """
    from workflow.api.plans import refuse_missing

    try:
        return refuse_missing(loaded, plan, site)
    except SpecError as error:
        if not site.modules:
            raise
        return [replace(problem, level="warning") for problem in error.problems]


def print_job_script(plan: Plan, site: Site) -> None:
    """Print the script that `wf run` would submit. Raises RunError where it would submit none."""
    from workflow.api.plans import job_notes, show_warnings
    from workflow.site.queue_model import HOW_TO_SUBMIT
    from workflow.submit.submission import job_script

    if plan.allocation is None:
        text = f"the file of site {site.site} has no `scheduler:`, and `wf run` starts the stages without a job"
        raise RunError(text, f"{HOW_TO_SUBMIT}, or name another site: `--site NAME`")
    click.echo(job_script(plan, site), nl=False)
    show_warnings(job_notes(plan, site))
