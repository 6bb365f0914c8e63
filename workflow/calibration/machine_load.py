"""How many cores of this machine other programs use: what disturbs a measurement."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

PROC_STAT = Path("/proc/stat")
# Of the lines of /proc/stat for each CPU (man 5 proc): user, nice, system, irq, softirq and steal, not idle and iowait.
# The time of guests is in that of user and nice.
_BUSY = (0, 1, 2, 5, 6, 7)
# A shorter time holds too few ticks of 10 ms.
SAMPLE_S = 1.0


@dataclass(frozen=True)
class CpuTimes:
    """CPU seconds up to a moment: of all programs on the CPUs that this process may use, and of this process with its
    children that have ended."""

    t: float
    all_s: float
    own_s: float


def cpu_times() -> CpuTimes | None:
    """Up to now; None where the system does not tell."""
    try:
        own_cpus = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        lines = [line.split() for line in PROC_STAT.read_text().splitlines()]
        times = [line[1:] for line in lines if line and line[0] in own_cpus]
        busy = sum(int(ticks[place]) for ticks in times for place in _BUSY)
    except (OSError, ValueError, IndexError, AttributeError):
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
