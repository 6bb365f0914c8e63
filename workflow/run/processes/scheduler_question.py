"""Asks the scheduler, once and in a thread, what it says of the job that the run is in."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple

from workflow.launch.allocation import Source
from workflow.site.allocation.scheduler_query import Query, QueryError, ask

DEADLINE_S = 3.0


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
        try:
            answer = to_answer(self._source, self._query(command))
        except QueryError as error:
            answer = Answer("unknown", str(error))
        self._answers.put(answer)


def command_of(source: Source, job: str) -> Sequence[str] | None:
    """What prints the state of a job; None for a source that has no jobs."""
    return {
        "slurm": ["scontrol", "--oneliner", "show", "job", job],
        "pbs": ["qstat", "-x", "-f", job],
        "lsf": ["bjobs", "-noheader", "-o", "stat exit_reason", job],
        "flux": ["flux", "jobs", "--no-header", "--format={status}", job],
    }.get(source)


def to_answer(source: Source, text: str) -> Answer:
    """What the command has printed. A text that is not understood is the state itself."""
    return _READERS.get(source, _whole)(text)


def _slurm(text: str) -> Answer:
    """`JobState=CANCELLED Reason=None`. While Slurm still ends the job, its state is COMPLETING."""
    found = dict(re.findall(r"\b(JobState|Reason)=(\S+)", text))
    if "JobState" not in found:
        return _whole(text)
    reason = found.get("Reason", "None")
    state = found["JobState"] + (f", {reason}" if reason != "None" else "")
    return Answer(state, f"JobState={found['JobState']} Reason={reason}")


def _pbs(text: str) -> Answer:
    """The comment says why the server has ended a job: `job_state = F`, `comment = … job killed: walltime …`."""
    found: dict[str, str] = dict(re.findall(r"^\s*(job_state|comment|Exit_status) = (.*)$", text, re.MULTILINE))
    if "job_state" not in found:
        return _whole(text)
    raw = ", ".join(f"{key} = {value.strip()}" for key, value in found.items())
    return Answer(_PBS_ENDS.get(found.get("Exit_status", "").strip(), found["job_state"]), raw)


# Exit_status: of a job that was ended at its walltime, and 256 + SIGTERM (PBS Professional Administrator's Guide).
_PBS_ENDS = {"-29": "TIMEOUT", "271": "CANCELLED"}


def _whole(text: str) -> Answer:
    words = " ".join(text.split())[:200]
    return Answer(words or "unknown", words)


_READERS: dict[Source, Callable[[str], Answer]] = {"slurm": _slurm, "pbs": _pbs}
