"""What a scheduler's word for the state of a job means for the run inside it. Pure.

Slurm's words are those of `JobState` and `Reason` (https://slurm.schedmd.com/squeue.html#SECTION_JOB-STATE-CODES).
A word that is not known is quoted and means nothing.
"""

from __future__ import annotations

import re

from workflow.launch.rank_ends import SchedulerCause
from workflow.run.events import SchedulerSaid

_CAUSES: dict[str, SchedulerCause] = {
    "BOOT_FAIL": "node_lost",
    "CANCELLED": "cancelled",
    "DEADLINE": "time_limit",
    "NODE_FAIL": "node_lost",
    "NODEDOWN": "node_lost",
    "NODEFAIL": "node_lost",
    "OUTOFMEMORY": "out_of_memory",
    "OUT_OF_MEMORY": "out_of_memory",
    "PREEMPTED": "preempted",
    "TIMELIMIT": "time_limit",
    "TIMEOUT": "time_limit",
}
_TEXTS: dict[SchedulerCause, str] = {
    "cancelled": "was cancelled",
    "node_lost": "lost a node",
    "out_of_memory": "ran out of memory",
    "preempted": "was preempted",
    "time_limit": "reached its time limit",
}


def cause_said(said: SchedulerSaid) -> SchedulerCause | None:
    """What has ended a job in this state; None where the word does not say.

    `CANCELLED by 1000` and `COMPLETING, Reason=TimeLimit` are such states: the first word that is known counts.
    """
    words = re.findall(r"[A-Za-z_]+", said.state)
    return next((_CAUSES[word.upper()] for word in words if word.upper() in _CAUSES), None)


def is_ending(said: SchedulerSaid) -> bool:
    """Whether the job is being ended, for a reason that is not said."""
    return said.state.upper().startswith("COMPLETING")


def is_going_on(said: SchedulerSaid) -> bool:
    """Whether the job goes on, so that what has ended concerns a step only."""
    return said.state.upper().split(",")[0] in ("RUNNING", "R", "RUN")


def job_text(job: str, cause: SchedulerCause) -> str:
    """`job 12 was preempted`."""
    return f"job {job} {_TEXTS[cause]}"


def quoted(said: SchedulerSaid) -> str:
    """The scheduler's own words."""
    return f"the scheduler says `{said.raw or said.state}`"
