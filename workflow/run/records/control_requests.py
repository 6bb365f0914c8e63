"""Requests to the supervisor of a run, from any host that sees its directory: one line each in `control.jsonl`."""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from workflow.errors import RunError
from workflow.formats.json_lines import Tail, append_record
from workflow.formats.steering_files import ValueChange, to_change

CONTROL_FILE = "control.jsonl"
# stop: as Ctrl-C does; kill: as the second Ctrl-C does.
Control = Literal["stop", "kill"]
_STEER = "steer"


@dataclass(frozen=True)
class ControlRequest:
    """What somebody wants of the supervisor; `by` is `user@host`."""

    request: Control
    by: str


@dataclass(frozen=True)
class SteeringRequest:
    """New values that somebody wants for a stage."""

    stage: str
    change: ValueChange


def send_request(run_dir: Path, request: Control) -> None:
    """Append a request. Raises RunError when that is not possible."""
    _append(run_dir, {"request": request, "by": requester(), "t": time.time()})


def ask_for_values(run_dir: Path, stage: str, change: ValueChange) -> None:
    """Append a request for new values of a stage. Raises RunError when that is not possible."""
    _append(run_dir, {"request": _STEER, "stage": stage, **asdict(change), "t": time.time()})


def _append(run_dir: Path, record: Mapping[str, Any]) -> None:
    try:
        append_record(run_dir / CONTROL_FILE, record)
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
        self._steering: list[SteeringRequest] = []

    def take(self) -> list[ControlRequest]:
        """The requests to end the run since the last call; lines that are none are left out."""
        found = []
        for record in self._tail.records(fresh=True):
            if record.get("request") in get_args(Control):
                found.append(ControlRequest(record["request"], str(record.get("by", "somebody"))))
            elif record.get("request") == _STEER:
                with contextlib.suppress(TypeError):  # damaged
                    self._steering.append(SteeringRequest(str(record.get("stage")), to_change(record)))
        return found

    def take_steering(self) -> list[SteeringRequest]:
        """The requests for new values that `take` has come across since the last call."""
        found, self._steering = self._steering, []
        return found
