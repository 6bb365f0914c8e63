"""The directory of a campaign as its driver uses it: the ledger, which it alone writes, and the requests to it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from workflow.campaign.campaign_directory import RUNS_FOLDER
from workflow.campaign.execution.driver_lease import StopRequests
from workflow.campaign.execution.remaining import RepetitionToRun
from workflow.campaign.execution.repetition import StartedAttempt, remove_data
from workflow.campaign.ledger import Attempt, Ledger, OpenAttempt, RepetitionId
from workflow.campaign.planning.content_key import changed_file
from workflow.campaign.planning.planned_trials import PlannedCampaign, ReadyTrial
from workflow.errors import RunError
from workflow.launch.allocation import Allocation
from workflow.provenance.provenance_model import Circumstances, GitState


@dataclass(frozen=True)
class Workplace:
    """Where a campaign runs, and what it has."""

    directory: Path
    allocation: Allocation
    ledger: Ledger
    stop: StopRequests
    common: Circumstances
    """What all its runs are started with: kept in each run directory."""
    git: Mapping[Path, GitState | None] = field(default_factory=dict)
    """Folder of a pipeline → its repository, where there are pipelines of several folders."""

    def circumstances(self, trial: ReadyTrial) -> Circumstances:
        """What the runs of a trial are started with."""
        folder = trial.loaded.path.parent
        return self.common.model_copy(update={"git": self.git[folder]}) if folder in self.git else self.common

    def begin(self, each: RepetitionToRun, place: str = "") -> StartedAttempt:
        """A new attempt of a repetition, with its line in the ledger.

        Raises RunError when a file has changed since planning: the repetition would be taken for one of another key.
        """
        if (changed := changed_file(each.trial.files)) is not None:
            raise _changed_since_planning(changed)
        number = self.ledger.history.begin(each.identity)
        name = each.identity.name if number == 1 else f"{each.identity.name}-a{number}"
        t = round(time.time(), 3)
        self.ledger.begin(each.identity, OpenAttempt(name, number, t, place))
        return StartedAttempt(self.directory / RUNS_FOLDER / name, number, each.trial.nodes, t, place)

    def end(self, planned: PlannedCampaign, identity: RepetitionId, attempt: Attempt) -> None:
        """The line in the ledger of an attempt that ended; its data is removed unless it is to be kept.

        Raises RunError when a file has changed since planning: nobody knows which version was measured, and the
        attempt counts as interrupted.
        """
        files = next((trial.files for trial in planned.ready if trial.key == identity.key), {})
        if attempt.state == "succeeded" and (changed := changed_file(files)) is not None:
            error = _changed_since_planning(changed)
            self.ledger.end(identity, replace(attempt, state="interrupted", reason=error.problems[0].message))
            raise error
        self.ledger.end(identity, attempt)
        if planned.spec.keep == "records" and attempt.state == "succeeded":
            remove_data(self.directory / RUNS_FOLDER / attempt.run)


def _changed_since_planning(path: Path) -> RunError:
    hint = "run again: what has changed is then planned, and measured, anew. Files that a run writes are no inputs"
    return RunError(f"{path} has changed since planning", hint)
