"""Space reserved for the verdict of a run whose disk is full: `verdict.reserved`, blank until it is needed.

On a full disk nothing can be appended to a file, but its content can be overwritten. The file is there from the start
of a run to
its verdict, and after it only where `events.jsonl` could not take the verdict.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from workflow.formats.json_lines import to_record

RESERVE_FILE = "verdict.reserved"
# More than a verdict has: its reason and the words of the scheduler.
SIZE = 16_384


def reserve(run_dir: Path) -> None:
    """Take the room. Without it, as on a disk that is full at once, a run goes on all the same."""
    with contextlib.suppress(OSError):
        (run_dir / RESERVE_FILE).write_bytes(b" " * SIZE)


def fill(run_dir: Path, line: str) -> None:
    """Write the line of the verdict over the blanks."""
    data = line.encode()
    with contextlib.suppress(OSError), (run_dir / RESERVE_FILE).open("r+b", buffering=0) as file:
        if len(data) <= SIZE:
            file.write(data.ljust(SIZE))


def release(run_dir: Path) -> None:
    """The verdict is where it belongs."""
    with contextlib.suppress(OSError):
        (run_dir / RESERVE_FILE).unlink(missing_ok=True)


def reserved_record(run_dir: Path) -> dict[str, Any] | None:
    """The verdict that `events.jsonl` could not take; None where there is none."""
    try:
        return to_record((run_dir / RESERVE_FILE).read_bytes())
    except OSError:
        return None
