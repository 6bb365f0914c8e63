"""Watches the job of a run: asks the scheduler, less and less often, in a thread of its own."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from workflow.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED
from workflow.formats.job_end_file import JobEnd, read_job_end
from workflow.run.control.detached import OUTPUT_FILE
from workflow.run.control.lease import Liveness, examine_leases, lost_lease
from workflow.run.control.missing_verdict import write_missing_verdict
from workflow.run.observe.sst_log import last_lines
from workflow.run.records.events_file import read_start_and_verdict
from workflow.run.records.job_record import JobRecord, write_job
from workflow.run.verdict.end_causes import job_text
from workflow.schedulers.job_questions import JobAnswer, ask_for_job, find_job
from workflow.submit.job_tracker import FORGOTTEN_S, VISIBLE_S, JobTracker, pauses_s

_SHOWN_LINES = 3
_PAUSE_S = 0.2


class JobWatch:
    """Asks about one job. Questions may take long: a scheduler that is down is waited for elsewhere."""

    def __init__(self, run_dir: Path, job: JobRecord) -> None:
        self.tracker = JobTracker(job)
        self._run_dir = run_dir
        self._pauses = pauses_s()
        self._due = 0.0
        self._question: threading.Thread | None = None
        self._answer: JobAnswer | None = None

    def look(self, ask: bool = True) -> JobTracker:
        """What is known now; starts the next question when it is due. Without `ask` only the exit code is looked for:
        a run whose supervisor has started needs no scheduler, and its job was there, whatever was said before."""
        now = time.monotonic()
        if self._answer is not None:
            known, answer = bool(self.tracker.job.job), self._answer
            self._answer = self._question = None
            self.tracker = self.tracker.take(answer, now)
            if self.tracker.job.job and not known:
                write_job(self._run_dir, self.tracker.job)
        if not ask:
            self.tracker = self.tracker.without_absence()
        self.tracker = self.tracker.take_exit_code(read_exit_code(self.tracker.job), now)
        if ask and self._question is None and now >= self._due:
            self._due = now + next(self._pauses)
            self._question = threading.Thread(target=self._ask, args=(self.tracker.job,), daemon=True)
            self._question.start()
        return self.tracker

    def _ask(self, job: JobRecord) -> None:
        self._answer = ask_about(job)


def ask_about(job: JobRecord) -> JobAnswer:
    """What the scheduler says of the job of a run, by its id, or by its name where the id is not known."""
    return ask_for_job(job.scheduler, job.job) if job.job else find_job(job.scheduler, job.name)


def read_exit_code(job: JobRecord) -> int | None:
    """The exit code that the job's script left; None where it left none."""
    if not job.exit_code_file or not job.job:
        return None
    try:
        return int(Path(job.exit_code_file.replace("{job}", job.job)).read_text())
    except (OSError, ValueError):
        return None


def settle_job(
    run_dir: Path, job: JobRecord, within_s: float = FORGOTTEN_S + VISIBLE_S, *, is_lost: bool = False
) -> str:
    """Find out what has become of a run whose supervisor has died, or has not come; write the verdict when its job has
    ended. Returns what is known of the job, in words. Raises OSError when the verdict cannot be written.

    With `within_s` 0 the scheduler is asked once, and its answer is awaited. `is_lost`: its supervisor is known to be
    dead, and its lease is not watched again.
    """
    deadline = time.monotonic() + within_s
    watch = JobWatch(run_dir, job)
    dead = lost_lease(run_dir) if is_lost else None
    while True:
        tracker = watch.look()
        lives = dead or examine_leases([run_dir])[0]
        if lives.alive or read_start_and_verdict(run_dir).finished is not None:
            return tracker.text
        if (by_guard := read_job_end(run_dir)) is not None:
            write_missing_verdict(run_dir, lives, "failed", EXIT_RUN_FAILED, _ended_text(by_guard, lives), "node_lost")
            return tracker.text
        if (end := tracker.end(time.monotonic())) is not None:
            if write_job_verdict(run_dir, tracker, end, lives):
                return tracker.text
            dead = None  # it has been taken meanwhile
        # An end that was seen is soon certain.
        if tracker.has_answer and tracker.ended_since is None and time.monotonic() > deadline:
            return tracker.text
        time.sleep(_PAUSE_S)


def _ended_text(by_guard: JobEnd, lives: Liveness) -> str:
    """Why a run has failed whose supervisor is lost, and what was done about its job."""
    host = "" if lives.lease is None else f" on {lives.lease.host}"
    lost = f"node lost: no heartbeat of the supervisor{host} for {by_guard.silent_s:.0f} s"
    if by_guard.problem:
        return f"{lost}; the guard on {by_guard.host} could not cancel {by_guard.job}: {by_guard.problem}"
    return f"{lost}; the guard on {by_guard.host} has asked the scheduler to cancel {by_guard.job}"


def write_job_verdict(run_dir: Path, tracker: JobTracker, end: str, lives: Liveness) -> bool:
    """Write the verdict of a run whose job has ended without one. Returns whether it was written: not while its
    supervisor lives. Raises OSError."""
    if (by_guard := read_job_end(run_dir)) is not None:  # the scheduler says only that it was cancelled
        return write_missing_verdict(
            run_dir, lives, "failed", EXIT_RUN_FAILED, _ended_text(by_guard, lives), "node_lost"
        )
    why = "before its supervisor started" if lives.lease is None else lives.text
    said = [line for line in last_lines(run_dir / OUTPUT_FILE, _SHOWN_LINES) if line.strip()]
    text = f"{end}; {why}" + (f": {' / '.join(said)}" if said else "")
    cause = tracker.cause
    if cause:
        text = f"{job_text(tracker.job.job, cause)}: {text}"
    if cause == "cancelled":  # somebody wanted it to end, as by Ctrl-C
        return write_missing_verdict(run_dir, lives, "interrupted", EXIT_INTERRUPTED, text, cause)
    return write_missing_verdict(run_dir, lives, "failed", EXIT_RUN_FAILED, text, cause or "")
