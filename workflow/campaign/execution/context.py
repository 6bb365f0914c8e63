"""Where and with what a campaign was started. It is the same for all its repetitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workflow.campaign.execution.worker import DecideOnSite
from workflow.campaign.planning.planned_trials import ReadyTrial
from workflow.launch.allocation import Allocation
from workflow.provenance.provenance_model import GitState, StartContext
from workflow.site.site_model import Site


@dataclass(frozen=True)
class CampaignContext:
    """`sites`: key of a trial → its site; `decide`: makes a plan for a site."""

    allocation: Allocation
    sites: Mapping[str, Site]
    decide: DecideOnSite
    common: StartContext
    """What all runs are started with: kept in each run directory."""
    git: Mapping[Path, GitState | None] = field(default_factory=dict)
    """Folder of a pipeline → its repository, where there are pipelines of several folders."""

    def start_context(self, trial: ReadyTrial) -> StartContext:
        """What the runs of a trial are started with."""
        folder = trial.loaded.path.parent
        return self.common.model_copy(update={"git": self.git[folder]}) if folder in self.git else self.common
