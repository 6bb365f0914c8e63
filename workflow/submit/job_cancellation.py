"""Ends the job of a run, whatever its state: before it starts, or when its supervisor did not end the run."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from pathlib import Path
from typing import NamedTuple

from workflow.errors import RunError
from workflow.run.control.lease import has_lease
from workflow.run.records.job_record import JobRecord, write_job
from workflow.schedulers.job_questions import cancel_job, find_job
from workflow.schedulers.scheduler import QueryError
from workflow.schedulers.schedulers import scheduler_named
from workflow.submit.job_status import ABSENT_LOOKS, FORGOTTEN_S, JobTracker, ask_about, no_job_text, read_exit_code

# A scheduler needs some seconds to end a job, and longer where its processes do not end. One that does not know the
# job must have said so for FORGOTTEN_S.
END_S = FORGOTTEN_S + 10.0
_PAUSE_S = 1.0
# The script of a job ends with its supervisor, which ends with the verdict.
FOLLOWS_S = 5.0


class NamedJob(NamedTuple):
    """A job that was looked for by its name: with its id where there is one. `text`: what was found.

    `is_known`: whether the scheduler has answered.
    """

    job: JobRecord
    text: str
    is_known: bool


def look_for_job(run_dir: Path, job: JobRecord) -> NamedJob:
    """Ask for a job whose submission has brought no id. An id that is found is kept in the run directory."""
    for look in range(ABSENT_LOOKS):
        if look:
            time.sleep(_PAUSE_S)
        answer = find_job(job.scheduler, job.name)
        if answer.word is not None:
            found = dataclasses.replace(job, job=answer.word.job)
            with contextlib.suppress(OSError):  # a full file system does not keep it from being cancelled
                write_job(run_dir, found)
            return NamedJob(found, f"its job was accepted: {found.text}", True)
        if answer.error:
            text = f"it is not known whether {job.scheduler} has a job named {job.name}: {answer.error}"
            return NamedJob(job, text, False)
    return NamedJob(job, no_job_text(job), not job.accepted)


def end_job(run_dir: Path, job: JobRecord) -> bool:
    """Cancel a job and wait until it has ended, or its supervisor has taken the run. Returns False when the scheduler
    has not ended it within END_S.

    A job whose id is known is cancelled whatever the scheduler says of it, except that it has ended. Raises RunError
    when it cannot be cancelled.
    """
    started = has_lease(run_dir)
    answer = ask_about(job)
    if not job.job and answer.error:
        raise RunError(f"{job.text} cannot be cancelled: {answer.error}", f"try again later: wf cancel {run_dir.name}")
    number = job.job or (answer.word.job if answer.word is not None else "")
    if not number or (answer.word is not None and answer.word.phase == "ended"):
        return True
    _cancel(run_dir, job, number)
    tracker = JobTracker(job)
    deadline = time.monotonic() + END_S
    while time.monotonic() < deadline:
        was_absent, answer = tracker.absent_since is not None, ask_about(job)
        tracker = tracker.take(answer, time.monotonic())
        if tracker.ended_since is not None or tracker.end(time.monotonic()) is not None:
            return True
        if not started and has_lease(run_dir):
            return True
        if was_absent and answer.word is not None:
            _cancel(run_dir, job, number)  # the first time the scheduler did not know the job
        time.sleep(_PAUSE_S)
    return False


def _cancel(run_dir: Path, job: JobRecord, number: str) -> None:
    try:
        cancel_job(job.scheduler, number)
    except QueryError as error:
        raise RunError(f"{job.text} cannot be cancelled: {error}", f"try again: wf cancel {run_dir.name}") from error


def end_leftover_job(run_dir: Path, job: JobRecord) -> bool:
    """Cancel the job of a run with a verdict if it does not end by itself. Returns whether it was; it may still end.

    Raises RunError when the scheduler gives no answer.
    """
    deadline = time.monotonic() + FOLLOWS_S
    while read_exit_code(job) is None:
        answer = ask_about(job)
        if answer.is_absent or (answer.word is not None and scheduler_named(job.scheduler).is_ending(answer.word)):
            return False
        if time.monotonic() > deadline:
            number = job.job or (answer.word.job if answer.word is not None else "")
            if number:
                _cancel(run_dir, job, number)
            return bool(number)
        time.sleep(_PAUSE_S)
    return False
