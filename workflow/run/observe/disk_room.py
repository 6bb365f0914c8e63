"""Whether the disk of a run directory is full: then what a stage says of its failure may not be in its log."""

from __future__ import annotations

import os
from pathlib import Path

# Less than this is no room for a step, nor for the lines that say so.
LEAST_BYTES = 1 << 16


def full_disk_note(run_dir: Path) -> str:
    """What to say of a failure while the disk is full; empty where it is not, or nobody can tell."""
    try:
        found = os.statvfs(run_dir)
    except OSError:
        return ""
    blocks = found.f_bfree if os.geteuid() == 0 else found.f_bavail
    return "no space is left on the disk of the run directory" if blocks * found.f_frsize < LEAST_BYTES else ""
