"""What a reader of BP5 files leaves behind. Only the standard library.

When ADIOS2 (2.12.1) closes a file that it has read, it writes the times that it has measured to /tmp, and neither a
parameter nor an environment variable prevents that (BP5Reader::FlushProfiler).
"""

from __future__ import annotations

import contextlib
from pathlib import Path

FOLDER = Path("/tmp")


def remove_profile(path: str, pid: int) -> None:
    """Remove what this process has left of reading this file, if it has."""
    with contextlib.suppress(OSError):
        (FOLDER / f"{Path(path).name}_{pid:x}_profiling.json").unlink()
