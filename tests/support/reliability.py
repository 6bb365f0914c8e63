"""What `make reliability` keeps of a cell of a long table, for docs/reliability.md; and when a cell is to be ended."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

VARIABLE = "WF_RELIABILITY"
# How the streams sim → work and work → keep go.
_WAYS = {
    "live then sst": ("bp5, coupling: live", "sst"),
    "live then live": ("bp5, coupling: live", "bp5, coupling: live"),
    "live then after": ("bp5, coupling: live", "bp5, coupling: after"),
    "after then sst": ("bp5, coupling: after", "sst"),
    "after then after": ("bp5, coupling: after", "bp5, coupling: after"),
    "spool then sst": ("sst, spool: auto", "sst"),
    "spool then live": ("sst, spool: auto", "bp5, coupling: live"),
    # The spool has what the queue has not discarded.
    "discard, spool then sst": ("sst, spool: auto, queue: {limit: 1, when_full: discard}", "sst"),
    "discard, spool then live": ("sst, spool: auto, queue: {limit: 1, when_full: discard}", "bp5, coupling: live"),
    "ucx, spool then ucx": ("sst, transport: ucx, spool: auto", "sst, transport: ucx"),
    "spool in memory then sst": ("sst, spool: {where: memory, keep: 8 steps}", "sst"),
    "spool on the node then live": ("sst, spool: node", "bp5, coupling: live"),
}


def ways(*names: str) -> dict[str, tuple[str, str]]:
    """Of the ways in which two streams go, the `via` of each: those of these names, in this order."""
    return {name: _WAYS[name] for name in names}


def note(table: str, **cell: Any) -> None:
    """Append one cell to the file that the variable names; without it, nothing is kept."""
    if name := os.environ.get(VARIABLE):
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps({"table": table, **cell}) + "\n")


def steps_written(run_dir: Path) -> int:
    """How many steps the simulation has written so far."""
    return steps_done(run_dir, "sim")


def steps_done(run_dir: Path, stage: str) -> int:
    """How many steps the first attempt of a stage has written and read so far."""
    with contextlib.suppress(OSError):
        return (run_dir / f"stages/{stage}/metrics.jsonl").read_text().count('"kind": "step"')
    return 0
