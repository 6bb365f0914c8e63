"""Asks the scheduler, in a thread, what it says of the job that the run is in.

What is asked at the end of a job may be ended with it: its command runs in a session of its own, and where it gave no
answer it is asked again.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

from workflow.launch.allocation import Source
from workflow.site.allocation.scheduler_query import Query, QueryError, ask

# For one question, and for all of them.
DEADLINE_S = 3.0
_PAUSE_S = 0.1
# Of what the script of a job has printed.
_TAIL = 4096


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
                answer = to_answer(self._source, self._query(command))
                break
            except QueryError as error:
                answer = Answer("unknown", str(error))
            if time.monotonic() + _PAUSE_S >= deadline:
                break
            time.sleep(_PAUSE_S)
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
    """`JobState=CANCELLED Reason=None`. While Slurm still ends the job, its state is COMPLETING: why, is in the file of
    the script's errors only, as slurmstepd's last line there."""
    found = dict(re.findall(r"\b(JobState|Reason)=(\S+)", text))
    if "JobState" not in found:
        return _whole(text)
    reason = found.get("Reason", "None")
    state = found["JobState"] + (f", {reason}" if reason != "None" else "")
    raw = f"JobState={found['JobState']} Reason={reason}"
    if state == "COMPLETING" and (end := _slurmstepd_line(text)):
        return Answer(f"{state}, {_due_to(end)}", f"{raw}, {end}")
    return Answer(state, raw)


def _slurmstepd_line(text: str) -> str:
    """`*** JOB 12 ON n1 CANCELLED AT 2026-05-01T12:00:00 DUE TO TIME LIMIT ***`; empty where it is not found."""
    path, job = re.search(r"\bStdErr=(\S+)", text), re.search(r"\bJobId=(\d+)", text)
    if path is None or job is None:
        return ""
    try:
        with Path(path[1]).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL))
            said = file.read().decode(errors="replace")
    except OSError:
        return ""
    found = re.findall(rf"\*\*\* JOB {job[1]} ON .* CANCELLED AT .* \*\*\*", said)
    return found[-1] if found else ""


def _due_to(line: str) -> str:
    """Slurm's word for the reason in such a line."""
    due = re.search(r"DUE TO ([A-Z ]+)", line)
    if due is None:
        return "CANCELLED"
    return {"TIME LIMIT": "TIMEOUT", "PREEMPTION": "PREEMPTED", "NODE FAILURE": "NODE_FAIL"}.get(due[1].strip(), "")


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
