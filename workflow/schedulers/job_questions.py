"""Asks a scheduler about a job, and about its nodes. What it cannot answer now is no answer: no job ends by that."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from workflow.schedulers.scheduler import JobWord, Scheduler, same_job
from workflow.schedulers.scheduler_query import Query, QueryError, ask
from workflow.schedulers.schedulers import scheduler_named

# Slurm's commands block for 9 s when its controller is gone.
ANSWER_S = 20.0
ask_slowly: Query = functools.partial(ask, deadline_s=ANSWER_S)


@dataclass(frozen=True)
class JobAnswer:
    """`word`: what the scheduler says of the job; None: it does not know the job, or gave no answer (`error`)."""

    word: JobWord | None = None
    error: str = ""

    @property
    def is_absent(self) -> bool:
        """Whether the scheduler has answered, and does not know the job."""
        return self.word is None and not self.error


def ask_for_job(scheduler: str, job: str, query: Query = ask_slowly) -> JobAnswer:
    """What the queue says of a job, or the accounting when the queue has forgotten it."""
    commands = scheduler_named(scheduler)
    answer = _answer(commands, commands.of_job(job), job, query)
    if answer.is_absent and commands.history is not None:
        old = _answer(commands, commands.history(job), job, query)
        # Without accounting there is no history, which says nothing about the job.
        return old if old.word is not None else answer
    return answer


def find_job(scheduler: str, name: str, query: Query = ask_slowly) -> JobAnswer:
    """The newest job of this user with that name, whatever its state."""
    commands = scheduler_named(scheduler)
    return _answer(commands, commands.of_name(name), None, query)


def cancel_job(scheduler: str, job: str, query: Query = ask_slowly) -> None:
    """End a job. One that has ended is not an error. Raises QueryError."""
    commands = scheduler_named(scheduler)
    try:
        query(commands.cancel(job))
    except QueryError as error:
        if not _says_absent(commands, error):
            raise


def _answer(commands: Scheduler, command: Sequence[str], job: str | None, query: Query) -> JobAnswer:
    try:
        words = commands.read(query(command))
    except QueryError as error:
        return JobAnswer() if _says_absent(commands, error) else JobAnswer(error=str(error))
    found = [word for word in words if job is None or same_job(job, word)]
    return JobAnswer(dataclasses.replace(found[-1], t=time.time()) if found else None)


def _says_absent(commands: Scheduler, error: QueryError) -> bool:
    return any(words in str(error) for words in commands.absent)


def nodes_up(scheduler: str, queue: str | None, query: Query = ask_slowly) -> int | None:
    """How many nodes a job could get at most, in a queue (None: the default one): a job that asks for more waits for
    ever. None where that is not known: of some schedulers, and without an answer."""
    count = scheduler_named(scheduler).nodes_up
    try:
        return None if count is None else count(queue, query)
    except (QueryError, ValueError):
        return None
