"""Starts `wf campaign run` as a process of its own, which outlives the one that started it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from workflow.campaign.file.load_campaign import Campaign
from workflow.campaign.ledger import runs_already
from workflow.errors import RunError
from workflow.formats.control_files import LEASE_FILE
from workflow.run.detached import said_at_the_end, start_process
from workflow.run.lease import Lease, examine_leases

LOG_FILE = "campaign.log"
# It reads the file, plans all trials and looks at the runs of the ledger before it takes the lease.
START_S = 60.0


def refuse_running(directory: Path) -> None:
    """Raises RunError where a process runs this campaign."""
    (lives,) = examine_leases([directory])
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
    command = [
        sys.executable, "-m", "workflow.cli", "campaign", "run", file, "--dir", str(directory), "--as-written",
        *campaign.options.arguments, *options,
    ]  # fmt: skip
    log = directory / LOG_FILE
    started = start_process(command, directory, log, START_S + 3 * planning_s, "the campaign has not begun")
    if isinstance(started, Lease):
        return started
    if started != 0:
        raise RunError(f"the campaign ended at once with exit code {started}{said_at_the_end(log)}", f"see {log}")
    return None
