"""Follows a run that another process supervises: shows its progress, and asks what Ctrl-C is to mean."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workflow.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_RUN_FAILED, RunError, to_message

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from workflow.plan.plan_model import Plan
    from workflow.report.report_model import Report
    from workflow.run.control.cancellation import CleanUp
    from workflow.run.control.lease import Liveness
    from workflow.run.records.events_file import StoredEvent
    from workflow.run.records.job_record import JobRecord
    from workflow.run.state.run_state import RunState
    from workflow.submit.job_cancellation import NamedJob


# Ends a run and prints what was done: for `wf cancel`, and for Ctrl-C in one that follows a run.


def cancel_parts(run_dir: Path, now: bool = False) -> int:
    """End the newest part of a run, so that none follows it, and print what was done. Returns the exit code.

    Raises RunError when it could not be ended.
    """
    from workflow.run.chain import next_part_text
    from workflow.run.records.control_requests import send_request
    from workflow.run.records.find_runs import newest_part
    from workflow.submit.next_part import await_next_part, awaits_next_part

    run, code = newest_part(run_dir), EXIT_OK
    while True:
        if awaits_next_part(run):
            # Its process reads the request before it submits anything; if it is too late, the next part is there soon.
            send_request(run, "stop")
            click.echo(f"{run.name}: asking that no part follows…", err=True)
            if (part := await_next_part(run)) is not None:
                click.echo(next_part_text(run.name, part))
        else:
            code = cancel_run(run, now)
        newest = newest_part(run)
        if newest == run and not awaits_next_part(run):
            return code
        run = newest


def cancel_run(run_dir: Path, now: bool = False) -> int:
    """End a run and print what was done. Returns the exit code.

    Through the run directory first, the scheduler second; then what is left is ended here. Raises RunError when the
    run could not be ended.
    """
    from workflow.formats.job_end_file import read_job_end
    from workflow.run.control.cancellation import clean_up, stop_run
    from workflow.run.control.lease import examine_leases, has_lease
    from workflow.run.records.job_record import read_job
    from workflow.run.records.run_directory import read_filled_plan

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
        from workflow.submit.job_status import settle_job

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
    from workflow.run.control.lease import has_lease
    from workflow.run.records.events_file import read_start_and_verdict

    verdict = read_start_and_verdict(run_dir).finished
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
    from workflow.run.records.events_file import read_start_and_verdict

    return read_start_and_verdict(run_dir).finished is not None


def _print_verdict(run_dir: Path, before: str = "") -> bool:
    """Print how the run has ended; returns whether it has."""
    from workflow.run.records.events_file import read_start_and_verdict

    verdict = read_start_and_verdict(run_dir).finished
    if verdict is None:
        return False
    reason = f" ({verdict.reason})" if verdict.reason and not before else ""
    state = ", ".join(filter(None, (verdict.state, verdict.lacks)))
    click.echo(f"{run_dir.name} {before}{state}" if before else f"{run_dir.name}: {state}{reason}")
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


# A local supervisor takes its run within this time of its start.
START_S = 30.0


def show_to_the_end(run_dir: Path, quiet: bool = False) -> int:
    """Show a run until it has a verdict or its supervisor has died, then the parts that its jobs submit. Returns the
    exit code of the last one.

    Ending this process leaves the run alone. Raises RunError for a run that nobody starts.
    """
    try:
        while True:
            code, following = _show_part(run_dir, quiet)
            if following is None:
                return code
            run_dir = following
    except KeyboardInterrupt:
        leave_or_cancel(run_dir.name, "wf", lambda: cancel_parts(run_dir))
        return EXIT_INTERRUPTED


def _show_part(run_dir: Path, quiet: bool) -> tuple[int, Path | None]:
    """Show one part of a run, and its end. Returns its exit code, and the part that its job has submitted."""
    from workflow.report.report_files import write_report
    from workflow.report.show.printing import show_end, show_errors
    from workflow.run.chain import next_part_text
    from workflow.submit.next_part import await_next_part

    state = _show(run_dir, quiet)
    part = await_next_part(run_dir)
    report = write_report(run_dir, state if state is not None and state.finished is not None else None)
    show_end(report, run_dir)
    if part is not None:
        show_errors([to_message("note", next_part_text(run_dir.name, part), part.hint)])
    code = report.run.exit_code if report.run.state != "lost" else EXIT_RUN_FAILED
    return code, Path(part.run) if part is not None and part.state == "submitted" else None


def _show(run_dir: Path, quiet: bool) -> RunState | None:
    """The progress. Returns the last state."""
    from workflow.report.show.live_display import Progress
    from workflow.run.records.job_record import read_job
    from workflow.run.records.run_directory import read_filled_plan

    plan, job, state = read_filled_plan(run_dir), read_job(run_dir), None
    with Progress(plan, run_dir, quiet=quiet) as progress:
        if job is None:
            states = _follow_local(run_dir, plan)
        else:
            from workflow.submit.job_status import follow_job

            states = follow_job(run_dir, plan, job, progress.say)
        with contextlib.closing(states):
            for state in states:
                if state.started is not None:
                    progress.update(state)
    return state


def _follow_local(run_dir: Path, plan: Plan) -> Generator[RunState, None, None]:
    """The states of a run of this machine. Raises RunError when nobody starts it."""
    from workflow.run.control.follow import follow
    from workflow.run.control.lease import has_lease

    begin = time.monotonic()
    for state in follow(run_dir, plan):
        yield state
        if state.started is None and not has_lease(run_dir):
            _check_start(run_dir, begin)


def _check_start(run_dir: Path, begin: float) -> None:
    """Raises RunError when a run of this machine that nobody has taken was awaited for long enough."""
    if time.monotonic() - begin > START_S:
        text = f"{run_dir.name} was not started within {START_S:.0f} s"
        raise RunError(text, "start a new one: wf run PIPELINE")


# Prints the events of a run as lines, for people and for other programs.


def print_events(run_dir: Path, *, follows: bool, as_json: bool, everything: bool, leave_out: int) -> None:
    """Print the events of a run, without the first `leave_out` of them: as lines of JSON, or in words.

    `follows`: until the run has a verdict, or is lost. `everything`: words also for the samples of its progress.
    Returns early when nobody reads the pipe any more.

    Raises RunError for a run without events; one that is followed has time until it is started.
    """
    from workflow.report.show.event_lines import SAMPLES, event_line
    from workflow.report.show.terminal import has_reader, print_plain
    from workflow.run.records.events_file import read_stored
    from workflow.run.records.run_directory import read_filled_plan
    from workflow.run.state.lifecycle_events import RunFinished

    plan = None if as_json else read_filled_plan(run_dir)
    begin, count, finished = 0.0, 0, False
    for batch in _follow_events(run_dir) if follows else [read_stored(run_dir)]:
        for line, event in batch:
            begin = begin or event.t
            count += 1
            finished = finished or isinstance(event, RunFinished)
            if count <= leave_out or (plan is not None and not everything and isinstance(event, SAMPLES)):
                continue
            if not print_plain(sys.stdout, line if plan is None else event_line(event, begin, plan)):
                return
        if not has_reader(sys.stdout):
            return
    if follows and not finished:
        from workflow.report.show.printing import show_errors
        from workflow.run.control.lease import lost_lease

        text = f"{run_dir.name} is lost: {lost_lease(run_dir).text}"
        show_errors([to_message("warning", text, f"end what is left of it: wf cancel {run_dir.name}")])


def _follow_events(run_dir: Path) -> Generator[Iterable[StoredEvent], None, None]:
    """The events that are new, again and again. Raises RunError for a run of this machine that nobody starts, and says
    of one whose job waits that it does."""
    from workflow.report.show.printing import show_errors
    from workflow.run.control.follow import follow_events
    from workflow.run.control.lease import has_lease
    from workflow.run.records.job_record import read_job

    begin, job, awaited, told = time.monotonic(), read_job(run_dir), True, False
    for new in follow_events(run_dir):
        yield new
        awaited = awaited and not new and not has_lease(run_dir)
        if awaited and job is None:
            _check_start(run_dir, begin)
        elif awaited and job is not None and not told:
            told = True
            hint = f"what it waits for: wf status {run_dir.name}"
            show_errors([to_message("note", f"{job.text} has not started", hint)])


def report_now(run_dir: Path) -> Report:
    """The report of a run so far; of one whose job waits or is lost with what the scheduler says of that job.

    Raises RunError where the directory has no plan that can be read.
    """
    from workflow.report.report_files import compute_report

    report = compute_report(run_dir)
    waits = report.run.job and report.run.state in ("submitted", "lost")
    return with_job_state(run_dir, report) if waits else report


def with_job_state(run_dir: Path, report: Report) -> Report:
    """The report of a run whose supervisor has not come or has died, with what the scheduler says of its job now."""
    from workflow.report.report_files import compute_report
    from workflow.run.control.lease import has_lease, lost_lease
    from workflow.run.records.events_file import read_start_and_verdict
    from workflow.run.records.job_record import read_job
    from workflow.submit.job_status import ask_about, settle_job

    if (job := read_job(run_dir)) is None:
        return report
    said = settle_job(run_dir, job, within_s=0.0, is_lost=report.run.state == "lost")
    # Whether its supervisor lives takes ten seconds to find out: not twice.
    if read_start_and_verdict(run_dir).finished is not None or (report.run.state == "submitted" and has_lease(run_dir)):
        return compute_report(run_dir)
    changes = {"reason": said if report.run.state == "submitted" else f"{report.run.reason}; {said}"}
    if report.run.state == "lost" and (word := ask_about(job).word) is not None and word.phase == "running":
        # Its supervisor may be on a node that is cut off, or wait for its file system: no one knows.
        what = "is suspended" if word.text.startswith("SUSPENDED") else "is silent"
        changes = {"state": "running", "reason": f"{lost_lease(run_dir).silence_of(what)}; {said}"}
    return report.model_copy(update={"run": report.run.model_copy(update=changes)})


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


# Follows a campaign that another process runs, and ends it; asks what Ctrl-C is to mean.


def show_campaign_to_the_end(name: Path, directory: Path | None, quiet: bool) -> int:
    """Show a campaign until no process runs it. Returns the exit code. Ending this process leaves it alone."""
    from workflow.campaign.campaign_directory import find_campaign
    from workflow.campaign.campaign_state import read_state, watch_campaign
    from workflow.campaign.show_campaign import ProgressLines, driver_text, show_left, show_now

    found, campaign, schedule = find_campaign(name, directory)
    status = read_state(found, campaign.spec, schedule)
    if status.driver is not None and status.driver.alive:
        lines = ProgressLines(quiet)
        try:
            if not quiet:
                show_now(status)
            for ended in watch_campaign(found, campaign.spec, schedule):
                for each in ended:
                    lines(each)
        except KeyboardInterrupt:
            leave_or_cancel(found.name, "wf campaign", lambda: cancel_campaign(found, None))
            return EXIT_INTERRUPTED
        status = read_state(found, campaign.spec, schedule)
    show_left(status, found)
    if status.driver is not None:
        click.echo(driver_text(status), err=True)
    return status.exit_code


def cancel_campaign(name: Path, directory: Path | None, now: bool = False) -> None:
    """End a campaign and print what was done. Raises RunError when it could not be ended."""
    from workflow.campaign.campaign_control import stop_campaign
    from workflow.campaign.campaign_directory import find_campaign
    from workflow.campaign.campaign_state import read_state
    from workflow.campaign.show_campaign import driver_text, show_cancelled

    found, campaign, schedule = find_campaign(name, directory)
    status = read_state(found, campaign.spec, schedule)
    if status.driver is not None:
        click.echo(f"{found.name}: {driver_text(status)}", err=True)
        if status.driver.alive:
            click.echo(f"{found.name}: {'killing what runs' if now else 'asking what runs to stop'}…", err=True)
    end = stop_campaign(found, "kill" if now else "stop")
    if end.driver is None:
        click.echo(f"{found.name}: no process runs it now")
        return
    show_cancelled(end, read_state(found, campaign.spec, schedule), found)
