"""Whether the disk of a run directory is full: then what a stage says of its failure may not be in its log.

The memory or disk of a node that holds a spool can be full as well.
"""

from __future__ import annotations

import os
from pathlib import Path

# Less than this is no room for a step, nor for the lines that say so.
LEAST_BYTES = 1 << 16


def full_disk_note(place: Path, what: str = "the disk of the run directory") -> str:
    """What to say of a failure while the disk at this place is full; empty where it is not, or nobody can tell."""
    free = free_bytes(place)
    return f"no space is left on {what}" if free is not None and free < LEAST_BYTES else ""


def free_bytes(place: Path) -> int | None:
    """Bytes that this user can still write there; None where nobody can tell."""
    try:
        found = os.statvfs(place)
    except OSError:
        return None
    return (found.f_bfree if os.geteuid() == 0 else found.f_bavail) * found.f_frsize


def full_place_text(file: Path, stream: str) -> str:
    """Where a file is that a stage keeps on its node: `/dev/shm, which holds field-spool`."""
    folder = Path(os.path.realpath(file)).parent.parent
    return f"{folder}, which holds {stream}"
