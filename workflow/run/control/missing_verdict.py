"""The verdict of a run that no supervisor writes: it could not be started, or its supervisor has died.

The process that notices it writes the verdict. All other verdicts are those of `workflow.run.verdict.run_verdict`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from workflow.errors import EXIT_RUN_FAILED, WfError
from workflow.formats.run_clock import run_time
from workflow.launch.allocation import Allocation
from workflow.run.control.lease import Liveness, examine_leases, has_lease, read_lease
from workflow.run.processes.process_reaper import write_verdict
from workflow.run.records.events_file import read_start_and_verdict, release_reserve
from workflow.run.records.job_record import read_job
from workflow.run.records.run_directory import PLAN_FILE, has_started, read_allocation
from workflow.run.state.lifecycle_events import RunCause
from workflow.schedulers.schedulers import SCHEDULERS, scheduler_named


def write_missing_verdict(
    run_dir: Path, lives: Liveness, state: str, exit_code: int, reason: str, cause: RunCause = ""
) -> bool:
    """Write the verdict of a run, unless it has one or a supervisor works on it. Returns whether it was written.

    `lives`: its lease as it has just been examined. A lease that was taken or renewed since then is one of a living
    supervisor. Raises OSError.
    """
    if lives.alive or _is_renewed(run_dir, lives) or read_start_and_verdict(run_dir).finished is not None:
        return False
    write_verdict(str(run_dir), state, exit_code, reason, run_time(run_dir), cause)
    release_reserve(run_dir)
    return True


def _is_renewed(run_dir: Path, lives: Liveness) -> bool:
    lease = read_lease(run_dir)
    if lease is None:
        return lives.lease is None and has_lease(run_dir)
    return lives.lease is None or lease.beat != lives.lease.beat


def was_taken(run_dir: Path) -> bool:
    """Whether a supervisor has worked on this run before."""
    return has_lease(run_dir) or has_started(run_dir)


def record_failed_start(
    run_dir: Path, error: WfError, allocation: Allocation, taken_before: bool, environ: Mapping[str, str] = os.environ
) -> None:
    """Write the verdict of a run that could not be taken, unless another supervisor works on it or has ended it.

    One whose supervisor has died is not taken again. That the scheduler has started its job a second time is its
    verdict; any other second start is a mistake of its own, and the run stays as it is.
    """
    if not (run_dir / PLAN_FILE).exists() or read_start_and_verdict(run_dir).finished is not None:
        return
    with contextlib.suppress(OSError):
        if taken_before or _is_taken_by_another(run_dir):
            (lives,) = examine_leases([run_dir])
            if which := _requeue(run_dir, allocation, environ):
                write_missing_verdict(run_dir, lives, "failed", EXIT_RUN_FAILED, _requeued(lives, which), "requeued")
            return
        reason = "; ".join(problem.message for problem in error.problems)
        write_verdict(str(run_dir), "failed", error.exit_code, reason, run_time(run_dir))


def _is_taken_by_another(run_dir: Path) -> bool:
    """Of two supervisors that started at once, the other one has the lease."""
    lease = read_lease(run_dir)
    return has_lease(run_dir) and (lease is None or not lease.is_own)


def _requeue(run_dir: Path, allocation: Allocation, environ: Mapping[str, str]) -> str:
    """The job that was started a second time: `job 12 (restart 1)`; empty where this is another job, or none."""
    scheduler = scheduler_named(allocation.source) if allocation.source in SCHEDULERS else None
    restarts = "0" if scheduler is None else environ.get(scheduler.restart_variable, "0")
    before, ordered = read_allocation(run_dir), read_job(run_dir)
    jobs = {before.job if before is not None else "", ordered.number if ordered is not None else ""} - {""}
    if not allocation.job or (restarts == "0" and allocation.job not in jobs):
        return ""
    return f"job {allocation.job}" + (f" (restart {restarts})" if restarts != "0" else "")


def _requeued(lives: Liveness, which: str) -> str:
    return f"{lives.text}, and the scheduler has requeued {which}: a run is not started again"
