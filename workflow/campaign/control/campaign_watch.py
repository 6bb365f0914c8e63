"""Follows a campaign that another process runs, by its ledger and its lease, from any host that sees its directory."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from workflow.campaign.campaign_directory import Schedule, ScheduledTrial
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.ledger import LEDGER_FILE, Attempt, History, Repetition, take_record
from workflow.campaign.results.samples import all_repetitions
from workflow.formats.json_lines import Tail
from workflow.run.control.lease import LeaseWatch, read_lease

POLL_S = 0.5
LEASE_LOOK_S = 1.0


@dataclass(frozen=True)
class WatchedEnd:
    """An attempt has ended; `done` counts the repetitions that need no further one."""

    done: int
    total: int
    trial: ScheduledTrial
    repetition: Repetition
    attempt: Attempt
    left_s: float
    """Estimate for those that remain, from those that ran."""


def watch_campaign(directory: Path, spec: CampaignSpec, schedule: Schedule) -> Generator[list[WatchedEnd], None, None]:
    """What has ended since the last look, every POLL_S, until the process that runs the campaign has ended or died.

    What had ended before is not repeated. Raises RunError for a ledger of a newer version.
    """
    tail, history = Tail(directory / LEDGER_FILE), History()
    trials = {trial.key: trial for trial in schedule.trials}
    progress = _Progress(spec, list(trials))
    _take(tail, history, progress)
    watch = LeaseWatch(directory, time.monotonic())
    looked, alive = -LEASE_LOOK_S, True
    while True:
        now = time.monotonic()
        if now - looked >= LEASE_LOOK_S:
            looked, alive = now, watch.look(now).alive
        # Asked before the ledger is read: what was written before the end is then read in the last round.
        goes_on = alive and read_lease(directory) is not None
        ended = _take(tail, history, progress)
        yield [
            WatchedEnd(done, progress.total, trials[repetition.key], repetition, attempt, left_s)
            for repetition, attempt, done, left_s in ended
            if repetition.key in trials
        ]
        if not goes_on:
            return
        time.sleep(POLL_S)


class _Progress:
    """Counts the repetitions that need no further attempt."""

    def __init__(self, spec: CampaignSpec, keys: list[str]) -> None:
        self._open = {repetition for key in keys for repetition in all_repetitions(key, spec)}
        self.total = len(self._open)
        self._retries = spec.retries
        self._times: list[float] = []

    def take(self, repetition: Repetition, attempt: Attempt, history: History) -> tuple[int, float]:
        """(how many are done, seconds left) after an attempt has ended."""
        if attempt.state == "succeeded" or history.failures[repetition] > self._retries:
            self._open.discard(repetition)
        self._times.append(attempt.wall_s)
        side_by_side = len(history.open) + 1
        return self.total - len(self._open), len(self._open) * mean(self._times[-100:]) / side_by_side


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
