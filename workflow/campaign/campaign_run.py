"""A planned campaign → its directory, and the repetitions that are not finished."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from workflow import __version__
from workflow.campaign.campaign_directory import file_sums, prepare, to_schedule
from workflow.campaign.execution.in_order import EndedRepetition, Workplace, execute, remaining
from workflow.campaign.ledger import Ledger
from workflow.campaign.planning.content_key import versions
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.campaign.results.make_results import make_status
from workflow.campaign.results.results_model import CampaignStatus
from workflow.launch.allocation import Allocation

ShowEnded = Callable[[EndedRepetition], None]


@dataclass(frozen=True)
class CampaignOutcome:
    """What one call has done."""

    directory: Path
    status: CampaignStatus
    interrupted: bool
    """Ctrl-C, or a signal, ended the last repetition."""
    left: int
    """Repetitions that neither succeeded nor failed as often as they may: the budget is spent."""


def run_planned(
    planned: PlannedCampaign,
    directory: Path,
    allocation: Allocation,
    command: Mapping[str, object],
    *,
    only_failed: bool = False,
    show: ShowEnded | None = None,
) -> CampaignOutcome:
    """Run what is not finished, on the hosts of `allocation`. Raises RunError when the directory cannot be used."""
    schedule = to_schedule(
        planned,
        wf_version=__version__,
        host=socket.gethostname(),
        cores=len(os.sched_getaffinity(0)),
        versions=versions(),
        files=file_sums(planned.campaign),
    )
    prepare(directory, planned.campaign, schedule)
    interrupted = False
    with Ledger(directory) as ledger:
        place = Workplace(directory, allocation, ledger, command)
        with contextlib.closing(execute(planned, place, only_failed)) as ended:
            for each in ended:
                interrupted = each.attempt.state == "interrupted"
                if show is not None:
                    show(each)
        status = make_status(planned.spec, schedule, ledger.history)
        left = len(remaining(planned, ledger.history))
    return CampaignOutcome(directory, status, interrupted, left)
