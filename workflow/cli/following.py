"""Follows a run that another process supervises: shows its progress, and asks what Ctrl-C is to mean."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import click

from workflow.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED, RunError

# A local supervisor takes its run within this time of its start.
START_S = 30.0


def show_to_the_end(run_dir: Path, quiet: bool = False) -> int:
    """Show a run until it has a verdict or its supervisor has died. Returns the exit code.

    Ending this process leaves the run alone. Raises RunError for a run that nobody starts.
    """
    from workflow.report.report_files import write_report
    from workflow.report.show.live_display import Progress
    from workflow.report.show.printing import show_end
    from workflow.run.follow import follow
    from workflow.run.run_directory import read_filled_plan

    plan = read_filled_plan(run_dir)
    begin = time.monotonic()
    state = None
    try:
        with contextlib.closing(follow(run_dir, plan)) as states, Progress(plan, run_dir, quiet=quiet) as progress:
            for state in states:
                progress.update(state)
                if state.started is None and time.monotonic() - begin > START_S:
                    text = f"nobody has started {run_dir.name} within {START_S:.0f} s"
                    raise RunError(text, "start a new one: wf run PIPELINE")
    except KeyboardInterrupt:
        return _leave_or_cancel(run_dir)
    report = write_report(run_dir, state if state is not None and state.finished is not None else None)
    show_end(report, run_dir)
    return report.run.exit_code if report.run.state != "lost" else EXIT_RUN_FAILED


def _leave_or_cancel(run_dir: Path) -> int:
    """What Ctrl-C means: on a terminal the user says it; elsewhere the run goes on."""
    from workflow.cli.cancelling import cancel_run

    how = f"  watch it again: wf watch {run_dir.name}\n  end it: wf cancel {run_dir.name}"
    if sys.stdin.isatty() and sys.stderr.isatty():
        with contextlib.suppress(click.Abort):  # a second Ctrl-C leaves it alone
            question = f"\n{run_dir.name} goes on. Leave it running, or cancel it?"
            answer = click.prompt(question, type=click.Choice(["leave", "cancel"]), default="leave", err=True)
            if answer == "cancel":
                cancel_run(run_dir)
                return EXIT_INTERRUPTED
    click.echo(f"{run_dir.name} goes on\n{how}", err=True)
    return EXIT_INTERRUPTED
