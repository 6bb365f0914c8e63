"""Runs the repetitions of a campaign in this process, one after the other: nothing else disturbs what is measured.

What a supervisor imports is imported once.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from workflow.campaign.campaign_directory import RUNS_FOLDER
from workflow.campaign.execution.driver_lease import StopRequests
from workflow.campaign.execution.remaining import (
    EndedRepetition,
    Waiting,
    attempts_left,
    is_spent,
    remaining,
    repetitions,
)
from workflow.campaign.execution.repetition import StartedAttempt, remove_data, run_repetition
from workflow.campaign.ledger import Attempt, Ledger, OpenAttempt, RepetitionId
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.launch.allocation import Allocation
from workflow.provenance.collect import to_provenance
from workflow.provenance.provenance_model import Circumstances


@dataclass(frozen=True)
class Workplace:
    """Where a campaign runs, and what it has."""

    directory: Path
    allocation: Allocation
    ledger: Ledger
    stop: StopRequests
    common: Circumstances
    """What all its runs are started with: kept in each run directory."""

    def begin(self, each: Waiting, place: str = "") -> StartedAttempt:
        """A new attempt of a repetition, with its line in the ledger."""
        number = self.ledger.history.begin(each.identity)
        name = each.identity.name if number == 1 else f"{each.identity.name}-a{number}"
        t = round(time.time(), 3)
        self.ledger.begin(each.identity, OpenAttempt(name, number, t, place))
        return StartedAttempt(self.directory / RUNS_FOLDER / name, number, each.trial.nodes, t, place)

    def end(self, planned: PlannedCampaign, identity: RepetitionId, attempt: Attempt) -> None:
        """The line in the ledger of an attempt that ended; its data is removed unless it is to be kept."""
        self.ledger.end(identity, attempt)
        if planned.spec.keep == "records" and attempt.state == "succeeded":
            remove_data(self.directory / RUNS_FOLDER / attempt.run)


def execute_in_order(
    planned: PlannedCampaign, place: Workplace, only_failed: bool = False
) -> Generator[EndedRepetition, None, str]:
    """Run what is not finished, and tell of each attempt that ended. Returns why something is left, if it is.

    It stops after an attempt that was interrupted or lost its nodes, and before one for which the budget is not enough.
    """
    history = place.ledger.history
    todo = remaining(planned, history, only_failed)
    total = len(repetitions(planned))
    done = total - len(todo)
    times: list[float] = []
    for position, each in enumerate(todo):
        attempts = attempts_left(planned, history, each, only_failed)
        for number in range(1, attempts + 1):
            if place.stop.wanted():
                return ""
            if is_spent(planned, history, each.trial.nodes):
                return "the budget is spent"
            trial = each.trial
            start = place.begin(each)
            provenance = to_provenance(place.common, trial.plan, trial.loaded)
            attempt = run_repetition(start, trial.plan, trial.loaded, place.allocation, provenance, place.stop.wanted)
            place.end(planned, each.identity, attempt)
            times.append(attempt.wall_s)
            final = attempt.state == "succeeded" or number == attempts
            done += final
            left = len(todo) - position - final
            yield EndedRepetition(done, total, trial, each.repetition, attempt, left * sum(times) / len(times))
            if attempt.state in ("interrupted", "lost"):
                return attempt.reason
            if attempt.state == "succeeded":
                break
    return ""
