"""The cores of this machine as Linux numbers them: hardware threads, NUMA domains, L3 caches."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from workflow.core_set import parse_cores

_SYSTEM = Path("/sys/devices/system")


@dataclass(frozen=True)
class CpuTopology:
    """`cores` are the first hardware threads of each physical core; the domains contain cores only.

    `allowed`: the cores of which this process may use a hardware thread. [] where the system does not tell.
    """

    cores: tuple[int, ...]
    threads_per_core: int
    numa: tuple[tuple[int, ...], ...]
    l3: tuple[tuple[int, ...], ...]
    allowed: tuple[int, ...]


def cpu_topology(system: Path = _SYSTEM, allowed: Iterable[int] | None = None) -> CpuTopology:
    """What sysfs tells of the CPUs that are online. Without it every CPU counts as a core."""
    usable = set(os.sched_getaffinity(0) if allowed is None else allowed)
    siblings: dict[int, tuple[int, ...]] = {}
    for folder in system.glob("cpu/cpu[0-9]*"):
        cpu = int(folder.name.removeprefix("cpu"))
        threads = _cpus(folder / "topology/thread_siblings_list")
        if threads:
            siblings[cpu] = threads
    if not siblings:
        cores = tuple(sorted(usable))
        return CpuTopology(cores, 1, (), (), cores)
    firsts = tuple(sorted({threads[0] for threads in siblings.values()}))
    caches = {_cpus(folder) for folder in system.glob("cpu/cpu[0-9]*/cache/index3/shared_cpu_list")}
    domains = {_cpus(file) for file in system.glob("node/node[0-9]*/cpulist")}
    return CpuTopology(
        cores=firsts,
        threads_per_core=max(len(threads) for threads in siblings.values()),
        numa=_within(domains, firsts),
        l3=_within(caches, firsts),
        allowed=tuple(core for core in firsts if usable & set(siblings[core])),
    )


def _cpus(file: Path) -> tuple[int, ...]:
    try:
        return parse_cores(file.read_text().strip())
    except (OSError, ValueError):
        return ()


def _within(domains: Iterable[tuple[int, ...]], cores: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Each domain's cores, in the order of their first; domains without one (memory only) are left out."""
    own = set(cores)
    found = {tuple(cpu for cpu in domain if cpu in own) for domain in domains}
    return tuple(sorted(each for each in found if each))
