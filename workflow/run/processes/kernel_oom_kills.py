"""Whether a process was killed for lack of memory, by the kernel's counter of its cgroup, before and after.

| source | what it has |
|---|---|
| cgroup v2, memory.events.local; v1, memory.oom_control: oom_kill | how many of its processes were killed |
| cgroup.procs, of it and of those below it | whether another process may be the one that was killed |
| cgroup v2, memory.max; v1, memory.limit_in_bytes | its limit |

There is no other evidence that every user may read: who sends SIGKILL is not recorded. Sources: cgroups(7) and the
kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from pathlib import Path

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_FIRST_LOOK_S = 0.25
_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class MemoryFacts:
    """What is known of one stage when it was killed; None and "" where that cannot be read.

    `cgroup_kills` is since its cgroup was first seen; `cgroup_is_own`: only its processes were ever seen there.
    """

    limit_bytes: int | None = None
    cgroup: str = ""
    cgroup_kills: int | None = None
    cgroup_is_own: bool = False


@dataclass(frozen=True)
class MemoryCgroup:
    """The memory cgroup of a process. `folder` holds its files."""

    name: str
    folder: Path

    def kills(self) -> int | None:
        """How many of its processes the kernel has killed for lack of memory."""
        # Without `.local` the kills of cgroups below count, too: those of other stages that have one of their own.
        for file in ("memory.events.local", "memory.events", "memory.oom_control"):
            if (found := _COUNT.search(_read(self.folder / file))) is not None:
                return int(found[1])
        return None

    def holds_only(self, pids: Container[int]) -> bool:
        """Whether all processes in it and below it are these; False where that cannot be read.

        A process that cannot be seen from here, in a container, has the number 0 or is missing.
        """
        try:
            return all(int(pid) in pids for folder, _, _ in os.walk(self.folder) for pid in _pids(Path(folder)))
        except (OSError, ValueError):
            return False

    def limit_bytes(self) -> int | None:
        """The smallest limit of it and of those above it; None: none has one."""
        limits = []
        for folder in (self.folder, *self.folder.parents):
            if not folder.is_relative_to(CGROUPS):
                break
            limits += [_read(folder / file).strip() for file in ("memory.max", "memory.limit_in_bytes")]
        # `max` is none; version 1 has a huge number for it.
        return min((int(limit) for limit in limits if limit.isdigit() and int(limit) < 2**60), default=None)


@dataclass
class _Seen:
    """What was seen of a stage while it ran."""

    since: float
    due: float
    processes: set[int] = field(default_factory=set)
    cgroup: MemoryCgroup | None = None
    cgroup_kills: int | None = None
    cgroup_is_own: bool = False


class MemoryWatch:
    """Looks at the stages now and then, at growing intervals, so that what changes can be told when one is killed."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def start(self, name: str, pid: int) -> None:
        """A stage has been started."""
        now = time.monotonic()
        self._seen[name] = _Seen(now, now + _FIRST_LOOK_S)
        self.look(name, [pid])

    def is_due(self, name: str) -> bool:
        """Whether to look at a stage now; the next time is when it has run for twice as long."""
        seen, now = self._seen[name], time.monotonic()
        if now < seen.due:
            return False
        seen.due = now + max(_FIRST_LOOK_S, now - seen.since)
        return True

    def look(self, name: str, pids: Iterable[int]) -> None:
        """Note which processes a stage has, and which cgroup: of several that of the last process."""
        seen = self._seen[name]
        last = None
        for pid in pids:
            seen.processes.add(pid)
            last = memory_cgroup(_read(PROC / str(pid) / "cgroup")) or last
        if last is None:
            return
        if last != seen.cgroup:
            seen.cgroup, seen.cgroup_kills, seen.cgroup_is_own = last, last.kills(), True
        seen.cgroup_is_own = seen.cgroup_is_own and last.holds_only(seen.processes)

    def processes(self, name: str) -> list[int]:
        """The ids of all processes of a stage that were seen."""
        return list(self._seen[name].processes)

    def facts(self, name: str) -> MemoryFacts:
        """What is known now that a stage has ended."""
        seen = self._seen[name]
        cgroup = seen.cgroup
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        limit = None if cgroup is None else cgroup.limit_bytes()
        return MemoryFacts(
            limit_bytes=machine if limit is None else min(machine, limit),
            cgroup="" if cgroup is None else cgroup.name,
            cgroup_kills=_increase(seen.cgroup_kills, None if cgroup is None else cgroup.kills()),
            cgroup_is_own=seen.cgroup_is_own and cgroup is not None and cgroup.holds_only(seen.processes),
        )


def memory_cgroup(text: str) -> MemoryCgroup | None:
    """The memory cgroup in a `/proc/PID/cgroup`; None where there is none with a counter of kills."""
    found = {controllers: name for _, controllers, name in (line.split(":", 2) for line in text.splitlines())}
    for controllers, name in found.items():
        if "memory" in controllers.split(","):
            return MemoryCgroup(name, CGROUPS / "memory" / name.strip("/"))
    if "" not in found:
        return None
    folders = [mounted / found[""].strip("/") for mounted in (CGROUPS, CGROUPS / "unified")]
    return next((MemoryCgroup(found[""], folder) for folder in folders if (folder / "memory.events").exists()), None)


def _pids(folder: Path) -> list[str]:
    return (folder / "cgroup.procs").read_text().split()


def _increase(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
