"""Runs the repetitions of a campaign in this process, one after the other: nothing else disturbs what is measured.

What a supervisor imports is imported once.
"""

from __future__ import annotations

import time
from collections.abc import Generator

from workflow.campaign.execution.remaining import (
    UNFINISHED,
    AttemptsLeft,
    EndedRepetition,
    RepetitionChoice,
    is_spent,
    remaining,
)
from workflow.campaign.execution.repetition import run_repetition
from workflow.campaign.execution.workplace import Workplace
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.provenance.collect import to_provenance


def execute_in_order(
    planned: PlannedCampaign, place: Workplace, which: RepetitionChoice = UNFINISHED
) -> Generator[EndedRepetition, None, str]:
    """Run what is not finished, and tell of each attempt that ended. Returns why something is left, if it is.

    It stops after an attempt that was interrupted or lost its nodes, and before one for which the budget is not enough.
    """
    history = place.ledger.history
    todo = remaining(planned, history, which)
    attempts = AttemptsLeft(planned, history, todo, which)
    began = time.monotonic()
    for index, each in enumerate(todo):
        again = True
        while again:
            if place.stop.wanted():
                return ""
            if is_spent(planned, history, each.trial.nodes):
                return "the budget is spent"
            trial = each.trial
            start = place.begin(each)
            provenance = to_provenance(place.circumstances(trial), trial.plan, trial.loaded)
            attempt = run_repetition(start, trial.plan, trial.loaded, place.allocation, provenance, place.stop.wanted)
            place.end(planned, each.identity, attempt)
            again = attempts.take(index, attempt)
            yield attempts.tell(index, attempt, time.monotonic() - began)
            if attempt.state in ("interrupted", "lost"):
                return attempt.reason
    return ""
