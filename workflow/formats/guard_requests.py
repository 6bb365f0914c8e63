"""`guard_requests.json` in the run directory: what the supervisor of a run asks the guards of its nodes.

It cannot end processes on another node, nor free what is there. The file is there before the guards are, and they open
it anew each time, as they open the lease: a file system of many nodes may hide new names for a while.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from workflow.formats.read_json import read_json
from workflow.replace_file import replace_file

REQUEST_FILE = "guard_requests.json"


class GuardRequest(NamedTuple):
    """All that was asked so far.

    `stages`: the settings files of attempts of stages of which nothing is to run any more. `first`: name of a BP file
    on a node → the step before which its data are to be freed. `ended`: no stage runs any more, and what the run has on
    nodes is to be removed.
    """

    stages: Sequence[str] = ()
    first: Mapping[str, int] = {}
    ended: bool = False


def write_request(run_dir: str | Path, request: GuardRequest) -> None:
    """Ask the guards. Raises OSError."""
    replace_file(Path(run_dir, REQUEST_FILE), json.dumps(request._asdict()).encode())


def has_requests(run_dir: str | Path) -> bool:
    """Whether the guards of this run may be asked for anything."""
    return Path(run_dir, REQUEST_FILE).exists()


def read_request(run_dir: str | Path) -> GuardRequest:
    """What they are asked; nothing where the file is not there, or cannot be read."""
    try:
        data = read_json(Path(run_dir, REQUEST_FILE).read_bytes())
        first = {str(name): int(step) for name, step in data["first"].items()}
        return GuardRequest(tuple(str(path) for path in data["stages"]), first, bool(data["ended"]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return GuardRequest()
