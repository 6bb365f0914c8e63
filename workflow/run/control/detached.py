"""Starts the supervisor of a run as a process of its own, which outlives the one that started it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from workflow.errors import RunError
from workflow.own_process import module_command
from workflow.run.control.lease import Lease, read_lease
from workflow.run.observe.sst_log import last_lines

OUTPUT_FILE = "supervisor.log"
START_S = 30.0
_PAUSE_S = 0.02
_SHOWN_LINES = 5


def supervisor_command(run_dir: Path) -> list[str]:
    """The command line that supervises a run, here or in a batch job."""
    # Above this room: when the run has ended it writes the report, and submits the next part.
    return module_command("workflow.api.run_process", str(run_dir))


def start_detached(run_dir: Path) -> Lease:
    """Start the supervisor of a run in a session of its own, and return when it has taken the run.

    What it prints goes to supervisor.log in the run directory. Raises RunError when it ends before, or has not taken
    the run after START_S.
    """
    log = run_dir / OUTPUT_FILE
    started = start_process(supervisor_command(run_dir), run_dir, log, START_S, "the supervisor has not taken the run")
    if isinstance(started, Lease):
        return started
    text = f"the supervisor ended with exit code {started} before it took the run{said_at_the_end(log)}"
    raise RunError(text, f"see {log}")


def start_process(command: Sequence[str], directory: Path, log: Path, within_s: float, late: str) -> Lease | int:
    """Start a process in a session of its own that is to take the lease of `directory`.

    Returns the lease, or the exit code of a process that ended without one. What it prints is added to `log`. Raises
    RunError, which begins with `late`, when it has neither taken the lease nor ended after `within_s`; it is killed.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, start_new_session=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    deadline = time.monotonic() + within_s
    while (lease := read_lease(directory)) is None:
        code = process.poll()
        if code is not None and read_lease(directory) is None:
            return code
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            text = f"{late} within {within_s:.0f} s (process {process.pid}){said_at_the_end(log)}"
            raise RunError(text, f"see {log}")
        time.sleep(_PAUSE_S)
    # It is nobody's child from now on: without a reference there is no warning about a process that still runs.
    process.returncode = os.EX_OK
    return lease


def said_at_the_end(log: Path) -> str:
    """The last lines of a log, after a colon."""
    lines = [line for line in last_lines(log, _SHOWN_LINES) if line.strip()]
    return ": " + " / ".join(lines) if lines else ""
