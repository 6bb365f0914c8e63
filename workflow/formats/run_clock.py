"""Times that go on evenly: Unix seconds, as if nobody had set the clock since the run began.

They are the monotonic clock and an offset. The first event of a run has the offset of its machine, and the boot that
the monotonic clock counts from; another machine, or the same one after a reboot, takes that of its own clock.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from workflow.formats.read_json import read_json

_EVENTS = "events.jsonl"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_offset_s = time.time() - time.monotonic()


def steady_time() -> float:
    """Unix seconds for the records of this process: a duration between two of them is right also where the clock was
    set meanwhile."""
    return time.monotonic() + _offset_s


def keep_time_of(run_dir: str | os.PathLike[str]) -> None:
    """From now on `steady_time` is the time of this run, where it has begun on this machine since it was booted."""
    global _offset_s
    _offset_s = _offset_of(run_dir, _offset_s)


def run_time(run_dir: str | os.PathLike[str]) -> float:
    """The time of a run that goes on, now: of its events where it has begun on this machine since that was booted,
    else of the clock."""
    return time.monotonic() + _offset_of(run_dir, time.time() - time.monotonic())


def this_boot() -> str:
    """Names the boot of this machine; empty where there is no /proc."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def _offset_of(run_dir: str | os.PathLike[str], otherwise: float) -> float:
    try:
        with Path(run_dir, _EVENTS).open("rb") as file:
            begun = read_json(file.readline())
        is_here = (begun["host"], begun["boot"]) == (os.uname().nodename, this_boot())
        return float(begun["clock_offset_s"]) if is_here else otherwise
    except (OSError, ValueError, TypeError, KeyError):
        return otherwise
