"""A supervisor that cannot take its run says so in the run's own events: nobody may see what it prints in a job."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from workflow.errors import EXIT_RUN_FAILED, WfError
from workflow.run.lease import examine_leases, has_lease
from workflow.run.processes.process_reaper import write_verdict
from workflow.run.run_brief import read_brief
from workflow.run.run_directory import PLAN_FILE, has_started


def was_taken(run_dir: Path) -> bool:
    """Whether a supervisor has worked on this run before."""
    return has_lease(run_dir) or has_started(run_dir)


def record_failed_start(run_dir: Path, error: WfError, taken_before: bool) -> None:
    """Write the verdict of a run that could not be taken, unless another supervisor works on it or has ended it.

    One whose supervisor has died is not taken again: a scheduler has started its job a second time.
    """
    if not (run_dir / PLAN_FILE).exists() or read_brief(run_dir).finished is not None:
        return
    reason, code = "; ".join(problem.message for problem in error.problems), error.exit_code
    if taken_before:
        (lives,) = examine_leases([run_dir])
        if lives.alive:
            return
        reason, code = f"{lives.text}, and its job was started again: a run is not resumed", EXIT_RUN_FAILED
    with contextlib.suppress(OSError):
        write_verdict(str(run_dir), "failed", code, reason, time.time())
