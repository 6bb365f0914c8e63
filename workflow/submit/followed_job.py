"""A submitted run as it is followed: its own events, and before them what becomes of its job."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from pathlib import Path

from workflow.plan.plan_model import Plan
from workflow.run.control.follow import follow
from workflow.run.control.lease import examine_leases, has_lease
from workflow.run.records.job_record import JobRecord
from workflow.run.state.run_state import RunState
from workflow.submit.job_watch import JobWatch, settle_job, write_job_verdict


def follow_job(
    run_dir: Path, plan: Plan, job: JobRecord, say: Callable[[str], None]
) -> Generator[RunState, None, None]:
    """The states of a submitted run, as `follow` gives them. `say` gets what is new of a job that waits.

    The verdict of a run whose job has ended without one is written here. Raises OSError when that is not possible.
    """
    watch, said, over = JobWatch(run_dir, job), "", False
    state: RunState | None = None
    with contextlib.closing(follow(run_dir, plan)) as states:
        for state in states:
            yield state
            if state.finished is not None or over:
                continue
            has_supervisor = state.started is not None or has_lease(run_dir)
            tracker = watch.look(ask=not has_supervisor)
            if not has_supervisor and tracker.text != said:
                said = tracker.text
                say(said)
            if (end := tracker.end(time.monotonic())) is not None:
                (lives,) = examine_leases([run_dir])
                # While it lives, the run goes on; when it dies, its states end here.
                over = lives.alive or write_job_verdict(run_dir, tracker, end, lives)
    if state is not None and state.finished is None:
        settle_job(run_dir, job)
