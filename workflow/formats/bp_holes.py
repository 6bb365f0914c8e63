"""A BP5 file whose old steps are dropped: their data become a hole, and the file keeps its size.

The metadata stay, so that a reader still finds the steps that follow by their numbers, and reads over the others
without their data.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from workflow.formats.bp_index import data_begins

# linux/falloc.h
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02


def drop_data(folder: Path, step: int) -> None:
    """Free the disk space of the data of the steps before this one, in a BP5 directory.

    Raises OSError where the file system cannot free a part of a file.
    """
    for name, end in data_begins(folder, step).items():
        punch_hole(folder / name, end)


def punch_hole(path: Path, end: int) -> None:
    """Make a hole of the first bytes of a file, of which the size stays (fallocate(2) of Linux). Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    mode, begin, length = _PUNCH_HOLE | _KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(end)
    with path.open("r+b") as file:
        if end and libc.fallocate64(file.fileno(), mode, begin, length) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
