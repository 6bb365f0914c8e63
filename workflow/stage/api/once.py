"""Values that all attempts of a stage share, for programs that are started again (`on_failure: restart`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workflow.replace_file import replace_file
from workflow.stage import settings
from workflow.stage.ranks import communicator, rank

ONCE_FILE = "once.json"


def once(name: str, make: Callable[[], Any]) -> Any:
    """The value of `make()`, as the first attempt of this stage found it. Collective over the ranks.

    For what a program derives from the first step that it reads, and needs in all steps that follow: an attempt that
    goes on at step 41 gets the same value again. It must consist of what JSON has: numbers, texts, lists, mappings.
    Rank 0's value is taken. Without a run `make` is called.

    >>> edges = stage.once("edges", lambda: [float(field.min()), float(field.max())])

    Raises TypeError for a value that JSON does not have, OSError when it cannot be kept.
    """
    comm = communicator()
    value = _keep(name, make) if rank() == 0 else None
    return value if comm is None else comm.bcast(value)


def _keep(name: str, make: Callable[[], Any]) -> Any:
    current = settings.current()
    if current.by_hand:
        return make()
    path = Path(current.run_dir) / "stages" / current.stage / ONCE_FILE
    known: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
    if name not in known:
        known[name] = json.loads(json.dumps(make()))
        replace_file(path, json.dumps(known).encode())
    return known[name]
