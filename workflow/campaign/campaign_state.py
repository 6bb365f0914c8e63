"""How far a campaign is, whether a process runs it, and what ends while it is watched: by its lease and its ledger."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

from workflow.campaign.campaign_directory import Schedule, ScheduledTrial, find_campaign, last_entry_t
from workflow.campaign.execution.campaign_loop import EndedRepetition
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.ledger import CAMPAIGNS, LEDGER_FILE, Attempt, History, Repetition, read_history, take_record
from workflow.campaign.results.make_results import make_status
from workflow.campaign.results.results_model import (
    CampaignLine,
    CampaignState,
    CampaignStatus,
    DriverPart,
    RunningRepetition,
)
from workflow.campaign.results.samples import all_repetitions
from workflow.campaign.search import asked_counts
from workflow.errors import WfError
from workflow.formats.json_lines import Tail
from workflow.formats.lease_file import DEAD_S
from workflow.run.control.lease import LeaseWatch, Liveness, examine_leases, read_lease

POLL_S = 0.5
LEASE_LOOK_S = 1.0


def read_state(directory: Path, spec: CampaignSpec, schedule: Schedule) -> CampaignStatus:
    """How far a campaign is and who runs it. Takes up to ten seconds where a process of another host may be dead."""
    (lives,) = examine_leases([directory])
    # Read after the lease: what a process wrote before it ended is then seen.
    history = read_history(directory)
    return with_driver(make_status(spec, schedule, history), history, lives)


def with_driver(status: CampaignStatus, history: History, lives: Liveness) -> CampaignStatus:
    """A status with the process that runs the campaign, and what runs at the moment. Pure."""
    lease = lives.lease
    driver = None if lease is None else DriverPart(host=lease.host, pid=lease.pid, alive=lives.alive)
    running = [
        RunningRepetition(
            trial=repetition.key,
            number=repetition.number,
            warmup=repetition.warmup,
            attempt=attempt.attempt,
            run=attempt.run,
            started=attempt.t,
            place=attempt.place,
        )
        for (repetition, _), attempt in history.open.items()
    ]
    return status.model_copy(update={"driver": driver, "running": running if lives.alive else []})


def state_of(status: CampaignStatus) -> CampaignState:
    """In one word. Pure."""
    if status.driver is not None:
        return "running" if status.driver.alive else "lost"
    if status.complete:
        return "complete"
    missing = any(trial.succeeded + trial.failed < trial.wanted for trial in status.trials)
    return "unfinished" if missing else "failed"


def list_campaigns(names: Sequence[str]) -> list[CampaignLine]:
    """A line for each campaign, in this order. Takes up to ten seconds where a process of another host may be dead."""
    leases = examine_leases([Path(CAMPAIGNS) / name for name in names])
    return [_to_line(name, lives) for name, lives in zip(names, leases, strict=True)]


def _to_line(name: str, lives: Liveness) -> CampaignLine:
    directory = Path(CAMPAIGNS) / name
    try:
        _, campaign, schedule = find_campaign(directory)
        history = read_history(directory)
    except WfError as error:
        return CampaignLine(name=name, state="unreadable", reason=error.problems[0].message)
    status = with_driver(make_status(campaign.spec, schedule, history), history, lives)
    host = schedule.host if status.driver is None else status.driver.host
    return CampaignLine(
        name=name,
        state=state_of(status),
        reason=lives.text if status.driver is not None and not lives.alive else "",
        succeeded=sum(trial.succeeded for trial in status.trials),
        failed=sum(trial.failed for trial in status.trials),
        violated=status.violated,
        wanted=sum(trial.wanted for trial in status.trials),
        running=len(status.running),
        spent_s=status.spent_s,
        changed=last_entry_t(directory),
        host=host,
        site=schedule.site,
    )


def watch_campaign(directory: Path, spec: CampaignSpec, schedule: Schedule) -> Iterator[list[EndedRepetition]]:
    """What has ended since the last look, every POLL_S, until the process that runs the campaign has ended or died.

    What had ended before is not repeated. Raises RunError for a ledger of a newer version.
    """
    tail, history = Tail(directory / LEDGER_FILE), History()
    trials = {trial.key: trial for trial in schedule.trials}
    progress = _Progress(spec, schedule.trials)
    _take(tail, history, progress)
    watch = LeaseWatch(directory, time.monotonic(), DEAD_S)
    looked, alive = -LEASE_LOOK_S, True
    while True:
        now = time.monotonic()
        if now - looked >= LEASE_LOOK_S:
            looked, alive = now, watch.look(now).alive
        # Asked before the ledger is read: what was written before the end is then read in the last round.
        goes_on = alive and read_lease(directory) is not None
        ended = _take(tail, history, progress)
        yield [
            EndedRepetition(done, progress.total, trials[repetition.key], repetition, attempt, left_s)
            for repetition, attempt, done, left_s in ended
            if repetition.key in trials
        ]
        if not goes_on:
            return
        time.sleep(POLL_S)


class _Progress:
    """Counts the repetitions that need no further attempt."""

    def __init__(self, spec: CampaignSpec, trials: Sequence[ScheduledTrial]) -> None:
        self._spec, self._trials = spec, trials
        self._open = {repetition for each in trials for repetition in all_repetitions(each.key, spec)}
        self.total = len(self._open)
        self._times: list[float] = []

    def _left(self, history: History) -> int:
        if self._spec.search is None:
            return len(self._open)
        asked = asked_counts(self._spec, self._trials, history, to_the_end=True)  # fewer than all
        self.total = sum(asked.values()) + self._spec.warmup * len(asked)
        return sum(each.warmup or each.number <= asked[each.key] for each in self._open)

    def take(self, repetition: Repetition, attempt: Attempt, history: History) -> tuple[int, float]:
        """(how many are done, seconds left) after an attempt has ended."""
        if attempt.state == "succeeded" or history.failures[repetition] > self._spec.retries:
            self._open.discard(repetition)
        self._times.append(attempt.wall_s)
        side_by_side = len(history.open) + 1
        left = self._left(history)
        return self.total - left, left * mean(self._times[-100:]) / side_by_side


def _take(tail: Tail, history: History, progress: _Progress) -> list[tuple[Repetition, Attempt, int, float]]:
    """The attempts that ended in the new lines of the ledger."""
    found = []
    for record in tail.records(fresh=True):
        try:
            ended = take_record(history, record)
        except (KeyError, TypeError):
            continue
        if ended is not None:
            found.append((*ended, *progress.take(*ended, history)))
    return found
