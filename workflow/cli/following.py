"""Follows a run that another process supervises: shows its progress, and asks what Ctrl-C is to mean."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workflow.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED, RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from workflow.plan.plan_model import Plan
    from workflow.report.report_model import Report
    from workflow.run.state import RunState

# A local supervisor takes its run within this time of its start.
START_S = 30.0


def show_to_the_end(run_dir: Path, quiet: bool = False) -> int:
    """Show a run until it has a verdict or its supervisor has died. Returns the exit code.

    Ending this process leaves the run alone. Raises RunError for a run that nobody starts.
    """
    from workflow.report.report_files import write_report
    from workflow.report.show.printing import show_end

    try:
        state = _show(run_dir, quiet)
    except KeyboardInterrupt:
        from workflow.cli.cancelling import cancel_run

        leave_or_cancel(run_dir.name, "wf", lambda: cancel_run(run_dir))
        return EXIT_INTERRUPTED
    report = write_report(run_dir, state if state is not None and state.finished is not None else None)
    show_end(report, run_dir)
    return report.run.exit_code if report.run.state != "lost" else EXIT_RUN_FAILED


def _show(run_dir: Path, quiet: bool) -> RunState | None:
    """The progress. Returns the last state."""
    from workflow.report.show.live_display import Progress
    from workflow.run.job_record import read_job
    from workflow.run.run_directory import read_filled_plan

    plan, job, state = read_filled_plan(run_dir), read_job(run_dir), None
    with Progress(plan, run_dir, quiet=quiet) as progress:
        if job is None:
            states = _follow_local(run_dir, plan)
        else:
            from workflow.submit.followed_job import follow_job

            states = follow_job(run_dir, plan, job, progress.say)
        with contextlib.closing(states):
            for state in states:
                if state.started is not None:
                    progress.update(state)
    return state


def _follow_local(run_dir: Path, plan: Plan) -> Generator[RunState, None, None]:
    """The states of a run of this machine. Raises RunError when nobody starts it."""
    from workflow.run.follow import follow
    from workflow.run.lease import has_lease

    begin = time.monotonic()
    for state in follow(run_dir, plan):
        yield state
        if state.started is None and time.monotonic() - begin > START_S and not has_lease(run_dir):
            text = f"nobody has started {run_dir.name} within {START_S:.0f} s"
            raise RunError(text, "start a new one: wf run PIPELINE")


def report_now(run_dir: Path) -> Report:
    """The report of a run so far; of one whose job waits or is lost with what the scheduler says of that job.

    Raises RunError where the directory has no plan that can be read.
    """
    from workflow.report.report_files import compute_report

    report = compute_report(run_dir)
    waits = report.run.job and report.run.state in ("submitted", "lost")
    return ask_scheduler(run_dir, report) if waits else report


def ask_scheduler(run_dir: Path, report: Report) -> Report:
    """The report of a run whose supervisor has not come or has died, with what the scheduler says of its job now."""
    from workflow.report.report_files import compute_report
    from workflow.run.job_record import read_job
    from workflow.run.lease import has_lease
    from workflow.run.run_brief import read_brief
    from workflow.submit.job_watch import settle_job

    if (job := read_job(run_dir)) is None:
        return report
    said = settle_job(run_dir, job, within_s=0.0, is_lost=report.run.state == "lost")
    # Whether its supervisor lives takes ten seconds to find out: not twice.
    if read_brief(run_dir).finished is not None or (report.run.state == "submitted" and has_lease(run_dir)):
        return compute_report(run_dir)
    reason = said if report.run.state == "submitted" else f"{report.run.reason}; {said}"
    return report.model_copy(update={"run": report.run.model_copy(update={"reason": reason})})


class _FirstLetters(click.Choice[str]):
    """A choice for which the first letters of a word are enough, in any case."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word that begins so; fails as a choice does where none does, or several do."""
        given = value.strip().lower()
        meant = [word for word in self.choices if given and word.startswith(given)]
        return super().convert(meant[0] if len(meant) == 1 else value, param, ctx)


def leave_or_cancel(name: str, command: str, cancel: Callable[[], object]) -> None:
    """What Ctrl-C means: on a terminal the user says it; elsewhere what `name` names goes on.

    Args:
        command: what the verbs `watch` and `cancel` follow: `wf`, or `wf campaign`.
        cancel: ends it.
    """
    if sys.stdin.isatty() and sys.stderr.isatty():
        with contextlib.suppress(click.Abort):  # a second Ctrl-C leaves it alone
            question = f"\n{name} goes on. Leave it running, or cancel it?"
            answer = click.prompt(question, type=_FirstLetters(["leave", "cancel"]), default="leave", err=True)
            if answer == "cancel":
                cancel()
                return
    click.echo(f"{name} goes on\n  watch it again: {command} watch {name}\n  end it: {command} cancel {name}", err=True)
