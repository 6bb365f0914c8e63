"""Runs a command as long as the driver of the campaign lives: what a killed driver has started ends, on every host.

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
from workflow.run.lease import Lease

PILOTS_FOLDER = "pilots"
DRIVER_FILE = "driver.json"
END_FILE = "end"
# So long may the supervisors among its processes take to stop their runs.
STOP_S = 45.0
_PAUSE_S = 0.25
_NOTHING = 0


def bound_command(folder: Path) -> list[str]:
    """What to put before a command that is to end with this driver."""
    return [sys.executable, "-m", "workflow.campaign.execution.driver_bound", str(folder), "--"]


def write_driver(folder: Path, driver: Lease) -> None:
    """Keep the driver's lease in the folder of a pilot."""
    (folder / DRIVER_FILE).write_text(json.dumps(asdict(driver)))


def main(arguments: list[str]) -> int:
    """Run the command; its exit code, or 1 when it was ended because the driver has died."""
    folder, command = Path(arguments[0]), arguments[2:]
    watch = DriverWatch(folder.parents[1], Lease(**json.loads((folder / DRIVER_FILE).read_text())))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    process = subprocess.Popen(command, start_new_session=True)
    while process.poll() is None:
        lost = watch.is_lost()
        if lost or asked or (folder / END_FILE).exists():
            _end_session(process)
            return 1 if lost else 0
        time.sleep(_PAUSE_S)
    return max(process.returncode, 1) if process.returncode else 0


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """End the command and all that it has started. Supervisors among them stop their runs in order."""
    deadline = time.monotonic() + STOP_S
    number: int = signal.SIGTERM
    with contextlib.suppress(ProcessLookupError):  # all have ended
        while True:
            os.killpg(process.pid, number)
            number = signal.SIGKILL if time.monotonic() > deadline else _NOTHING
            process.poll()
            time.sleep(_PAUSE_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
