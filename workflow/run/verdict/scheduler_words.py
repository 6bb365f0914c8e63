"""Messages to users about the end of a job. Pure. The meaning of a scheduler's output is in the scheduler's module."""

from __future__ import annotations

from workflow.launch.rank_ends import SchedulerCause
from workflow.run.state.events import SchedulerSaid

_TEXTS: dict[SchedulerCause, str] = {
    "cancelled": "was cancelled",
    "node_lost": "lost a node",
    "out_of_memory": "ran out of memory",
    "preempted": "was preempted",
    "time_limit": "reached its time limit",
}


def job_text(job: str, cause: SchedulerCause) -> str:
    """`job 12 was preempted`."""
    return f"job {job} {_TEXTS[cause]}"


def quoted(said: SchedulerSaid) -> str:
    """The scheduler's own words."""
    return f"the scheduler says `{said.raw or said.state}`"
