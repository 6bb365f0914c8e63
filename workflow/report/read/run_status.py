"""Whether a process still works on a run."""

from __future__ import annotations

import os
from pathlib import Path

from workflow.report.report_model import Report, RunVerdict, StagePart
from workflow.run.control.lease import Liveness, examine_leases
from workflow.run.processes.process_reaper import born_ticks
from workflow.run.records.events_file import read_start_and_verdict
from workflow.run.records.job_record import job_of_allocation, read_job

# The event of a start is written within this time of it; a process that is younger is another one that was given the
# same number.
SLACK_S = 5.0


def with_verdict(report: Report, run_dir: Path) -> Report:
    """Say of an unfinished run whether its supervisor lives (`running`) or is dead (`lost`).

    Takes up to ten seconds for a supervisor on another host. Nothing is said of a run that nobody has started.
    """
    job = read_job(run_dir)
    if job is not None:
        report = report.model_copy(update={"run": report.run.model_copy(update={"job": job.text})})
    if report.run.state != "unfinished":
        return report
    (lives,) = examine_leases([run_dir])
    if lives.lease is None:
        return report if job is None else _with_run(report, "submitted", f"{job.text} has not started")
    if lives.alive:
        return _with_run(report, "running", "")
    stages = [_bereft(stage, lives) for stage in report.stages]
    left = ", ".join(f"{stage.name} (process {stage.pid})" for stage in stages if stage.state == "running")
    reason = lives.text + (f"; still running: {left}" if left else "")
    if job is None and (received := job_of_allocation(run_dir)):
        reason += f"; {received} may hold its nodes until its time limit: end it if you do not need it"
    return _with_run(report.model_copy(update={"stages": stages}), "lost", reason)


def is_over(run_dir: Path, lives: Liveness) -> bool:
    """Whether nobody works on a run any more; cheap enough to ask often. A run that never started is over, unless its
    job waits."""
    if lives.alive or (lives.lease is None and read_job(run_dir) is not None):
        return read_start_and_verdict(run_dir).finished is not None
    return True


def is_alive(pid: int, not_after: float) -> bool:
    """Does this process run, and is it the one that was alive at that Unix time?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # alive, of another user
    born, boot = born_ticks(pid), _boot_time()
    if born is None or boot is None:
        return True  # the number is all that is known of it
    return born > 0 and boot + born / os.sysconf("SC_CLK_TCK") <= not_after + SLACK_S


def _boot_time() -> float | None:
    """When this machine was started, in Unix seconds; None where there is no /proc."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, StopIteration, ValueError):
        return None


def _bereft(stage: StagePart, lives: Liveness) -> StagePart:
    """A stage whose supervisor is dead: its process may have outlived it."""
    if stage.state not in ("starting", "running", "stopping"):
        return stage
    here = lives.is_here and stage.ended is None and stage.pid and stage.started
    alive = here and is_alive(stage.pid or 0, stage.started or 0.0)
    return stage.model_copy(update={"state": "running" if alive else "ended"})


def _with_run(report: Report, state: RunVerdict, reason: str) -> Report:
    run = report.run.model_copy(update={"state": state, "reason": reason or report.run.reason})
    return report.model_copy(update={"run": run})
