"""`stop` in the run directory: from the moment on that it is there, the stages are to end by themselves.

`workflow.stage` looks for it at each step; any other program may. Its text is the reason, for people.
"""

from __future__ import annotations

import os
from pathlib import Path

from workflow.replace_file import replace_file

STOP_FILE = "stop"


def write_stop_file(run_dir: Path, reason: str) -> None:
    """Make the file, whole. Raises OSError."""
    replace_file(run_dir / STOP_FILE, f"{reason}\n".encode())


def is_to_stop(run_dir: str) -> bool:
    """Whether the file is there.

    It is opened, not only looked for: an NFS client then asks the server, where it may know for half a minute only that
    the file was missing.
    """
    try:
        os.close(os.open(os.path.join(run_dir, STOP_FILE), os.O_RDONLY | os.O_CLOEXEC))  # noqa: PTH118, cheap
    except OSError:
        return False
    return True
