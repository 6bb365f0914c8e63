"""Runs a command that must end when the driver of the campaign dies, on whatever host the command runs.

`python -m workflow.campaign.execution.driver_bound FOLDER -- COMMAND…`, where FOLDER is that of a pilot, below the
campaign's directory. It holds the lease of the driver that has made it, and a file `end` once the pilot is to end.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from workflow.campaign.execution.driver_lease import DriverWatch
from workflow.formats.read_json import read_json
from workflow.formats.typed_fields import from_fields
from workflow.run.control.lease import Lease
from workflow.run.processes.process_reaper import living_groups

DRIVER_FILE = "driver.json"
END_FILE = "end"
# So long may the supervisors among its processes take to stop their runs.
STOP_S = 45.0
# And so long until the system has removed what was killed: longer only for what is stuck in the kernel.
KILLED_S = 5.0
_PAUSE_S = 0.25


def bound_command(folder: Path) -> list[str]:
    """What to put before a command that is to end with this driver."""
    return [sys.executable, "-m", "workflow.campaign.execution.driver_bound", str(folder), "--"]


def write_driver(folder: Path, driver: Lease) -> None:
    """Keep the driver's lease in the folder of a pilot."""
    (folder / DRIVER_FILE).write_text(json.dumps(asdict(driver)))


def main(arguments: list[str]) -> int:
    """Run the command; its exit code, or 1 when it was ended because the driver has died."""
    folder, command = Path(arguments[0]), arguments[2:]
    watch = DriverWatch(folder.parents[1], from_fields(Lease, read_json((folder / DRIVER_FILE).read_bytes())))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    process = subprocess.Popen(command, start_new_session=True)
    code: int | None = None
    while code is None:
        time.sleep(_PAUSE_S)
        if watch.is_lost():
            code = 1
        elif asked or (folder / END_FILE).exists():
            code = 0
        elif (ended := process.poll()) is not None:
            code = max(ended, 1) if ended else 0
    # Also when the command has ended by itself: a killed manager leaves its workers.
    end_session(process)
    return code


def end_session(process: subprocess.Popen[bytes], stop_s: float = STOP_S, killed_s: float = KILLED_S) -> None:
    """End the command and all that it has started. Supervisors among them stop their runs in order.

    Returns after `stop_s` + `killed_s` at the latest: a process that has ended stays in its group until its parent,
    who may be anybody, takes notice.
    """
    begin = time.monotonic()
    _signal(process.pid, signal.SIGTERM)
    while (process.poll() is None or living_groups([process.pid])) and time.monotonic() - begin < stop_s + killed_s:
        if time.monotonic() - begin > stop_s:
            _signal(process.pid, signal.SIGKILL)
        time.sleep(_PAUSE_S)


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
