"""Whether a process runs a campaign now, and what runs at the moment: from its lease and its ledger."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workflow.campaign.campaign_directory import SCHEDULE_FILE, Schedule, find_campaign
from workflow.campaign.file.campaign_spec import CampaignSpec
from workflow.campaign.ledger import CAMPAIGNS, LEDGER_FILE, History, read_history
from workflow.campaign.results.make_results import make_status
from workflow.campaign.results.results_model import (
    CampaignLine,
    CampaignState,
    CampaignStatus,
    DriverPart,
    RunningRepetition,
)
from workflow.errors import WfError
from workflow.run.control.lease import Liveness, examine_leases


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


def known_campaigns() -> list[str]:
    """The names of the campaigns below `campaigns/`, by the time of their last entry, the newest last."""
    found = Path(CAMPAIGNS).glob(f"*/{SCHEDULE_FILE}")
    return [path.parent.name for path in sorted(found, key=lambda path: (_changed(path.parent), path.parent.name))]


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
        changed=_changed(directory),
        host=host,
        site=schedule.site,
    )


def _changed(directory: Path) -> float:
    """When its ledger was written last, Unix seconds; that of its schedule while nothing has run."""
    for name in (LEDGER_FILE, SCHEDULE_FILE):
        try:
            return (directory / name).stat().st_mtime
        except OSError:
            continue
    return 0.0
