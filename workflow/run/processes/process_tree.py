"""The processes of a stage in `/proc`: which its launcher has started, and the CPU time of all of them.

The CPU time is evidence on programs that keep no metrics. `/proc/PID/stat` has that of a process and of its children
that have ended and were waited for. `/proc/PID/schedstat` has how long its main thread was ready to run while other
processes had the CPU: on a machine with more work than cores, a stage that never waits for a stream may have the CPU
half of the time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from workflow.formats.metrics_lines import interval_s
from workflow.run.processes.process_reaper import stat_fields

PROC = Path("/proc")
# linux/pidfd.h: struct pidfd_info (mask, cgroup, pid, tgid, ppid, eight ids, exit status), its ioctl, PIDFD_INFO_EXIT.
_PIDFD_INFO = struct.Struct("=QQ11Ii")
_GET_PIDFD_INFO, _EXIT_STATUS = 0xC000FF0B | _PIDFD_INFO.size << 16, 1 << 3
# Fields 14 to 17 of /proc/PID/stat, counted from the state, which follows the name: utime, stime, cutime, cstime.
_TIMES, _TIMES_OF_CHILDREN = slice(11, 15), slice(13, 15)
_EXIT_CODE = 49  # field 52
# One sample takes 0.12 ms: of many stages each is sampled less often.
_SAMPLES_PER_S = 50

# Of one core: what is more than that is work, not the waking up of a thread that waits. The clock of /proc has ticks of
# 10 ms, so that a look is worth while after a second.
WORKING_SHARE = 0.05
_LOOK_S = 1.0


def local_ranks(launcher: int) -> list[int]:
    """The ranks of a local launcher: the children of its proxies."""
    return [rank for proxy in children(launcher) for rank in children(proxy)]


def exit_status(pid: int, descriptor: int) -> int | None:
    """How the process of a pidfd has ended, as of waitpid(2), whoever its parent is; None while it lives, and where the
    kernel does not say: it does while nobody has waited for it, and from Linux 6.15 on afterwards."""
    if stat_fields(_read(pid, "stat"))[:1] == [b"Z"]:
        return int(stat_fields(_read(pid, "stat"))[_EXIT_CODE])
    asked = bytearray(_PIDFD_INFO.pack(_EXIT_STATUS, 0, *[0] * 12))
    try:
        fcntl.ioctl(descriptor, _GET_PIDFD_INFO, asked)
    except OSError:
        return None
    known, *_, status = _PIDFD_INFO.unpack(asked)
    return int(status) if known & _EXIT_STATUS else None


def has_children(launcher: int) -> bool:
    """Whether a local launcher has living children."""
    return any(is_running(pid) for pid in children(launcher))


def living_ranks(launcher: int) -> int:
    """How many ranks of a local launcher live: the children of its proxies."""
    return sum(is_running(rank) for rank in local_ranks(launcher))


def descendants(pid: int) -> list[int]:
    """All processes that a local launcher has started, and theirs."""
    own = children(pid)
    return own + [other for child in own for other in descendants(child)]


def writers_of(pids: Iterable[int], path: Path) -> list[int]:
    """Those of these processes that have opened this file for writing themselves: not who reads it, nor the children of
    a writer, which may have inherited it."""
    found = [pid for pid in pids if _can_write(pid, path)]
    inherited = {child for pid in found for child in descendants(pid)}
    return [pid for pid in found if pid not in inherited]


def _can_write(pid: int, path: Path) -> bool:
    with contextlib.suppress(OSError):
        return any(each.samefile(path) and _is_for_writing(each) for each in (PROC / str(pid) / "fd").iterdir())
    return False


def _is_for_writing(descriptor: Path) -> bool:
    """Of `/proc/PID/fd/N`, by the flags of open(2) in `fdinfo`, octal."""
    words = (descriptor.parents[1] / "fdinfo" / descriptor.name).read_text().split()
    return int(words[words.index("flags:") + 1], 8) & os.O_ACCMODE != os.O_RDONLY


def is_alone_in_adios2(pid: int) -> bool:
    """Whether a process has an ADIOS2 without MPI, and no MPI library: then it is the only rank of what it writes."""
    files = {line.rpartition(b"/")[2] for line in _read(pid, "maps").splitlines()}
    return any(b"adios2_core" in file for file in files) and not any(b"mpi" in file for file in files)


def is_running(pid: int) -> bool:
    """Whether a process lives."""
    try:
        return stat_fields((PROC / str(pid) / "stat").read_bytes())[0] not in (b"Z", b"X")
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """The processes that this one has started."""
    try:
        return [int(word) for word in (PROC / str(pid) / "task" / str(pid) / "children").read_text().split()]
    except (OSError, ValueError):
        return []


class CpuUse(NamedTuple):
    """Seconds that the processes of a stage have had the CPU, and were ready to run without it."""

    cpu_s: float
    ready_s: float


def cpu_use(pids: Iterable[int], starts: Container[int] = ()) -> CpuUse | None:
    """Of these processes up to now; None when none of them can be read. Of those in `starts`, which start others, only
    what their children have used that have ended."""
    ticks, delays_ns = 0, 0
    found = False
    for pid in pids:
        fields = stat_fields(_read(pid, "stat"))
        found = found or bool(fields)
        ticks += sum(int(value) for value in fields[_TIMES_OF_CHILDREN if pid in starts else _TIMES])
        if pid in starts:
            continue
        delays_ns += sum(int(value) for value in _read(pid, "schedstat").split()[1:2])
    return CpuUse(ticks / os.sysconf("SC_CLK_TCK"), delays_ns / 1e9) if found else None


def is_suspended(pids: Iterable[int]) -> bool:
    """Whether a signal has stopped one of these processes, and none has continued it."""
    return any(stat_fields(_read(pid, "stat"))[:1] == [b"T"] for pid in pids)


@dataclass
class CpuSchedule:
    """When to sample the CPU time of each of `stages` stages: at intervals that grow with its time."""

    stages: int
    _since: dict[str, float] = field(default_factory=dict)
    _due: dict[str, float] = field(default_factory=dict)

    def is_due(self, stage: str, now: float) -> bool:
        """Whether to take a sample now; the next one is then due an interval later."""
        since = self._since.setdefault(stage, now)
        if now < self._due.get(stage, now):
            return False
        self._due[stage] = now + max(interval_s(now - since), self.stages / _SAMPLES_PER_S)
        return True


@dataclass
class WorkWatch:
    """Tells stages that work from those that hang: by how much CPU time they use from one look to the next."""

    _last: dict[str, tuple[float, float]] = field(default_factory=dict)

    def is_due(self, stage: str, now: float) -> bool:
        """Whether to look at a stage now."""
        return stage not in self._last or now - self._last[stage][0] >= _LOOK_S

    def works(self, stage: str, now: float, cpu_s: float) -> bool:
        """Whether a stage has worked since the last look, by the CPU time that it has used up to now."""
        since, before_s = self._last.get(stage, (now, cpu_s))
        self._last[stage] = now, cpu_s
        return cpu_s - before_s > WORKING_SHARE * (now - since)


def _read(pid: int, name: str) -> bytes:
    """A file about a process; nothing when the process is gone, or the system has no such file."""
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""
