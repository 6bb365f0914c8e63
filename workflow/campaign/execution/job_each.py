"""Runs each repetition in a batch job of its own, submitted as by `wf run --detach`; as many at once as may wait."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from workflow.campaign.execution.campaign_loop import CampaignContext, RepetitionEnd, Room
from workflow.campaign.execution.left_attempts import LeftAttempt
from workflow.campaign.execution.repetition import StartedAttempt, ended_attempt
from workflow.campaign.ledger import Attempt, Repetition
from workflow.campaign.planning.job_allocation import job_allocation
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.errors import RunError
from workflow.provenance.collect import to_provenance
from workflow.run.control.cancellation import REACTION_S
from workflow.run.control.lease import LeaseWatch, has_lease
from workflow.run.records.control_requests import Control, send_request
from workflow.run.records.events_file import read_start_and_verdict
from workflow.run.records.job_record import JobRecord, read_job
from workflow.run.records.run_directory import create_run_dir, read_filled_plan
from workflow.schedulers.job_questions import cancel_job
from workflow.schedulers.scheduler import QueryError
from workflow.submit.job_status import JobWatch, write_job_verdict
from workflow.submit.submission import submit_run

_LOOK_S = 0.5
# A job that waits is cancelled by the scheduler, which needs some seconds, and as many until it says so.
_CANCEL_S = 90.0
DEFAULT_MOST = 50


@dataclass
class _SubmittedRepetition:
    repetition: Repetition
    start: StartedAttempt
    job: JobRecord
    watch: JobWatch
    lease: LeaseWatch
    sent: set[Control] = field(default_factory=set)
    cancelled: bool = False
    """Its job was cancelled while it waited, or had just begun: no fault of its programs."""


class JobEach:
    """An executor: `most` jobs at a time.

    `left`: the jobs that an earlier call has submitted, also those of trials that the file does not have any more:
    nobody else waits for them. A driver that ends otherwise than by a request leaves its jobs: the next one follows
    them.
    """

    closed_because = ""
    unresolved: Sequence[str] = ()

    def __init__(
        self, planned: PlannedCampaign, context: CampaignContext, todo: Sequence[Repetition], most: int,
        left: Sequence[LeftAttempt], say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._planned, self._context, self._most, self._say = planned, context, most, say
        self._jobs: list[_SubmittedRepetition] = []
        for each in left:
            self._follow(each.repetition, each.start)
        self._expected = set(todo)
        followed = {each.repetition for each in left}
        self._todo = deque(each for each in todo if each not in followed)

    @property
    def waiting(self) -> int:
        """How many wait that are not submitted."""
        return len(self._todo)

    @property
    def running(self) -> list[StartedAttempt]:
        """Those that are submitted."""
        return [each.start for each in self._jobs]

    def look(self) -> None:
        """Each job is looked at by `ended`."""

    def next_room(self) -> Room | None:
        """As many as may be in the queue."""
        return Room(self._todo.popleft()) if self._todo and len(self._jobs) < self._most else None

    def put_back(self, repetition: Repetition) -> None:
        """Behind those that wait."""
        self._todo.append(repetition)

    def start(self, room: Room, attempt: StartedAttempt) -> None:
        """Submit its job. Raises RunError when it is refused."""
        trial, site = self._planned.by_key[room.repetition.key], self._context.sites[room.repetition.key]
        allocation = job_allocation(self._planned.campaign, trial, site, own_nodes=True)
        plan = trial.plan.model_copy(update={"allocation": allocation})
        provenance = to_provenance(self._context.start_context(trial), plan, trial.loaded)
        create_run_dir(plan, trial.loaded, attempt.run_dir, provenance=provenance, latest=False)
        job = submit_run(plan, site, attempt.run_dir)
        self._say(f"{attempt.run_dir.name}: {job.text} submitted")
        self._follow(room.repetition, attempt)

    def _follow(self, repetition: Repetition, start: StartedAttempt) -> None:
        """Watch a job that was submitted."""
        job = read_job(start.run_dir)
        assert job is not None, "a run that goes on without its campaign has a job"
        watch, lease = JobWatch(start.run_dir, job), LeaseWatch(start.run_dir, time.monotonic())
        self._jobs.append(_SubmittedRepetition(repetition, start, job, watch, lease))

    def ended(self) -> Iterator[RepetitionEnd]:
        """Those whose runs have a verdict."""
        found = False
        for each in list(self._jobs):
            if not _has_ended(each):
                continue
            found = True
            self._jobs.remove(each)
            attempt = _attempt(each)
            if each.repetition not in self._expected:
                words = "a job of a trial that no longer belongs to the campaign"
                self._say(f"{attempt.run}, {words}: {attempt.state}")
            yield each.repetition, attempt
        if not found:
            time.sleep(_LOOK_S)

    def pass_on(self, request: Control) -> None:
        """Ask every run to stop, and cancel the jobs that wait.

        Raises RunError when some could not be asked; the others have been.
        """
        failed = []
        for each in self._jobs:
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

    def stop_limits(self) -> Mapping[str, float]:
        """A job that waits is cancelled by the scheduler, which takes a time of its own."""
        return {
            each.start.run_dir.name: max(_CANCEL_S, read_filled_plan(each.start.run_dir).deadlines.stop) + REACTION_S
            for each in self._jobs
        }

    def close(self) -> None:
        """Jobs that are left go on."""


def _has_ended(each: _SubmittedRepetition) -> bool:
    """Whether the run has a verdict; it gets one here when its job has ended without it."""
    run_dir = each.start.run_dir
    if read_start_and_verdict(run_dir).finished is not None:
        return True
    lives = each.lease.look(time.monotonic())
    tracker = each.watch.look(ask=not (has_lease(run_dir) and lives.alive))
    each.job = tracker.job
    end = tracker.end(time.monotonic())
    return end is not None and write_job_verdict(run_dir, tracker, end, lives)


def _attempt(each: _SubmittedRepetition) -> Attempt:
    """What it is in the ledger."""
    never_came = not each.job.job and not has_lease(each.start.run_dir)
    return counted_attempt(ended_attempt(each.start), cancelled=each.cancelled, never_came=never_came)


def counted_attempt(attempt: Attempt, *, cancelled: bool, never_came: bool) -> Attempt:
    """An attempt as the campaign counts it: what ended without its programs is no fault of theirs.

    `never_came`: the scheduler does not know its job. A driver that is killed while it submits one leaves such runs.
    """
    if attempt.state != "failed" or not (cancelled or never_came):
        return attempt
    return replace(attempt, state="interrupted" if cancelled else "lost")
