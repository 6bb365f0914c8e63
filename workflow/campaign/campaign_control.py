"""Starts a campaign as a process of its own, and ends one that any process runs, or that a dead one has left."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workflow.campaign.campaign_directory import RUNS_FOLDER
from workflow.campaign.execution.driver_lease import driver_lease
from workflow.campaign.execution.left_attempts import LeftAttempt, adopt, left_attempts
from workflow.campaign.execution.repetition import to_attempt
from workflow.campaign.file.load_campaign import Campaign
from workflow.campaign.ledger import Attempt, Ledger, Repetition, read_history, runs_already
from workflow.errors import RunError
from workflow.formats.lease_file import DEAD_S, LEASE_FILE
from workflow.own_process import module_command
from workflow.run.control.cancellation import REACTION_S
from workflow.run.control.detached import said_at_the_end, start_process
from workflow.run.control.lease import Lease, LeaseWatch, Liveness, examine_leases, read_lease
from workflow.run.records.control_requests import Control, send_request
from workflow.run.records.job_record import read_job
from workflow.run.records.run_directory import PLAN_FILE, read_filled_plan
from workflow.submit.job_cancellation import end_job

LOG_FILE = "campaign.log"
# It reads the file, plans all trials and looks at the runs of the ledger before it takes the lease.
START_S = 60.0
# For the end of pilots, after that of the runs in them.
PILOTS_S = 60.0
_PAUSE_S = 0.1


def refuse_running(directory: Path) -> None:
    """Raises RunError where a process runs this campaign, or may: one that is silent is not dead at once."""
    (lives,) = examine_leases([directory], DEAD_S)
    if lives.alive and lives.lease is not None:
        raise runs_already(directory, lives.lease)


def start_detached_campaign(
    campaign: Campaign, directory: Path, planning_s: float, options: Sequence[str] = ()
) -> Lease | None:
    """Start the process, and return its lease when it has begun; None where there was nothing left to run.

    `directory` is prepared. What the process prints goes to campaign.log there. `planning_s`: what planning took here.
    Raises RunError when it ends with an error, or has not begun in time.
    """
    refuse_running(directory)
    (directory / LEASE_FILE).unlink(missing_ok=True)  # that of a dead process
    file = os.path.relpath(campaign.path)
    command = module_command(
        "workflow.cli", "campaign", "run", file, "--dir", str(directory), "--as-written",
        *campaign.options.arguments, *options,
    )  # fmt: skip
    log = directory / LOG_FILE
    started = start_process(command, directory, log, START_S + 3 * planning_s, "the campaign has not begun")
    if isinstance(started, Lease):
        return started
    if started != 0:
        raise RunError(f"the campaign ended at once with exit code {started}{said_at_the_end(log)}", f"see {log}")
    return None


@dataclass(frozen=True)
class CampaignEnd:
    """What was done: `driver` is None where no process ran the campaign; the attempts that ended meanwhile."""

    driver: Liveness | None
    ended: tuple[tuple[Repetition, Attempt], ...] = ()


def stop_campaign(directory: Path, request: Control) -> CampaignEnd:
    """End a campaign, and wait until no process runs it; what is left of a dead one is ended and recorded.

    Raises RunError when its process lives and does not end in time, or a run that is left cannot be ended.
    """
    (lives,) = examine_leases([directory], DEAD_S)
    before = read_history(directory)
    if lives.lease is None and not before.open:
        return CampaignEnd(None)
    if lives.alive:
        send_request(directory, request)
        lives = _await_end(directory, lives, _patience_s(directory, [each.run for each in before.open.values()]))
        after = read_history(directory)
        known = [repetition for repetition, number in before.open if (repetition, number) not in after.open]
        ended = [(repetition, after.ended[repetition]) for repetition in known if repetition in after.ended]
        if not lives.alive and read_lease(directory) is None and not after.open:
            return CampaignEnd(lives, tuple(ended))
        return CampaignEnd(lives, (*ended, *_record_left(directory)))
    return CampaignEnd(lives, tuple(_record_left(directory)))


def _patience_s(directory: Path, runs: list[str]) -> float:
    """How long the end may take: that of the runs at the moment, and of the pilots after them."""
    found = [directory / RUNS_FOLDER / run for run in runs]
    stops = [read_filled_plan(run).deadlines.stop for run in found if (run / PLAN_FILE).exists()]
    return max(stops, default=0.0) + REACTION_S + PILOTS_S


def _await_end(directory: Path, lives: Liveness, within_s: float) -> Liveness:
    """Wait until the process has ended; returns whether it died. Raises RunError when it goes on."""
    begin = time.monotonic()
    watch = LeaseWatch(directory, begin)
    while (lease := read_lease(directory)) is not None:
        now = time.monotonic()
        if not (seen := watch.look(now)).alive:
            return seen
        if now > begin + within_s:
            text = f"its process on {lease.host} (process {lease.pid}) has not ended it within {within_s:.0f} s"
            raise RunError(text, f"wf campaign cancel --now {directory.name}")
        time.sleep(_PAUSE_S)
    return Liveness(lives.lease, False)


def _record_left(directory: Path) -> list[tuple[Repetition, Attempt]]:
    """End the runs that a dead process has left, and record their ends."""
    with Ledger(directory) as ledger, driver_lease(directory):
        ended = []
        for each, attempt in adopt(left_attempts(ledger.history, directory)):
            its = attempt or _end_job_of(each)
            ledger.end(each.repetition, its)
            ended.append((each.repetition, its))
    return ended


def _end_job_of(each: LeftAttempt) -> Attempt:
    """End a run that is a batch job of its own."""
    run_dir = each.start.run_dir
    job = read_job(run_dir)
    send_request(run_dir, "stop")
    if job is not None and not end_job(run_dir, job):
        raise RunError(f"{job.text} was cancelled and has not ended yet", f"look again later: wf status {run_dir}")
    (again,) = (attempt for _, attempt in adopt([each]))
    return again or to_attempt(each.start, max(0.0, time.time() - each.start.t))
