"""Ends a run and prints what was done: for `wf cancel`, and for Ctrl-C in one that follows a run."""

from __future__ import annotations

from pathlib import Path

import click

from workflow.errors import EXIT_OK, EXIT_RUN_FAILED, RunError, to_message


def cancel_run(run_dir: Path, now: bool = False) -> int:
    """End a run and print what was done. Returns the exit code. Raises RunError."""
    from workflow.report.show.printing import show_errors
    from workflow.run.cancellation import clean_up, stop_run
    from workflow.run.run_brief import read_brief
    from workflow.run.run_directory import read_filled_plan

    name = run_dir.name
    if (verdict := read_brief(run_dir).finished) is not None:
        click.echo(f"{name} has ended before: {verdict.state}")
        return EXIT_OK
    lives = stop_run(run_dir, read_filled_plan(run_dir), "kill" if now else "stop")
    if (verdict := read_brief(run_dir).finished) is not None:
        click.echo(f"{name}: {verdict.state}" + (f" ({verdict.reason})" if verdict.reason else ""))
        return EXIT_OK
    try:
        done = clean_up(run_dir, lives)
    except OSError as error:
        raise RunError(f"cannot write the verdict of {run_dir}: {error.strerror}") from error
    if lives.lease is None:
        click.echo(f"{name}: cancelled before it was started")
    else:
        click.echo(f"{name}: {lives.text}; {done.ended} {'process' if done.ended == 1 else 'processes'} ended here")
    problems = []
    if done.unreachable:
        text = f"processes of the run on {', '.join(done.unreachable)} cannot be reached from here"
        problems.append(to_message("warning", text, "the batch system ends them with the job; else: wf cancel there"))
    if done.left:
        problems.append(to_message("error", f"processes {', '.join(map(str, done.left))} cannot be killed"))
    show_errors(problems)
    return EXIT_RUN_FAILED if done.left else EXIT_OK
