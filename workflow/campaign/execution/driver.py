"""The driver of a campaign: it alone begins and ends attempts in the ledger, and hears the requests to stop."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from workflow.campaign.campaign_directory import RUNS_FOLDER
from workflow.campaign.execution.driver_lease import StopRequests
from workflow.campaign.execution.repetition import StartedAttempt, remove_data
from workflow.campaign.ledger import Attempt, Ledger, OpenAttempt, Repetition
from workflow.campaign.planning.content_key import changed_file
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.errors import RunError
from workflow.run.control.lease import Lease
from workflow.spec.user_paths import exists


@dataclass(frozen=True)
class Driver:
    """The process that runs a campaign, with what it alone writes and hears."""

    planned: PlannedCampaign
    directory: Path
    ledger: Ledger
    lease: Lease
    stop: StopRequests

    def begin(self, repetition: Repetition, where: str = "") -> StartedAttempt:
        """A new attempt of a repetition, with its line in the ledger. `where`: its hosts and cores, for people.

        Raises RunError when a file changed after planning: the repetition would be taken for one of another key.
        """
        trial = self.planned.by_key[repetition.key]
        if (changed := changed_file(trial.files)) is not None:
            raise _changed_since_planning(changed)
        runs = self.directory / RUNS_FOLDER
        number, name = self._next_attempt(repetition)
        # A killed campaign may have left a run whose line in the ledger was cut off.
        while exists(runs / name):
            number, name = self._next_attempt(repetition)
        t = round(time.time(), 3)
        self.ledger.begin(repetition, OpenAttempt(name, number, t, where))
        return StartedAttempt(runs / name, number, trial.nodes, t, where)

    def _next_attempt(self, repetition: Repetition) -> tuple[int, str]:
        """Its number, and the name of its run directory."""
        number = self.ledger.history.begin(repetition)
        return number, repetition.name if number == 1 else f"{repetition.name}-a{number}"

    def end(self, repetition: Repetition, attempt: Attempt) -> None:
        """The line in the ledger of an attempt that ended; its data is removed unless it is to be kept.

        Raises RunError when a file changed after planning: nobody knows which version was measured, and the
        attempt counts as interrupted.
        """
        trial = self.planned.by_key.get(repetition.key)
        files = trial.files if trial is not None else {}
        if attempt.state == "succeeded" and (changed := changed_file(files)) is not None:
            error = _changed_since_planning(changed)
            self.ledger.end(repetition, replace(attempt, state="interrupted", reason=error.problems[0].message))
            raise error
        self.ledger.end(repetition, attempt)
        if self.planned.spec.keep == "records" and attempt.state == "succeeded":
            remove_data(self.directory / RUNS_FOLDER / attempt.run)


def _changed_since_planning(path: Path) -> RunError:
    hint = "run again: changed trials are planned and measured again. A file that a run writes cannot be an input"
    return RunError(f"{path} changed after planning", hint)
