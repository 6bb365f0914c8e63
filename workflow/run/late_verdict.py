"""The verdict of a run whose supervisor died without one, written by the process that notices it."""

from __future__ import annotations

import time
from pathlib import Path

from workflow.run.lease import Liveness, has_lease, read_lease
from workflow.run.lifecycle_events import RunCause
from workflow.run.processes.process_reaper import write_verdict
from workflow.run.run_brief import read_brief
from workflow.run.verdict_reserve import release


def write_late_verdict(
    run_dir: Path, lives: Liveness, state: str, exit_code: int, reason: str, cause: RunCause = ""
) -> bool:
    """Write the verdict of a run, unless it has one or a supervisor works on it. Returns whether it was written.

    `lives`: its lease as it has just been examined. A lease that was taken or renewed since then is one of a living
    supervisor. Raises OSError.
    """
    if lives.alive or _is_renewed(run_dir, lives) or read_brief(run_dir).finished is not None:
        return False
    write_verdict(str(run_dir), state, exit_code, reason, time.time(), cause)
    release(run_dir)
    return True


def _is_renewed(run_dir: Path, lives: Liveness) -> bool:
    lease = read_lease(run_dir)
    if lease is None:
        return lives.lease is None and has_lease(run_dir)
    return lives.lease is None or lease.beat != lives.lease.beat
