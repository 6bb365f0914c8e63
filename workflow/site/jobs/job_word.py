"""What a scheduler says of a job, and how to ask it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

# unknown: a word that is not in our table. It means nothing; the next answer may be another one.
Phase = Literal["pending", "running", "ended", "unknown"]


@dataclass(frozen=True)
class JobWord:
    """One answer. `state` is the scheduler's own word, `raw` the whole of what it printed of the job.

    `reason`: why it waits, or why it has ended; `exit_code` is that of the job's script. `t`: when, in Unix seconds.
    """

    job: str
    phase: Phase
    state: str
    raw: str
    reason: str = ""
    exit_code: int | None = None
    t: float = 0.0

    @property
    def text(self) -> str:
        """`PENDING (Priority)`."""
        return f"{self.state} ({self.reason})" if self.reason else self.state

    @property
    def is_ending(self) -> bool:
        """Whether the job has ended, or its processes are being ended: nothing can be started in it any more."""
        return self.phase == "ended" or any(word in _ENDING for word in self.state.replace(",", " ").split())


# Of Slurm, PBS and Flux.
_ENDING = ("COMPLETING", "E", "CLEANUP")
Command = list[str]


@dataclass(frozen=True)
class JobCommands:
    """How one scheduler is asked. `read` takes what any of the questions prints; `absent` are words of an error that
    says that there is no such job. `history` asks for jobs that the queue has forgotten.
    """

    of_job: Callable[[str], Command]
    of_name: Callable[[str], Command]
    read: Callable[[str], list[JobWord]]
    cancel: Callable[[str], Command]
    absent: tuple[str, ...]
    history: Callable[[str], Command] | None = None


def phase_of(state: str, phases: dict[str, Phase]) -> Phase:
    """The phase of a state of one or several words: `CANCELLED by 1000`, `RUNNING,COMPLETING`.

    A job that has ended and still cleans up has not ended.
    """
    words = state.replace(",", " ").replace("+", " ").split()
    known = {phases[word] for word in words if word in phases}
    order: tuple[Phase, ...] = ("running", "pending", "ended")
    return next((phase for phase in order if phase in known), "unknown")


def same_job(job: str, word: JobWord) -> bool:
    """Whether an answer is about this job. Parts of a job have numbers of their own: `12_3`, `12+0`, `12[1].server`."""
    return job in (word.job, word.job.partition("_")[0].partition("+")[0], word.job.partition(".")[0])
