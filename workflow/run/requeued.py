"""A run directory whose run has been started before: by somebody, or by a scheduler that has requeued the job."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from workflow.errors import EXIT_RUN_FAILED, RunError
from workflow.launch.allocation import Allocation
from workflow.run.events import EVENTS_FILE, RunFinished, read_events, to_line
from workflow.run.run_directory import ALLOCATION_FILE

HINT = "start a new one: wf run PIPELINE"


def refuse_restart(run_dir: Path, received: Allocation, environ: Mapping[str, str] = os.environ) -> RunError:
    """Why the run is not started again. That the scheduler has tried it becomes the verdict of a run without one."""
    restarts = environ.get("SLURM_RESTART_COUNT", "0") if received.source == "slurm" else "0"
    if not received.job or (restarts == "0" and _job_of(run_dir) != received.job):
        return RunError(f"{run_dir}: this run has been started before", HINT)
    which = f"job {received.job}" + (f", restart {restarts}" if restarts != "0" else "")
    text = f"this run has been started before ({which}): the scheduler requeued it"
    with contextlib.suppress(OSError, RunError):
        _add_verdict(run_dir, text)
    return RunError(f"{run_dir}: {text}", HINT)


def _job_of(run_dir: Path) -> str:
    """The job in which the run was started."""
    try:
        return str(json.loads((run_dir / ALLOCATION_FILE).read_bytes())["job"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _add_verdict(run_dir: Path, text: str) -> None:
    if any(isinstance(event, RunFinished) for event in read_events(run_dir)):
        return
    verdict = RunFinished(time.time(), "failed", EXIT_RUN_FAILED, text, "", "requeued")
    with (run_dir / EVENTS_FILE).open("a", encoding="utf-8") as file:
        # The supervisor may have died within a line.
        file.write("\n" + to_line(verdict))
