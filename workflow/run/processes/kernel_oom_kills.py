"""Whether a process was killed for lack of memory, by the kernel's counters, limits and log, before and after.

| source | what it has |
|---|---|
| `/proc/vmstat`, oom_kill | how many processes of this node the kernel has killed for lack of memory |
| cgroup v2, memory.events.local; v1, memory.oom_control: oom_kill | the same, of one cgroup without those below it |
| cgroup.procs, of it and of those below it | whether another process may be the one that was killed |
| cgroup v2, memory.max; v1, memory.limit_in_bytes | its limit |
| `/dev/kmsg` | which processes; often only root may read it |

There is no other evidence: who sends SIGKILL is not recorded. Sources: proc_vmstat(5), cgroups(7) and the kernel's
Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROC, CGROUPS, KERNEL_LOG = Path("/proc"), Path("/sys/fs/cgroup"), Path("/dev/kmsg")
_FIRST_LOOK_S = 0.25
_CLOCK_SLACK_S = 1.0  # between the kernel's log and the monotonic clock
_RECORD_BYTES = 8192  # the longest record of /dev/kmsg
_KILLED = re.compile(r"[Oo]ut of memory: Kill(?:ed)? process (\d+) \((.*)\)")  # a name may hold parentheses
_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class MemoryFacts:
    """What is known of one stage when it was killed; None and "" where that cannot be read.

    `cgroup_kills` is since its cgroup was first seen, `node_kills` since the run began; `cgroup_is_own`: only its
    processes were ever seen in that cgroup; `log` is what the kernel's log has about its processes.
    """

    limit_bytes: int | None = None
    cgroup: str = ""
    cgroup_kills: int | None = None
    cgroup_is_own: bool = False
    node_kills: int | None = None
    log: tuple[str, ...] = ()


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

    since: float  # of the monotonic clock, as in the kernel's log
    due: float
    processes: dict[int, str] = field(default_factory=dict)  # id → name
    cgroup: MemoryCgroup | None = None
    cgroup_kills: int | None = None
    cgroup_is_own: bool = False


class MemoryWatch:
    """Looks at the stages now and then, at growing intervals, so that what changes can be told when one is killed."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._node_kills = node_kills()

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
            with contextlib.suppress(OSError):
                seen.processes[pid] = (PROC / str(pid) / "comm").read_text(errors="replace").rstrip("\n")
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
        log = killed_processes(_read_kernel_log(seen.since - _CLOCK_SLACK_S))
        return MemoryFacts(
            limit_bytes=machine if limit is None else min(machine, limit),
            cgroup="" if cgroup is None else cgroup.name,
            cgroup_kills=_increase(seen.cgroup_kills, None if cgroup is None else cgroup.kills()),
            cgroup_is_own=seen.cgroup_is_own and cgroup is not None and cgroup.holds_only(seen.processes),
            node_kills=_increase(self._node_kills, node_kills()),
            log=tuple(line for pid, named, line in log if seen.processes.get(pid) == named),
        )


def memory_cgroup(text: str, root: Path | None = None) -> MemoryCgroup | None:
    """The memory cgroup in a `/proc/PID/cgroup`; None where there is none with a counter of kills."""
    root = root or CGROUPS
    found = {controllers: name for _, controllers, name in (line.split(":", 2) for line in text.splitlines())}
    for controllers, name in found.items():
        if "memory" in controllers.split(","):
            return MemoryCgroup(name, root / "memory" / name.strip("/"))
    if "" not in found:
        return None
    folders = [mounted / found[""].strip("/") for mounted in (root, root / "unified")]
    return next((MemoryCgroup(found[""], folder) for folder in folders if (folder / "memory.events").exists()), None)


def node_kills() -> int | None:
    """How many processes of this node the kernel has killed for lack of memory since it was booted."""
    found = _COUNT.search(_read(PROC / "vmstat"))
    return None if found is None else int(found[1])


def killed_processes(lines: Iterable[str]) -> Iterator[tuple[int, str, str]]:
    """(process id, name, the whole line) of each process that the kernel's log says was killed for lack of memory."""
    for line in lines:
        if (found := _KILLED.search(line)) is not None:
            yield int(found[1]), found[2], line


def _read_kernel_log(since_s: float) -> Iterator[str]:
    """The messages of the kernel since that time of its clock; none where its log may not be read."""
    try:
        log = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        while True:
            try:
                record = os.read(log, _RECORD_BYTES)
            except BrokenPipeError:  # records were overwritten: the next read goes on after them
                continue
            if not record:
                return
            head, _, text = record.partition(b";")
            if float(head.split(b",")[2]) / 1e6 >= since_s:
                yield text.split(b"\n")[0].decode(errors="replace")
    except (OSError, ValueError, IndexError):  # EAGAIN: that was the last one
        return
    finally:
        os.close(log)


def _pids(folder: Path) -> list[str]:
    return (folder / "cgroup.procs").read_text().split()


def _increase(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
