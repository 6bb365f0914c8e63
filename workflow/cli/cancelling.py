"""Ends a run and prints what was done: for `wf cancel`, and for Ctrl-C in one that follows a run."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workflow.errors import EXIT_OK, EXIT_RUN_FAILED, RunError, to_message

if TYPE_CHECKING:
    from workflow.run.cancellation import CleanUp
    from workflow.run.job_record import JobRecord
    from workflow.run.lease import Liveness
    from workflow.submit.job_cancellation import NamedJob


def cancel_run(run_dir: Path, now: bool = False) -> int:
    """End a run and print what was done. Returns the exit code.

    Through the run directory first, the scheduler second; then what is left is ended here. Raises RunError when the
    run could not be ended.
    """
    from workflow.formats.job_end_file import read_job_end
    from workflow.run.cancellation import clean_up, stop_run
    from workflow.run.job_record import read_job
    from workflow.run.lease import examine_leases, has_lease
    from workflow.run.run_directory import read_filled_plan

    job, of_job, is_known = read_job(run_dir), "", True
    if _print_verdict(run_dir, "has ended before: "):
        return EXIT_OK if job is None or not _may_have_job(run_dir) else _end_job_of_cancelled_run(run_dir, job)
    plan = read_filled_plan(run_dir)
    if has_lease(run_dir):
        click.echo(f"{run_dir.name}: {'killing the stages' if now else 'asking the stages to stop'}…", err=True)
    problem: RunError | None = None
    lives: Liveness | None = None
    try:
        lives = stop_run(run_dir, plan, "kill" if now else "stop")
    except RunError as error:
        if job is None:
            raise
        problem = error  # the scheduler ends it all the same
    is_dead = lives is not None and lives.lease is not None and not lives.alive
    if job is not None and is_dead and read_job_end(run_dir) is not None:
        from workflow.submit.job_watch import settle_job

        settle_job(run_dir, job, within_s=0.0, is_lost=True)
    if job is not None and (problem is not None or not _has_verdict(run_dir)):
        from workflow.submit.job_cancellation import end_job

        job, of_job, is_known = _with_id(run_dir, job)
        if job.job:
            if not end_job(run_dir, job):
                raise RunError(
                    f"{job.text} was cancelled and has not ended yet", f"look again later: wf status {run_dir.name}"
                )
            click.echo(f"{run_dir.name}: {job.text} was cancelled")
        if not is_dead:
            # It may have started meanwhile, and then reads the request to stop.
            with contextlib.suppress(RunError):
                stop_run(run_dir, plan, "stop")
    if _print_verdict(run_dir):
        return EXIT_OK if job is None else _end_job_of_ended_run(run_dir, job)
    if lives is None or not is_dead:
        (lives,) = examine_leases([run_dir])
    try:
        done = clean_up(run_dir, lives, of_job)
    except OSError as error:
        raise RunError(f"cannot write the verdict of {run_dir}: {error.strerror}") from error
    code = _print_clean_up(run_dir, lives, done)
    return code if is_known else _warn_of_unknown_job(run_dir)


def _may_have_job(run_dir: Path) -> bool:
    """Whether a run was cancelled before its job has started: the scheduler may still have it."""
    from workflow.run.lease import has_lease
    from workflow.run.run_brief import read_brief

    verdict = read_brief(run_dir).finished
    return not has_lease(run_dir) and verdict is not None and verdict.state == "interrupted"


def _end_job_of_cancelled_run(run_dir: Path, job: JobRecord) -> int:
    """Cancel its job, after another look for one whose submission brought no id. Returns the exit code."""
    job, _, is_known = _with_id(run_dir, job)
    if job.job:
        return _end_job_of_ended_run(run_dir, job)
    return EXIT_OK if is_known else _warn_of_unknown_job(run_dir)


def _with_id(run_dir: Path, job: JobRecord) -> NamedJob:
    """A job as it is known; one whose submission brought no id is looked for, and what was found is printed."""
    from workflow.submit.job_cancellation import NamedJob, look_for_job

    if job.job:
        return NamedJob(job, "", True)
    found = look_for_job(run_dir, job)
    click.echo(f"{run_dir.name}: {found.text}")
    return found


def _warn_of_unknown_job(run_dir: Path) -> int:
    from workflow.report.show.printing import show_errors

    text = "if the job was accepted after all, it ends as soon as it starts: its run has a verdict"
    show_errors([to_message("warning", text, f"when the scheduler answers: wf cancel {run_dir.name} looks again")])
    return EXIT_RUN_FAILED


def _end_job_of_ended_run(run_dir: Path, job: JobRecord) -> int:
    """The supervisor ends with the verdict, and the job with it; one that stays is cancelled. Returns the exit code."""
    from workflow.report.show.printing import show_errors
    from workflow.submit.job_cancellation import end_leftover_job

    try:
        if end_leftover_job(run_dir, job):
            click.echo(f"{run_dir.name}: {job.text} was cancelled: it did not end with the run", err=True)
    except RunError as error:
        show_errors([*error.problems])
        return EXIT_RUN_FAILED
    return EXIT_OK


def _has_verdict(run_dir: Path) -> bool:
    from workflow.run.run_brief import read_brief

    return read_brief(run_dir).finished is not None


def _print_verdict(run_dir: Path, before: str = "") -> bool:
    """Print how the run has ended; returns whether it has."""
    from workflow.run.run_brief import read_brief

    verdict = read_brief(run_dir).finished
    if verdict is None:
        return False
    reason = f" ({verdict.reason})" if verdict.reason and not before else ""
    click.echo(f"{run_dir.name} {before}{verdict.state}" if before else f"{run_dir.name}: {verdict.state}{reason}")
    return True


def _print_clean_up(run_dir: Path, lives: Liveness, done: CleanUp) -> int:
    from workflow.report.show.printing import show_errors

    if lives.lease is None:
        click.echo(f"{run_dir.name}: cancelled before it was started")
    else:
        count = f"{done.ended} {'process' if done.ended == 1 else 'processes'}"
        click.echo(f"{run_dir.name}: {lives.text}; {count} ended here")
    problems = []
    if done.unreachable:
        text = f"processes of the run on {', '.join(done.unreachable)} cannot be reached from here"
        problems.append(to_message("warning", text, "the batch system ends them with the job; else: wf cancel there"))
    if done.left:
        problems.append(to_message("error", f"processes {', '.join(map(str, done.left))} cannot be killed"))
    show_errors(problems)
    return EXIT_RUN_FAILED if done.left else EXIT_OK
