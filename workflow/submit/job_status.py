"""What becomes of the job of a run: the state and reason that the scheduler gives, whether it has ended, the verdict.

The scheduler is asked less and less often, in a thread of its own. The run's own end event comes first, then the exit
code that its script left, then what the scheduler says. That it says nothing is no end, unless it answers for long and
does not know the job.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from workflow.errors import EXIT_INTERRUPTED, EXIT_RUN_FAILED
from workflow.formats.guard_ends import read_guard_ends
from workflow.formats.job_end_file import JobEnd, read_job_end
from workflow.formats.lease_file import DEAD_S, SILENCE_S
from workflow.launch.rank_ends import SchedulerCause
from workflow.plan.plan_model import Plan
from workflow.run.control.detached import OUTPUT_FILE
from workflow.run.control.follow import follow
from workflow.run.control.lease import LeaseWatch, Liveness, examine_leases, has_lease, lost_lease
from workflow.run.control.missing_verdict import write_missing_verdict
from workflow.run.observe.sst_log import last_lines
from workflow.run.records.events_file import read_start_and_verdict
from workflow.run.records.job_record import JobRecord, write_job
from workflow.run.state.run_state import RunState
from workflow.run.verdict.end_causes import job_text
from workflow.schedulers.job_questions import JobAnswer, ask_for_job, find_job
from workflow.schedulers.scheduler import JobWord, Scheduler, WaitsForEver
from workflow.schedulers.schedulers import scheduler_named
from workflow.spec.suggest import listing

# A scheduler that answers, and does not know the job for so long, has forgotten it.
FORGOTTEN_S = 60.0
# A queue that is busy may list a new job only at the second look.
ABSENT_LOOKS = 2
# After an end was seen: so late events of another node may become visible.
VISIBLE_S = 5.0
_REQUEST_LESS = "; to request less: `wf cancel {}`, then change `allocation:` of the pipeline and start it again"
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
                # Accepted: another cluster may have it, or under another name.
                return None if self.job.accepted else no_job_text(self.job)
            return f"the scheduler no longer knows {self.job.text}, and it left no exit code"
        return None

    @property
    def cause(self) -> SchedulerCause | None:
        """What has ended the job, by the scheduler's word."""
        if self.word is None or self.word.phase != "ended":
            return None
        return self._scheduler.cause_of(self.word.text)

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
            return f"{self.job.text}: the scheduler does not know it" + _although_accepted(self.job)
        if self.word is None:
            return f"waiting for {self.job.text} to start"
        if (never := self._never_starts) is None:
            return f"{self.job.text}: {self.word.text}"
        way = f": {never.way.format(job=self.job.job)}" if never.way else f". See `{self._scheduler.command}`"
        return f"{self.job.text}: {self.word.text}: it may never start{way}"

    @property
    def asks_too_much(self) -> bool:
        """Whether it waits for what does not pass when other jobs end, and would not with a smaller request."""
        return (never := self._never_starts) is not None and not never.way

    @property
    def _never_starts(self) -> WaitsForEver | None:
        """Why it may wait for ever, by the scheduler's reason."""
        if self.word is None or self.word.phase != "pending" or self.error or self.absent_since is not None:
            return None
        text = self.word.text
        return next((each for each in self._scheduler.never_starts if each.words.search(text)), None)

    @property
    def _scheduler(self) -> Scheduler:
        return scheduler_named(self.job.scheduler)


def no_job_text(job: JobRecord) -> str:
    """Of a job that never had an id, and that the scheduler does not know."""
    return f"{job.scheduler} has no job named {job.name}" + _although_accepted(job)


def _although_accepted(job: JobRecord) -> str:
    return f", though it was accepted ({job.accepted}): it may have another name, or be on another cluster" * bool(
        job.accepted
    )


def pauses_s() -> Iterator[float]:
    """Seconds between one question and the next: 2, 4, … 60, 60, …"""
    pause = _FIRST_S
    while True:
        yield pause
        pause = min(_LONGEST_S, 2 * pause)


_SHOWN_LINES = 3
_PAUSE_S = 0.2


class JobWatch:
    """Asks about one job. Questions may take long: a scheduler that is down is waited for elsewhere."""

    def __init__(self, run_dir: Path, job: JobRecord) -> None:
        self.tracker = JobTracker(job)
        self._run_dir = run_dir
        self._pauses = pauses_s()
        self._due = 0.0
        self._question: threading.Thread | None = None
        self._answer: JobAnswer | None = None

    def look(self, ask: bool = True) -> JobTracker:
        """What is known now; starts the next question when it is due. Without `ask` only the exit code is looked for:
        a run whose supervisor has started needs no scheduler, and its job was there, whatever was said before."""
        now = time.monotonic()
        if self._answer is not None:
            known, answer = bool(self.tracker.job.job), self._answer
            self._answer = self._question = None
            self.tracker = self.tracker.take(answer, now)
            if self.tracker.job.job and not known:
                write_job(self._run_dir, self.tracker.job)
        if not ask:
            self.tracker = self.tracker.without_absence()
        self.tracker = self.tracker.take_exit_code(read_exit_code(self.tracker.job), now)
        if ask and self._question is None and now >= self._due:
            self._due = now + next(self._pauses)
            self._question = threading.Thread(target=self._ask, args=(self.tracker.job,), daemon=True)
            self._question.start()
        return self.tracker

    def _ask(self, job: JobRecord) -> None:
        self._answer = ask_about(job)


def ask_about(job: JobRecord) -> JobAnswer:
    """What the scheduler says of the job of a run, by its id, or by its name where the id is not known."""
    return ask_for_job(job.scheduler, job.job) if job.job else find_job(job.scheduler, job.name)


def read_exit_code(job: JobRecord) -> int | None:
    """The exit code that the job's script left; None where it left none."""
    if not job.exit_code_file or not job.job:
        return None
    try:
        return int(Path(job.exit_code_file.replace("{job}", job.number)).read_text())
    except (OSError, ValueError):
        return None


def settle_job(
    run_dir: Path, job: JobRecord, within_s: float = FORGOTTEN_S + VISIBLE_S, *, is_lost: bool = False
) -> str:
    """Find out what has become of a run whose supervisor has died, or has not come; write the verdict when its job has
    ended. Returns what is known of the job, in words. Raises OSError when the verdict cannot be written.

    With `within_s` 0 the scheduler is asked once, and its answer is awaited. `is_lost`: its supervisor is known to be
    dead, and its lease is not watched again.
    """
    deadline = time.monotonic() + within_s
    watch = JobWatch(run_dir, job)
    dead = lost_lease(run_dir) if is_lost else None
    while True:
        tracker = watch.look()
        lives = dead or examine_leases([run_dir])[0]
        if lives.alive or read_start_and_verdict(run_dir).finished is not None:
            return tracker.text
        if (by_guard := read_job_end(run_dir)) is not None:
            write_missing_verdict(
                run_dir, lives, "failed", EXIT_RUN_FAILED, _ended_text(run_dir, by_guard, lives), "node_lost"
            )
            return tracker.text
        if (end := tracker.end(time.monotonic())) is not None:
            if write_job_verdict(run_dir, tracker, end, lives):
                return tracker.text
            dead = None  # it has been taken meanwhile
        # An end that was seen is soon certain.
        if tracker.has_answer and tracker.ended_since is None and time.monotonic() > deadline:
            return tracker.text
        time.sleep(_PAUSE_S)


def _ended_text(run_dir: Path, by_guard: JobEnd, lives: Liveness) -> str:
    """Why a run has failed whose supervisor is lost, and what was done about its processes and its job."""
    host = "" if lives.lease is None else f" on {lives.lease.host}"
    lost = f"node lost: no heartbeat of the supervisor{host} for {by_guard.silent_s:.0f} s"
    if hosts := sorted({end.host for end in read_guard_ends(run_dir)}):
        who = f"the guard on {hosts[0]} has" if len(hosts) == 1 else f"the guards on {listing(hosts)} have"
        lost += f"; {who} ended its processes there"
    if by_guard.problem:
        return f"{lost}; the guard on {by_guard.host} could not cancel {by_guard.job}: {by_guard.problem}"
    return f"{lost}; the guard on {by_guard.host} has asked the scheduler to cancel {by_guard.job}"


def write_job_verdict(run_dir: Path, tracker: JobTracker, end: str, lives: Liveness) -> bool:
    """Write the verdict of a run whose job has ended without one. Returns whether it was written: not while its
    supervisor lives. Raises OSError."""
    if (by_guard := read_job_end(run_dir)) is not None:  # the scheduler says only that it was cancelled
        return write_missing_verdict(
            run_dir, lives, "failed", EXIT_RUN_FAILED, _ended_text(run_dir, by_guard, lives), "node_lost"
        )
    why = "before its supervisor started" if lives.lease is None else lives.text
    said = [line for line in last_lines(run_dir / OUTPUT_FILE, _SHOWN_LINES) if line.strip()]
    text = f"{end}; {why}" + (f": {' / '.join(said)}" if said else "")
    cause = tracker.cause
    if cause:
        text = f"{job_text(tracker.job.job, cause)}: {text}"
    if cause == "cancelled":  # somebody wanted it to end, as by Ctrl-C
        return write_missing_verdict(run_dir, lives, "interrupted", EXIT_INTERRUPTED, text, cause)
    return write_missing_verdict(run_dir, lives, "failed", EXIT_RUN_FAILED, text, cause or "")


def follow_job(
    run_dir: Path, plan: Plan, job: JobRecord, say: Callable[[str], None]
) -> Generator[RunState, None, None]:
    """The states of a submitted run, as `follow` gives them. `say` gets what is new of a job that waits.

    The verdict of a run whose job has ended without one is written here. Raises OSError when that is not possible.
    """
    while True:
        state = yield from _follow_once(run_dir, plan, job, say)
        if state is None or state.finished is not None:
            return
        settle_job(run_dir, job)
        word = ask_about(job).word
        if read_start_and_verdict(run_dir).finished is not None or word is None or word.phase != "running":
            return
        say(f"{job.text}: {word.text}, and its run shows no sign of life: this command waits on")


def _follow_once(
    run_dir: Path, plan: Plan, job: JobRecord, say: Callable[[str], None]
) -> Generator[RunState, None, RunState | None]:
    """Until the run has its verdict, or nothing is heard of it; returns its last state."""
    watch, said, over = JobWatch(run_dir, job), "", False
    lease = LeaseWatch(run_dir, time.monotonic(), DEAD_S)
    state: RunState | None = None
    with contextlib.closing(follow(run_dir, plan)) as states:
        for state in states:
            yield state
            if state.finished is not None or over:
                continue
            has_supervisor = state.started is not None or has_lease(run_dir)
            is_silent = lease.look(time.monotonic()).silent_s >= SILENCE_S
            tracker = watch.look(ask=not has_supervisor or is_silent)
            if not has_supervisor and tracker.text != said:
                said = tracker.text
                say(said + (_REQUEST_LESS.format(run_dir.name) if tracker.asks_too_much else ""))
            if (end := tracker.end(time.monotonic())) is not None:
                (lives,) = examine_leases([run_dir])
                # While it lives, the run goes on; when it dies, its states end here.
                over = lives.alive or write_job_verdict(run_dir, tracker, end, lives)
    return state
