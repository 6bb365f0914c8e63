"""Asks a scheduler about a job, from outside or by the job itself, and about its nodes.

What it cannot answer now is no answer: no job ends by that. What is asked at the end of a job may be ended with it: its
command runs in a session of its own, and where it gave no answer it is asked again.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import NamedTuple

from workflow.launch.allocation import Source
from workflow.schedulers.scheduler import JobWord, Query, QueryError, Scheduler, ask, word_of
from workflow.schedulers.schedulers import SCHEDULERS, scheduler_named

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
    answer = _answer_of(commands, commands.of_job(job), job, query)
    if answer.is_absent and commands.history is not None:
        old = _answer_of(commands, commands.history(job), job, query)
        # Without accounting there is no history, which says nothing about the job.
        return old if old.word is not None else answer
    return answer


def find_job(scheduler: str, name: str, query: Query = ask_slowly) -> JobAnswer:
    """The newest job of this user with that name, whatever its state."""
    commands = scheduler_named(scheduler)
    return _answer_of(commands, commands.of_name(name), None, query)


def cancel_job(scheduler: str, job: str, query: Query = ask_slowly) -> None:
    """End a job. One that has ended is not an error. Raises QueryError."""
    commands = scheduler_named(scheduler)
    try:
        query(commands.cancel(job))
    except QueryError as error:
        if not says_absent(commands, error):
            raise


def _answer_of(commands: Scheduler, command: Sequence[str], job: str | None, query: Query) -> JobAnswer:
    try:
        words = commands.read(query(command))
    except QueryError as error:
        return JobAnswer() if says_absent(commands, error) else JobAnswer(error=str(error))
    word = (words[-1] if words else None) if job is None else word_of(job, words)
    return JobAnswer(None if word is None else dataclasses.replace(word, t=time.time()))


def says_absent(commands: Scheduler, error: QueryError) -> bool:
    """Whether a command has failed because there is no such job, or because it has ended."""
    return any(re.search(words, str(error)) for words in commands.absent)


def nodes_up(scheduler: str, queue: str | None, query: Query = ask_slowly) -> int | None:
    """How many nodes a job could get at most, in a queue (None: the default one): a job that asks for more waits for
    ever. None where that is not known: of some schedulers, and without an answer."""
    count = scheduler_named(scheduler).nodes_up
    try:
        return None if count is None else count(queue, query)
    except (QueryError, ValueError):
        return None


# Of a job about itself: for one question, and for all of them.
OWN_ANSWER_S = 3.0
_PAUSE_S = 0.1


class OwnJobState(NamedTuple):
    """The state of a job in the scheduler's word, and the part of its answer that says so."""

    state: str
    raw: str


class OwnJobQuestion:
    """The question about one job. Nobody waits for the answer: `take` gives it when it has come."""

    def __init__(self, source: Source, job: str, query: Query = lambda command: ask(command, OWN_ANSWER_S)) -> None:
        self._source, self._job, self._query = source, job, query
        self._answers: SimpleQueue[OwnJobState] = SimpleQueue()

    def ask(self) -> None:
        """Begin to ask."""
        threading.Thread(target=self._ask, name="scheduler", daemon=True).start()

    def take(self) -> OwnJobState | None:
        """The answer, once."""
        try:
            return self._answers.get_nowait()
        except Empty:
            return None

    def _ask(self) -> None:
        command = own_job_command(self._source, self._job)
        if command is None:
            return
        deadline = time.monotonic() + OWN_ANSWER_S
        while True:
            try:
                answer = to_own_state(self._source, self._job, self._query(command))
                break
            except QueryError as error:
                answer = OwnJobState("unknown", str(error))
            if time.monotonic() + _PAUSE_S >= deadline:
                break
            time.sleep(_PAUSE_S)
        self._answers.put(answer)


class NodesQuestion:
    """The question which of some nodes are down. Nobody waits for the answer: `down` is that to the newest question
    that is answered or has failed, host → the scheduler's word. Where it failed, no node is known to be down."""

    def __init__(self, source: Source, query: Query = lambda command: ask(command, OWN_ANSWER_S)) -> None:
        self.down: Mapping[str, str] = {}
        self._down_nodes = scheduler_named(source).down_nodes if source in SCHEDULERS else None
        self._query = query
        self._thread: threading.Thread | None = None

    def ask(self, hosts: Sequence[str]) -> None:
        """Begin to ask, where the scheduler tells that, and no question waits for its answer."""
        if self._down_nodes is not None and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._ask, args=(hosts,), name="nodes", daemon=True)
            self._thread.start()

    def keep(self, silent: Collection[str]) -> None:
        """Forget what was said of other nodes than these: they have been heard since."""
        self.down = {host: word for host, word in self.down.items() if host in silent}

    def _ask(self, hosts: Sequence[str]) -> None:
        assert self._down_nodes is not None
        try:
            self.down = self._down_nodes(hosts, self._query)
        except QueryError:
            self.down = {}


def own_job_command(source: Source, job: str) -> Sequence[str] | None:
    """What prints the state of a job, asked by the job itself; None for a source that has no jobs."""
    if source not in SCHEDULERS:
        return None
    scheduler = scheduler_named(source)
    return (scheduler.own_job or scheduler.of_job)(job)


def to_own_state(source: Source, job: str, text: str) -> OwnJobState:
    """What the command has printed. A text that is not understood is the state itself."""
    scheduler = scheduler_named(source)
    word = word_of(job, (scheduler.read_own or scheduler.read)(text))
    if word is None:
        said = " ".join(text.split())[:200]
        return OwnJobState(said or "unknown", said)
    return OwnJobState(word.text, word.raw)
