"""What is known of the job of a run, as answers come; and whether it has ended. Pure.

The run's own end event comes first, then the exit code that its script left, then what the scheduler says. That it
says nothing is no end, unless it answers for long and does not know the job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from workflow.launch.rank_ends import SchedulerCause
from workflow.run.records.job_record import JobRecord
from workflow.schedulers.job_questions import JobAnswer
from workflow.schedulers.scheduler import JobWord
from workflow.schedulers.schedulers import scheduler_named

# A scheduler that answers, and does not know the job for so long, has forgotten it.
FORGOTTEN_S = 60.0
# A queue that is busy may list a new job only at the second look.
ABSENT_LOOKS = 2
# After an end was seen: so late events of another node may become visible.
VISIBLE_S = 5.0
_FIRST_S, _LONGEST_S = 2.0, 60.0


@dataclass(frozen=True)
class JobTracker:
    """What is known. `word`: the last that was understood; `absent_since`, `ended_since`: of the answers, None where
    that is not so; `error`: why the last question was not answered; `exit_code`: of the job's script.
    """

    job: JobRecord
    word: JobWord | None = None
    absent_since: float | None = None
    ended_since: float | None = None
    error: str = ""
    exit_code: int | None = None

    def take(self, answer: JobAnswer, now: float) -> JobTracker:
        """After one more answer. No answer, or a word that is not known, changes nothing of what was known."""
        if answer.error:
            return replace(self, error=answer.error)
        if answer.is_absent:
            return replace(self, error="", absent_since=now if self.absent_since is None else self.absent_since)
        word = answer.word
        assert word is not None
        job = self.job if self.job.job else replace(self.job, job=word.job)
        ended = None
        if word.phase == "ended":
            ended = now if self.ended_since is None else self.ended_since
        return replace(self, job=job, word=word, error="", absent_since=None, ended_since=ended)

    def take_exit_code(self, code: int | None, now: float) -> JobTracker:
        """After a look at the file of the job's script."""
        if code is None:
            return self
        return replace(self, exit_code=code, ended_since=now if self.ended_since is None else self.ended_since)

    def without_absence(self) -> JobTracker:
        """Once the run's supervisor has started: the scheduler is not asked any more, and could not take it back."""
        return replace(self, absent_since=None)

    def end(self, now: float) -> str | None:
        """How the job ended, for people; None: it has not, as far as is known."""
        if self.ended_since is not None and now - self.ended_since >= VISIBLE_S:
            return f"{self.job.text} ended: {', '.join(self._facts())}"
        if self.absent_since is not None and now - self.absent_since >= FORGOTTEN_S:
            if not self.job.job:
                return no_job_text(self.job)
            return f"the scheduler no longer knows {self.job.text}, and it left no exit code"
        return None

    @property
    def cause(self) -> SchedulerCause | None:
        """What has ended the job, by the scheduler's word."""
        if self.word is None or self.word.phase != "ended":
            return None
        return scheduler_named(self.job.scheduler).cause_of(self.word.text)

    def _facts(self) -> Iterator[str]:
        if self.word is not None and self.word.phase == "ended":
            yield self.word.text
        code = self.exit_code if self.exit_code is not None or self.word is None else self.word.exit_code
        if code is not None:
            yield f"exit code {code}"

    @property
    def has_answer(self) -> bool:
        """Whether a question has been asked, and answered or not."""
        return self.word is not None or self.error != "" or self.absent_since is not None

    @property
    def text(self) -> str:
        """What is known now, in a line: `slurm job 12: PENDING (Priority)`."""
        if self.error:
            return f"{self.job.text}: no answer from the scheduler: {self.error}"
        if self.absent_since is not None:
            return f"{self.job.text}: the scheduler does not know it"
        if self.word is None:
            return f"waiting for {self.job.text} to start"
        return f"{self.job.text}: {self.word.text}"


def no_job_text(job: JobRecord) -> str:
    """Of a job that never had an id, and that the scheduler does not know."""
    return f"{job.scheduler} has no job named {job.name}"


def pauses_s() -> Iterator[float]:
    """Seconds between one question and the next: 2, 4, … 60, 60, …"""
    pause = _FIRST_S
    while True:
        yield pause
        pause = min(_LONGEST_S, 2 * pause)
