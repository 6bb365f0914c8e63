"""`guard_ends.jsonl` in the run directory: which guards of nodes have ended the processes of the run, and why.

A guard does that when it has heard nothing from the supervisor for too long. Whoever writes the verdict finds it here:
the supervisor, if it lives after all, or the process that finds it dead. Only the standard library.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

from workflow.formats.json_lines import append_record, read_json_lines

GUARD_ENDS_FILE = "guard_ends.jsonl"


class GuardEnd(NamedTuple):
    """The guard on `host` has ended all processes of the run there. `why`: what it had missed."""

    host: str
    why: str


def note_guard_end(run_dir: Path, end: GuardEnd) -> None:
    """Add a line, where that is possible."""
    with contextlib.suppress(OSError):
        append_record(run_dir / GUARD_ENDS_FILE, end._asdict())


def read_guard_ends(run_dir: Path) -> list[GuardEnd]:
    """All of them, the oldest first; [] where there is no file."""
    records = read_json_lines(run_dir / GUARD_ENDS_FILE).records
    return [GuardEnd(str(each.get("host", "")), str(each.get("why", ""))) for each in records]
