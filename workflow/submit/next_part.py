"""What follows the part of a run that a job had to stop: awaited by those who follow the run, or cancel it."""

from __future__ import annotations

import time
from pathlib import Path

from workflow.formats.run_clock import steady_time
from workflow.run.chain import NextPart, is_planned, read_next_part
from workflow.run.records.events_file import read_start_and_verdict
from workflow.run.records.find_runs import following_part, typed_name
from workflow.run.records.job_record import read_job
from workflow.run.records.run_directory import read_filled_plan
from workflow.submit.job_status import VISIBLE_S, read_exit_code

# From the verdict of a part until its process has written its report, and has an answer about the job of the next one
# from a scheduler that is busy: the answer itself may take a minute, and the looks for the job after it half of one.
PATIENCE_S = 180.0
_PAUSE_S = 0.2


def awaits_next_part(run_dir: Path) -> bool:
    """Whether the process of a run that has been stopped may still be about to submit the next part."""
    return _deadline(run_dir) > steady_time() and not _is_settled(run_dir)


def await_next_part(run_dir: Path) -> NextPart | None:
    """What has become of the next part of a run, once that is known; None where none was to be submitted.

    Of a process that has died before it could say so, it is what can be seen.
    """
    deadline, over = _deadline(run_dir), None
    if not deadline:
        return None
    job = read_job(run_dir)
    while not _is_settled(run_dir) and steady_time() < deadline:
        if over is None and job is not None and read_exit_code(job) is not None:
            over = time.monotonic()
        # What the process has written last may become visible after the exit code of its job.
        if over is not None and time.monotonic() - over > VISIBLE_S:
            break
        time.sleep(_PAUSE_S)
    record = read_next_part(run_dir)
    if record is not None and record.is_settled:
        return record
    if (following := following_part(run_dir)) is not None:
        return NextPart("submitted", str(following))
    reason = "its job ended before it had submitted one" if over is not None else "its job has not said why"
    return NextPart("none", reason=reason, hint=resume_hint(run_dir))


def resume_hint(run_dir: Path) -> str:
    """How to go on with a run which nobody goes on with."""
    return f"to go on, on a login node: wf resume {typed_name(run_dir)}"


def _deadline(run_dir: Path) -> float:
    """Until when a next part may come (Unix s); 0: none was to be submitted."""
    verdict, job = read_start_and_verdict(run_dir).finished, read_job(run_dir)
    if verdict is None or job is None or not is_planned(read_filled_plan(run_dir), verdict.exit_code):
        return 0.0
    return verdict.t + PATIENCE_S


def _is_settled(run_dir: Path) -> bool:
    record = read_next_part(run_dir)
    return record is not None and record.is_settled
