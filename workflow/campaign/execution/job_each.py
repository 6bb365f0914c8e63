"""Runs each repetition in a batch job of its own, submitted as by `wf run --detach`; as many at once as may wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace

from workflow.campaign.execution.adoption import LeftAttempt
from workflow.campaign.execution.remaining import (
    UNFINISHED,
    AttemptsLeft,
    EndedRepetition,
    RepetitionChoice,
    RepetitionToRun,
    is_spent,
    remaining,
    repetitions,
)
from workflow.campaign.execution.repetition import StartedAttempt, to_attempt
from workflow.campaign.execution.workplace import Workplace
from workflow.campaign.ledger import Attempt, RepetitionId
from workflow.campaign.planning.job_allocation import job_allocation
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.errors import RunError
from workflow.formatting import duration
from workflow.provenance.collect import to_provenance
from workflow.run.cancellation import REACTION_S
from workflow.run.control_requests import Control, send_request
from workflow.run.job_record import JobRecord, read_job
from workflow.run.lease import LeaseWatch, has_lease
from workflow.run.run_brief import read_brief
from workflow.run.run_directory import create_run_dir, read_filled_plan
from workflow.schedulers.job_questions import cancel_job
from workflow.schedulers.scheduler_query import QueryError
from workflow.site.site_model import Site
from workflow.submit.job_watch import JobWatch, write_job_verdict
from workflow.submit.submission import submit_run

_LOOK_S = 0.5
# A job that waits is cancelled by the scheduler, which needs some seconds, and as many until it says so.
_CANCEL_S = 90.0
DEFAULT_MOST = 50


@dataclass(frozen=True)
class JobEach:
    """`sites`: key of a trial → its site; `most` jobs at a time; `left`: those that an earlier call has submitted."""

    sites: Mapping[str, Site]
    most: int
    left: list[LeftAttempt]
    say: Callable[[str], None]


@dataclass
class _SubmittedRepetition:
    index: int | None
    """Among those to run; None for one that the campaign does not have any more."""
    identity: RepetitionId
    start: StartedAttempt
    job: JobRecord
    watch: JobWatch
    lease: LeaseWatch
    sent: set[Control] = field(default_factory=set)
    cancelled: bool = False
    """Its job was cancelled while it waited, or had just begun: no fault of its programs."""


def execute_jobs(
    planned: PlannedCampaign, place: Workplace, how: JobEach, which: RepetitionChoice = UNFINISHED
) -> Generator[EndedRepetition, None, str]:
    """Run what is not finished, and tell of each attempt that ended. Returns why something is left, if it is.

    A driver that ends otherwise than by a request leaves its jobs: the next one follows them.
    """
    loop = _JobLoop(planned, place, how, which)
    yield from loop.run()
    return loop.left_because


class _JobLoop:
    """The state of one call."""

    def __init__(self, planned: PlannedCampaign, place: Workplace, how: JobEach, which: RepetitionChoice) -> None:
        self.planned, self.place, self.how = planned, place, how
        self.todo = remaining(planned, place.ledger.history, which)
        submitted = {each.identity for each in how.left} - {each.identity for each in self.todo}
        self.todo += [each for each in repetitions(planned) if each.identity in submitted]
        self.attempts = AttemptsLeft(planned, place.ledger.history, self.todo, which)
        self.running: list[_SubmittedRepetition] = []
        number = {each.identity: index for index, each in enumerate(self.todo)}
        for left in how.left:
            # Also those of trials that the file does not have any more: nobody else waits for their jobs.
            self.follow(number.get(left.identity), left.identity, left.start)
        taken = {each.index for each in self.running}
        self.waiting = [index for index in range(len(self.todo)) if index not in taken]
        self.left_because = ""
        self.began = time.monotonic()
        self.stop_since: float | None = None

    def run(self) -> Iterator[EndedRepetition]:
        """Until nothing runs and nothing can start."""
        while True:
            stop = self.place.stop.wanted()
            if stop is not None:
                self.pass_on(stop)
            else:
                self.submit_all()
            for each in list(self.running):
                if self.has_ended(each):
                    yield from self.record(each)
            if not self.running and (stop is not None or self.left_because or not self.waiting):
                return
            time.sleep(_LOOK_S)

    def submit_all(self) -> None:
        """As many as may be in the queue."""
        while self.waiting and len(self.running) < self.how.most and not self.left_because:
            index = self.waiting[0]
            each = self.todo[index]
            busy = [one.start.nodes for one in self.running]
            expected = self.planned.spec.expected or 0.0
            promised = (expected * len(busy), expected * sum(busy))
            if is_spent(self.planned, self.place.ledger.history, each.trial.nodes, promised):
                self.left_because = "the budget is spent"
                return
            self.waiting.pop(0)
            self.submit(index, each)

    def submit(self, index: int, each: RepetitionToRun) -> None:
        """One job. Raises RunError when it is refused."""
        trial, site = each.trial, self.how.sites[each.trial.key]
        allocation = job_allocation(self.planned.campaign, trial, site, own_nodes=True)
        plan = trial.plan.model_copy(update={"allocation": allocation})
        start = self.place.begin(each)
        provenance = to_provenance(self.place.circumstances(trial), plan, trial.loaded)
        create_run_dir(plan, trial.loaded, start.run_dir, provenance=provenance, latest=False)
        job = submit_run(plan, site, start.run_dir)
        self.how.say(f"{start.run_dir.name}: {job.text} submitted")
        self.follow(index, each.identity, start)

    def follow(self, index: int | None, identity: RepetitionId, start: StartedAttempt) -> None:
        """Watch a job that was submitted."""
        job = read_job(start.run_dir)
        assert job is not None, "a run that goes on without its campaign has a job"
        watch, lease = JobWatch(start.run_dir, job), LeaseWatch(start.run_dir, time.monotonic())
        self.running.append(_SubmittedRepetition(index, identity, start, job, watch, lease))

    def has_ended(self, each: _SubmittedRepetition) -> bool:
        """Whether the run has a verdict; it gets one here when its job has ended without it."""
        run_dir = each.start.run_dir
        if read_brief(run_dir).finished is not None:
            return True
        lives = each.lease.look(time.monotonic())
        tracker = each.watch.look(ask=not (has_lease(run_dir) and lives.alive))
        each.job = tracker.job
        end = tracker.end(time.monotonic())
        return end is not None and write_job_verdict(run_dir, tracker, end, lives)

    def record(self, each: _SubmittedRepetition) -> Iterator[EndedRepetition]:
        """Into the ledger; what failed or was lost waits again, as often as it may."""
        self.running.remove(each)
        brief = read_brief(each.start.run_dir)
        wall_s = brief.t - brief.started.t if brief.t is not None and brief.started is not None else 0.0
        # Its job may have waited for hours: whether trials were measured in turns is judged by when they ran.
        start = each.start if brief.started is None else replace(each.start, t=brief.started.t)
        never_came = not each.job.job and not has_lease(each.start.run_dir)
        attempt = counted_attempt(to_attempt(start, max(0.0, wall_s)), cancelled=each.cancelled, never_came=never_came)
        self.place.end(self.planned, each.identity, attempt)
        if each.index is None:
            self.how.say(f"{attempt.run}, a job of a trial that is no part of the campaign any more: {attempt.state}")
            return
        if self.attempts.take(each.index, attempt):
            self.waiting.append(each.index)
        yield self.attempts.tell(each.index, attempt, time.monotonic() - self.began)

    def pass_on(self, request: Control) -> None:
        """Ask every run to stop, and cancel the jobs that wait.

        Raises RunError when they do not end, or when some could not be asked; the others have been.
        """
        now = time.monotonic()
        if self.stop_since is None:
            self.stop_since = now
        failed = []
        for each in self.running:
            if request in each.sent:
                continue
            each.sent.add(request)
            try:
                # A job that begins meanwhile reads the request.
                send_request(each.start.run_dir, request)
            except RunError as error:
                failed.append(error.message)
            if not has_lease(each.start.run_dir) and each.job.job:
                each.cancelled = True
                try:
                    cancel_job(each.job.scheduler, each.job.job)
                except QueryError as error:
                    failed.append(f"{each.job.text} cannot be cancelled: {error}")
        if failed:
            raise RunError("; ".join(failed), "the next `wf campaign run` follows what is left; or cancel it again")
        stops = [read_filled_plan(each.start.run_dir).deadlines.stop for each in self.running]
        longest_s = max([_CANCEL_S, *stops]) + REACTION_S
        if now - self.stop_since > longest_s:
            names = ", ".join(each.start.run_dir.name for each in self.running)
            text = f"{names}: not stopped within {duration(longest_s)}"
            raise RunError(text, "the next `wf campaign run` follows them")


def counted_attempt(attempt: Attempt, *, cancelled: bool, never_came: bool) -> Attempt:
    """An attempt as the campaign counts it: what ended without its programs is no fault of theirs.

    `never_came`: the scheduler does not know its job. A driver that is killed while it submits one leaves such runs.
    """
    if attempt.state != "failed" or not (cancelled or never_came):
        return attempt
    return replace(attempt, state="interrupted" if cancelled else "lost")
