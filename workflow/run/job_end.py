"""When the job of a run ends, where its scheduler does not say. Pure."""

from __future__ import annotations

import dataclasses

from workflow.formatting import duration
from workflow.launch.allocation import Allocation
from workflow.plan.plan_model import Plan
from workflow.run.job_record import JobRecord


def with_planned_end(received: Allocation, plan: Plan, job: JobRecord | None, now: float) -> Allocation:
    """The allocation of a run that begins now, with an end if this is the job that was submitted for the run.

    Such a job has the walltime that the plan asks for, and the supervisor is the first that it executes. `now`: Unix
    seconds. Of any other job nothing is guessed.
    """
    if received.end_time is not None or plan.allocation is None or job is None or job.scheduler != received.source:
        return received
    walltime_s = plan.allocation.walltime_s
    note = f"the end of the job is computed: the walltime of {duration(walltime_s)} that was asked for, from now on"
    return dataclasses.replace(received, end_time=now + walltime_s, notes=(*received.notes, note))
