"""Asks the scheduler, in a thread, about the state of the job that the run is in.

What is asked at the end of a job may be ended with it: its command runs in a session of its own, and where it gave no
answer it is asked again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple

from workflow.launch.allocation import Source
from workflow.schedulers.scheduler import same_job
from workflow.schedulers.scheduler_query import Query, QueryError, ask
from workflow.schedulers.schedulers import SCHEDULERS, scheduler_named

# For one question, and for all of them.
DEADLINE_S = 3.0
_PAUSE_S = 0.1


class Answer(NamedTuple):
    """The state of a job in the scheduler's word, and the part of its answer that says so."""

    state: str
    raw: str


class SchedulerQuestion:
    """The question about one job. Nobody waits for the answer: `take` gives it when it has come."""

    def __init__(self, source: Source, job: str, query: Query = lambda command: ask(command, DEADLINE_S)) -> None:
        self._source, self._job, self._query = source, job, query
        self._answers: SimpleQueue[Answer] = SimpleQueue()

    def ask(self) -> None:
        """Begin to ask."""
        threading.Thread(target=self._ask, name="scheduler", daemon=True).start()

    def take(self) -> Answer | None:
        """The answer, once."""
        try:
            return self._answers.get_nowait()
        except Empty:
            return None

    def _ask(self) -> None:
        command = command_of(self._source, self._job)
        if command is None:
            return
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                answer = to_answer(self._source, self._job, self._query(command))
                break
            except QueryError as error:
                answer = Answer("unknown", str(error))
            if time.monotonic() + _PAUSE_S >= deadline:
                break
            time.sleep(_PAUSE_S)
        self._answers.put(answer)


def command_of(source: Source, job: str) -> Sequence[str] | None:
    """What prints the state of a job, asked by the job itself; None for a source that has no jobs."""
    if source not in SCHEDULERS:
        return None
    scheduler = scheduler_named(source)
    return (scheduler.own_job or scheduler.of_job)(job)


def to_answer(source: Source, job: str, text: str) -> Answer:
    """What the command has printed. A text that is not understood is the state itself."""
    scheduler = scheduler_named(source)
    words = [word for word in (scheduler.read_own or scheduler.read)(text) if same_job(job, word)]
    if not words:
        said = " ".join(text.split())[:200]
        return Answer(said or "unknown", said)
    return Answer(words[-1].text, words[-1].raw)
