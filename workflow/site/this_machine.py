"""What this machine offers: cores, memory, networks, C library. Found in a few milliseconds, without a process."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from workflow.core_set import parse_cores
from workflow.launch.launch_request import Launcher
from workflow.launch.launchers import LAUNCHERS
from workflow.site.adios2_library import adios2_parallel, adios2_planes, adios2_random_ids

# InfiniBand and RoCE; Slingshot; Omni-Path announces itself as the first.
_FABRICS = ("/sys/class/infiniband", "/sys/class/cxi")
_INTERFACES = Path("/sys/class/net")
_OWN_CGROUP = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")
_PTRACE = Path("/proc/sys/kernel/yama/ptrace_scope")
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
# Variables with which users configure the allocator: wf does not override them.
ALLOCATOR_VARIABLES = (
    "GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_ARENA_MAX",
)  # fmt: skip
SET_HERE = "is set in this environment"
# The first glibc with huge pages in malloc, and without a limit of 32 MiB on the mmap threshold (its NEWS).
TUNABLES_GLIBC = (2, 35)


def look(site: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a site with `auto` filled from this machine, and in `seen` what that was taken from."""
    known, seen = dict(site), dict[str, str]()
    if known["launcher_path"] == "auto":
        known["launcher_path"] = launcher_path(LAUNCHERS[known["launcher"]])
    if known["planes"] == "auto":
        known["planes"], seen["planes"] = adios2_planes()
    if known["peer_memory"] == "auto":
        known["peer_memory"], seen["peer_memory"] = peer_memory()
    if known["fabric"] == "auto":
        known["fabric"], seen["fabric"] = rdma_fabric()
    if known.get("parallel_adios2") == "auto":
        known["parallel_adios2"] = adios2_parallel()
    if known.get("random_sst_ids") == "auto":
        known["random_sst_ids"] = adios2_random_ids()
    if known["glibc"] == "auto":
        known["glibc"] = glibc_version()
    if known["memory_policy"] == "auto":
        known["memory_policy"], seen["memory_policy"] = memory_policy(known["glibc"], os.environ)
    return {**known, "seen": seen}


def interfaces() -> list[str]:
    """Names of this machine's network interfaces, sorted; [] where they cannot be seen."""
    try:
        return sorted(path.name for path in _INTERFACES.iterdir() if path.is_dir())
    except OSError:
        return []


def memory_bytes() -> int:
    """Memory that processes started from here may use: that of the machine, or less where a cgroup limits it.

    Batch systems and containers limit the memory of a cgroup. The smallest limit on the way from this process's
    cgroup to the root applies; inside a container only the cgroups below its own are visible.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *_cgroup_limits()])


def usable_cores() -> int:
    """Cores that processes started from here may use at a time: those of their affinity, or fewer where a cgroup limits
    their CPU time, as `docker run --cpus` does. At least 1."""
    return max(1, min([len(os.sched_getaffinity(0)), *_cgroup_cores()]))


def _cgroup_limits() -> Iterator[int]:
    """Memory limits of this process's cgroup and of those above it, in bytes."""
    for folder, is_second in _own_cgroups("memory"):
        limit = _words(folder / ("memory.max" if is_second else "memory.limit_in_bytes"))
        if limit and limit[0].isdigit():  # `max` is none; version 1 has a huge number for it
            yield int(limit[0])


def _cgroup_cores() -> Iterator[int]:
    """Limits of the CPU time of this process's cgroup and of those above it, in whole cores."""
    for folder, is_second in _own_cgroups("cpu"):
        if is_second:
            limit = _words(folder / "cpu.max")
        else:
            limit = [*_words(folder / "cpu.cfs_quota_us"), *_words(folder / "cpu.cfs_period_us")]
        if len(limit) == 2 and all(word.isdigit() for word in limit) and int(limit[1]):  # `max`, or -1, is none
            yield int(limit[0]) // int(limit[1])


def _own_cgroups(controller: str) -> Iterator[tuple[Path, bool]]:
    """The folders of this process's cgroup and of those above it that control this, and whether they are of version 2
    (cgroups(7) of Linux)."""
    try:
        lines = _OWN_CGROUP.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = _CGROUPS / controller if controllers else _CGROUPS
        own = root / name.strip("/")
        for folder in [own, *(parent for parent in own.parents if parent.is_relative_to(root))]:
            yield folder, not controllers


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def find_program(executable: str) -> str | None:
    """The program of that name that belongs to this Python, else the one on PATH; None where there is none."""
    beside = Path(sys.executable).with_name(executable)
    return str(beside) if beside.exists() else shutil.which(executable)


def launcher_path(launcher: Launcher) -> str:
    """What to execute: the launcher of wf's Python environment where it has one; else its name, found at the start."""
    found = find_program(launcher.executable) if launcher.comes_with_python else None
    return found or launcher.executable


def rdma_fabric() -> tuple[bool, str]:
    """(whether this machine is on an RDMA network, what was seen)."""
    for place in _FABRICS:
        try:
            devices = sorted(path.name for path in Path(place).iterdir())
        except OSError:
            continue
        if devices:
            return True, f"{place} has {', '.join(devices)}"
    return False, f"nothing in {' and '.join(_FABRICS)}"


def peer_memory() -> tuple[bool, str]:
    """(whether processes may read each other's memory, what was seen), by the rule of UCX (uct/sm/scopy/cma/cma_md.c).

    SST over UCX waits without end where ranks of one node may not.
    """
    try:
        scope = _PTRACE.read_text().strip()
    except OSError:
        scope = "0"
    if scope not in ("0", "1"):  # with 1 UCX allows the others
        return False, f"kernel.yama.ptrace_scope is {scope}"
    import ctypes

    here, there = ctypes.create_string_buffer(b"?"), ctypes.create_string_buffer(b"!")
    parts = [(ctypes.c_void_p * 2)(ctypes.addressof(each), 1) for each in (here, there)]
    try:
        read = ctypes.CDLL(None, use_errno=True).process_vm_readv
    except AttributeError:
        return False, "the C library has no process_vm_readv"
    if read(os.getpid(), parts[0], 1, parts[1], 1, 0) == 1:
        return True, f"process_vm_readv works, kernel.yama.ptrace_scope is {scope}"
    return False, f"process_vm_readv: {os.strerror(ctypes.get_errno())}"


def memory_policy(glibc: str, environment: Mapping[str, str]) -> tuple[list[str], str]:
    """(policies that this machine supports, what was seen)."""
    if own := [name for name in ALLOCATOR_VARIABLES if name in environment]:
        return [], f"{', '.join(own)} {SET_HERE}"
    if not glibc:
        return [], "the C library is not glibc"
    version = parse_version(glibc)
    try:
        mode = re.search(r"\[(\w+)\]", _HUGE_PAGES.read_text())
    except OSError:
        mode = None
    word = mode[1] if mode else "not there"
    seen = f"glibc {glibc}, transparent huge pages {word}"
    huge = version >= TUNABLES_GLIBC and word in ("madvise", "always")
    return (["huge_pages", "keep_freed"] if huge else ["keep_freed"]), seen


def glibc_version() -> str:
    """`2.36`; empty with another C library."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc").strip()
    except (ValueError, OSError):
        return ""


def parse_version(text: str) -> tuple[int, ...]:
    """(2, 36) of `2.36`; () of anything else."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else ()


_SYSTEM = Path("/sys/devices/system")


class CpuTopology(NamedTuple):
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
