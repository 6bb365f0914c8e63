"""How many cores of this machine other programs use: what disturbs a measurement."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

PROC_STAT = Path("/proc/stat")
# Of the first line of /proc/stat (man 5 proc): user, nice, system, irq, softirq and steal, not idle and iowait. The
# time of guests is in that of user and nice.
_BUSY = (0, 1, 2, 5, 6, 7)
# A shorter time holds too few ticks of 10 ms.
SAMPLE_S = 1.0


@dataclass(frozen=True)
class CpuTimes:
    """CPU seconds up to a moment: of all programs, and of this process with its children that have ended."""

    t: float
    all_s: float
    own_s: float


def cpu_times() -> CpuTimes | None:
    """Up to now; None where the system does not tell."""
    try:
        ticks = PROC_STAT.read_text().splitlines()[0].split()[1:]
        busy = sum(int(ticks[place]) for place in _BUSY)
    except (OSError, ValueError, IndexError):
        return None
    own = os.times()
    own_s = own.user + own.system + own.children_user + own.children_system
    return CpuTimes(time.monotonic(), busy / os.sysconf("SC_CLK_TCK"), own_s)


def cores_of_others(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """Cores that others used on average between two moments; None: not known."""
    if before is None or after is None or after.t <= before.t:
        return None
    return max(0.0, (after.all_s - before.all_s) - (after.own_s - before.own_s)) / (after.t - before.t)


def sample_others() -> float | None:
    """Cores that others use now. Takes a second."""
    before = cpu_times()
    time.sleep(SAMPLE_S)
    return cores_of_others(before, cpu_times())
