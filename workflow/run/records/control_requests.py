"""Requests to the supervisor of a run, from any host that sees its directory: one line each in `control.jsonl`."""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from workflow.errors import RunError
from workflow.formats.json_lines import Tail, append_record

CONTROL_FILE = "control.jsonl"
# stop: as Ctrl-C does; kill: as the second Ctrl-C does.
Control = Literal["stop", "kill"]


@dataclass(frozen=True)
class ControlRequest:
    """What somebody wants of the supervisor; `by` is `user@host`."""

    request: Control
    by: str


def send_request(run_dir: Path, request: Control) -> None:
    """Append a request. Raises RunError when that is not possible."""
    try:
        append_record(run_dir / CONTROL_FILE, {"request": request, "by": requester(), "t": time.time()})
    except OSError as error:
        raise RunError(f"cannot write {run_dir / CONTROL_FILE}: {error.strerror}") from error


def requester() -> str:
    """`user@host` of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container without this user
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


class ControlRequests:
    """Reads the requests to a run as they come."""

    def __init__(self, run_dir: Path) -> None:
        # An NFS client remembers for half a minute that a file is missing.
        path = run_dir / CONTROL_FILE
        with contextlib.suppress(OSError):  # a full file system: requests can be written once there is room
            path.touch()
        self._tail = Tail(path)

    def take(self) -> list[ControlRequest]:
        """The requests since the last call; lines that are none are left out."""
        found = []
        for record in self._tail.records(fresh=True):
            if record.get("request") in get_args(Control):
                found.append(ControlRequest(record["request"], str(record.get("by", "somebody"))))
        return found
