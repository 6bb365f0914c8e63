"""Spools that keep the newest steps of a stream only: which steps are dropped, and how their disk space is freed.

The data of old steps become a hole in the file of the spool. Its metadata stay, so that a reader still finds the steps
that follow by their numbers, and reads over the others without their data.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from workflow.formats.bp_index import data_begins
from workflow.plan.plan_model import StreamPlan
from workflow.run.state.run_state import RunState

# How often the supervisor looks: in this time a spool may grow beyond what it is to keep.
LOOK_S = 2.0
# Of the time that a look takes, the least until the next one.
LOOK_SHARE = 20.0
# Of what is kept: fewer steps are not worth a look at the index.
_SHARE = 0.25
# linux/falloc.h
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02


def droppable(state: RunState, stream: StreamPlan) -> int:
    """Up to which step the spool of a stream has more than it is to keep; 0 where that is not worth it yet. Pure."""
    written, first = state.writer(stream.spool), state.spool_first.get(stream.name, 0)
    here = state.steps_here(written)
    kept = stream.spool_steps
    if kept is None and stream.spool_bytes is not None and here and written.bytes:
        kept = max(1, -(-stream.spool_bytes * here // written.bytes))
    end = 0 if kept is None else written.steps - kept
    # Whatever the rules say, nobody is robbed of what it is about to read.
    end = min([end, *(reader.steps for reader in state.readers(stream.name) if reader.from_spool)])
    return end if end - first >= max(1, _SHARE * (kept or 0)) else 0


def units_behind(state: RunState, stream: StreamPlan) -> list[list[str]]:
    """The stages that go on together, of each restart in which one that reads this stream would read it again. Pure."""
    rules = [stage.restart for stage in state.plan.stages if stage.restart is not None]
    return [list(rule.stages) for rule in rules if {*rule.stages} & {*stream.readers}]


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
