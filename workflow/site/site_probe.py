"""`wf site probe`: reads this node, its scheduler and its launcher, and writes a site file.

Nothing is started but the commands of these, and nvidia-smi. What could not be found is in comments of the site file,
with what to write.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workflow.core_set import format_cores, parse_cores
from workflow.formatting import plural
from workflow.launch.allocation import Allocation, Source
from workflow.launch.launchers import DEFAULT, LAUNCHERS
from workflow.schedulers.scheduler import Query, QueryError, SchedulerFacts, ask
from workflow.schedulers.schedulers import SCHEDULERS, cluster_here, scheduler_named
from workflow.site.adios2_library import adios2_parallel, adios2_planes
from workflow.site.discover import discover_allocation
from workflow.site.this_machine import CpuTopology, cpu_topology, glibc_version, memory_policy, rdma_fabric

_SYS = Path("/sys")
_NVIDIA = ["nvidia-smi", "--query-gpu=name,pci.bus_id", "--format=csv,noheader"]


@dataclass(frozen=True)
class Device:
    """A GPU or an adapter. `cores` are the numbers of the physical cores next to it; () is not known."""

    name: str
    cores: tuple[int, ...] = ()


@dataclass(frozen=True)
class Gpus:
    """All GPUs in the order of their indices, and the variable that restricts a process to some."""

    devices: tuple[Device, ...] = ()
    variable: str = ""


def find_gpus(cores: Iterable[int], query: Query, sys: Path = _SYS) -> Gpus:
    """NVIDIA's GPUs, else AMD's; none where there is no driver. `cores` are the first threads of the physical cores."""
    own = set(cores)
    try:
        lines = query(_NVIDIA).splitlines()
    except QueryError:
        lines = []
    found = [line.split(", ") for line in lines if ", " in line]
    if found:
        devices = (Device(name, _cores_near(sys / "bus/pci/devices" / _pci_address(bus), own)) for name, bus in found)
        return Gpus(tuple(devices), "CUDA_VISIBLE_DEVICES")
    amd = tuple(Device("AMD GPU", _cores_near(sys / "bus/pci/devices" / bus, own)) for bus in _amd_gpus(sys))
    return Gpus(amd, "ROCR_VISIBLE_DEVICES") if amd else Gpus()


def find_nics(cores: Iterable[int], sys: Path = _SYS) -> tuple[Device, ...]:
    """Slingshot's adapters, else InfiniBand's (RoCE, Omni-Path), by name."""
    own = set(cores)
    for kind in ("cxi", "infiniband"):
        folders = sorted(_entries(sys / "class" / kind))
        if folders:
            return tuple(Device(folder.name, _cores_near(folder / "device", own)) for folder in folders)
    return ()


def find_interfaces(sys: Path = _SYS) -> list[str]:
    """Network interfaces that are up, sorted: those of hardware, else all but the loopback."""
    up = [each for each in _entries(sys / "class/net") if _text_of(each / "operstate") in ("up", "unknown")]
    real = [each.name for each in up if (each / "device").exists()]
    return sorted(real or [each.name for each in up if each.name != "lo"])


def _amd_gpus(sys: Path) -> list[str]:
    """PCI addresses of AMD's GPUs in the order of the kernel driver, which is that of ROCR_VISIBLE_DEVICES.

    `location_id` holds bus, device and function as in PCI requester ids (kfd_topology.c of Linux).
    """
    found = []
    nodes = [folder for folder in _entries(sys / "class/kfd/kfd/topology/nodes") if folder.name.isdigit()]
    for folder in sorted(nodes, key=lambda each: int(each.name)):
        words = dict(line.split(None, 1) for line in _text_of(folder / "properties").splitlines() if " " in line)
        if int(words.get("simd_count", 0)):
            place = int(words.get("location_id", 0))
            domain, bus, device, function = int(words.get("domain", 0)), place >> 8, (place >> 3) & 31, place & 7
            found.append(f"{domain:04x}:{bus & 255:02x}:{device:02x}.{function:x}")
    return found


def _pci_address(bus: str) -> str:
    """nvidia-smi's `00000000:C1:00.0` as sysfs has it: `0000:c1:00.0`."""
    domain, _, rest = bus.strip().lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _cores_near(device: Path, own: set[int]) -> tuple[int, ...]:
    """The physical cores next to a PCI device; () where all are, or it is not told."""
    try:
        near = tuple(cpu for cpu in parse_cores(_text_of(device / "local_cpulist")) if cpu in own)
    except ValueError:
        return ()
    return near if len(near) < len(own) else ()


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _text_of(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


_VERSION = re.compile(r"(\d+(?:\.\d+)+)")


def scheduler_of(source: Source, on_path: Callable[[str], object]) -> str | None:
    """The scheduler of a job that is in it, else the one whose commands are here."""
    if source in SCHEDULERS:
        return source
    return next((name for name in SCHEDULERS if on_path(scheduler_named(name).command)), None)


def answering_scheduler(source: Source, query: Query) -> tuple[str | None, str]:
    """(the scheduler of this machine, why the one whose commands are here is not taken for it).

    Commands alone are no scheduler: packages and modules bring them to machines that have none.
    """
    name = scheduler_of(source, shutil.which)
    if name is None or source == name:
        return name, ""
    command = scheduler_named(name).answers or (scheduler_named(name).command,)
    try:
        query(command)
    except QueryError as error:
        return None, f"{scheduler_named(name).title}'s commands are here, but it gives no answer: {error}"
    return name, ""


def ask_scheduler(scheduler: str | None, environ: Mapping[str, str], query: Query) -> SchedulerFacts:
    """Its queues, and what it says of its nodes, where there are commands for that."""
    facts = scheduler_named(scheduler).facts if scheduler is not None else None
    return SchedulerFacts(scheduler) if facts is None else facts(environ, query)


@dataclass(frozen=True)
class LauncherFact:
    """The launcher to use, as site files name it, and its version; empty where it is not told."""

    name: str = DEFAULT
    version: str = ""


def ask_launcher(scheduler: str | None, query: Query) -> LauncherFact:
    """The scheduler's own, where it is here; else the one that `mpiexec --version` says it is."""
    own = scheduler_named(scheduler).launcher if scheduler is not None else ""
    for name in filter(None, (own, DEFAULT)):
        try:
            said = query([LAUNCHERS[name].executable, "--version"])
        except QueryError:
            continue
        if name == DEFAULT:
            told = (each for each, its in LAUNCHERS.items() if any(word in said for word in its.version_words))
            name = next(told, DEFAULT)
        return LauncherFact(name, _version(said))
    return LauncherFact()


def _version(said: str) -> str:
    match = _VERSION.search(said)
    return match[1] if match else ""


@dataclass(frozen=True)
class ProbedNode:
    """What was found. `memory` in bytes; `cluster` is what the scheduler calls the machine; `unanswered`: why a
    scheduler whose commands are here is not taken for one."""

    host: str
    allocation: Allocation
    cpus: CpuTopology
    memory: int
    gpus: Gpus
    nics: tuple[Device, ...]
    interfaces: tuple[str, ...]
    scheduler: SchedulerFacts
    launcher: LauncherFact
    fabric: bool
    glibc: str
    memory_policy: tuple[str, ...]
    planes: tuple[str, ...]
    parallel_adios2: bool | None
    cluster: str = ""
    unanswered: str = ""

    @property
    def in_job(self) -> bool:
        """Whether this is a node of a batch job, as far as wf sees."""
        return self.allocation.source in SCHEDULERS


def probe_node(environ: Mapping[str, str] | None = None, query: Query = ask) -> ProbedNode:
    """The facts of this node. Raises WfError when a job's hosts are not known."""
    environ = os.environ if environ is None else environ
    allocation, cpus = discover_allocation(environ, query), cpu_topology()
    kind, unanswered = answering_scheduler(allocation.source, query)
    scheduler = ask_scheduler(kind, environ, query)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    glibc = glibc_version()
    return ProbedNode(
        host=platform.node(), allocation=allocation, cpus=cpus,
        memory=min(total, scheduler.memory) if scheduler.memory else total,
        gpus=find_gpus(cpus.cores, query), nics=find_nics(cpus.cores), interfaces=tuple(find_interfaces()),
        scheduler=scheduler, launcher=ask_launcher(kind, query), fabric=rdma_fabric()[0], glibc=glibc,
        memory_policy=tuple(memory_policy(glibc, {})[0]), planes=tuple(adios2_planes()[0]),
        parallel_adios2=adios2_parallel(),
        cluster=cluster_here(kind, environ), unanswered=unanswered,
    )  # fmt: skip


_GIB = 2**30


def site_text(facts: ProbedNode, name: str, wf_version: str) -> str:
    """A site file that loads, with where each value is from."""
    lines = [f"# Found by `wf site probe` of wf {wf_version} on {facts.host}. Check the lines with a question mark."]
    lines += [f"site: {name}", f"summary: {json.dumps(_summary(facts), ensure_ascii=False)}"]
    lines += [*_node(facts), *_devices(facts), *_network(facts), *_launcher(facts), *_adios2(facts), *_queues(facts)]
    if facts.cluster and facts.scheduler.scheduler is not None:
        variable = scheduler_named(facts.scheduler.scheduler).cluster_variable
        lines.append(_line(f"detect: [{{variable: {variable}, value: {facts.cluster}}}]", "inside of its jobs"))
    lines.append('# ? on login nodes, add to `detect`: {host: "login*"}, as `hostname` prints there')
    return "\n".join(lines) + "\n"


def _line(text: str, comment: str) -> str:
    return f"{text:<39} # {comment}"


def _summary(facts: ProbedNode) -> str:
    parts = [plural(len(facts.cpus.cores), "core")]
    if facts.gpus.devices:
        parts.append(f"{len(facts.gpus.devices)} × {facts.gpus.devices[0].name}")
    kind = facts.scheduler.scheduler
    return f"{facts.cluster or 'a machine'}{f' under {kind}' if kind else ''}, nodes of {', '.join(parts)}"


def _node(facts: ProbedNode) -> Iterator[str]:
    cpus = facts.cpus
    if facts.scheduler.nodes:
        yield _line(f"nodes: {facts.scheduler.nodes}", "of the largest partition, as the scheduler says")
    elif facts.scheduler.scheduler is None:
        yield _line(
            "nodes: 1", "? this machine: no scheduler has answered" if facts.unanswered else "no scheduler is here"
        )
    else:
        yield _line("nodes: auto", "? not known: those of the job, outside of one as many as a plan needs")
    yield _line(f"cores_per_node: {len(cpus.cores)}", "physical cores, from /sys")
    if cpus.threads_per_core > 1:
        yield _line(f"threads_per_core: {cpus.threads_per_core}", "from /sys")
    if missing := sorted(set(cpus.cores) - set(cpus.allowed)):
        why = "? cores that this job could not use: reserved by the site, or the job did not ask for them"
        yield _line(f"# reserved_cores: {format_cores(missing)}", why)
    for key, domains in (("numa", cpus.numa), ("l3", cpus.l3)):
        if len(domains) > 1:
            yield f"{key}: [{', '.join(_cores(each) for each in domains)}]"
    yield _line(f"memory_per_node: {_memory(facts.memory)}", "what jobs may have, as far as that is told")


def _memory(count: int) -> str:
    """Whole GiB of a large node, MiB of a small one: never more than there is."""
    return f"{count // _GIB} GiB" if count >= 16 * _GIB else f"{count // 2**20} MiB"


def _cores(cores: Sequence[int]) -> str:
    """A set of cores inside a list of YAML, where a comma separates entries."""
    text = format_cores(cores)
    return f'"{text}"' if "," in text else text


def _devices(facts: ProbedNode) -> Iterator[str]:
    gpus = facts.gpus
    if not gpus.devices:
        yield "# no GPU was found (nvidia-smi, /sys/class/kfd); of Intel's GPUs: write `gpus_per_node`"
        return
    yield _line(f"gpus_per_node: {len(gpus.devices)}", gpus.devices[0].name)
    if all(device.cores for device in gpus.devices):
        yield "gpus:"
        for device in gpus.devices:
            nic = _nearest(device, facts.nics)
            yield f"  - {{cores: {_cores(device.cores)}{f', nic: {nic}' if nic else ''}}}"
    else:
        yield "# ? the cores next to each GPU: not told by this node"
    yield _line(f"gpu_variable: {gpus.variable}", "restricts a rank to its GPUs")


def _nearest(device: Device, nics: Sequence[Device]) -> str:
    """The adapter that shares most cores with a device; empty where none is nearer than another."""
    shared = {nic.name: len(set(nic.cores) & set(device.cores)) for nic in nics}
    best = max(shared.values(), default=0)
    return next((name for name, count in shared.items() if count == best), "") if best else ""


def _network(facts: ProbedNode) -> Iterator[str]:
    if facts.nics:
        yield "nics:"
        for nic in facts.nics:
            yield f"  - {{name: {nic.name}{f', cores: {_cores(nic.cores)}' if nic.cores else ''}}}"
    yield _line(f"fabric: {str(facts.fabric).lower()}", "/sys/class/infiniband and /sys/class/cxi")
    if facts.interfaces:
        names = ", ".join(facts.interfaces)
        why = f"the network whose address SST gives its readers; this node has {names}"
        yield f"# ? interface: {facts.interfaces[0]}   {why}"


def _launcher(facts: ProbedNode) -> Iterator[str]:
    launcher, scheduler = facts.launcher, facts.scheduler.scheduler
    yield f"launcher: {launcher.name}"
    if launcher.version:
        yield _line(f'launcher_version: "{launcher.version}"', "what it says of itself")
    if scheduler:
        yield _line("launch_single: true", "stages of one rank run on the nodes of the job, too")


def _adios2(facts: ProbedNode) -> Iterator[str]:
    if facts.glibc:
        yield f'glibc: "{facts.glibc}"'
    yield f"memory_policy: [{', '.join(facts.memory_policy)}]"
    if facts.planes:
        yield _line(f"planes: [{', '.join(facts.planes)}]", "of the ADIOS2 beside this wf")
        yield f"parallel_adios2: {str(bool(facts.parallel_adios2)).lower()}"
    else:
        yield "# ? planes: [tcp, rdma]   SST transports of your ADIOS2; there is none beside this wf"


def _queues(facts: ProbedNode) -> Iterator[str]:
    known = facts.scheduler
    if facts.unanswered:
        yield f"# ? scheduler: NAME   {facts.unanswered}"
        return
    if known.scheduler is None:
        yield f"# no scheduler was found ({', '.join(scheduler_named(each).command for each in SCHEDULERS)})"
        return
    yield f"scheduler: {known.scheduler}"
    for unknown in known.unknown:
        yield f"# ? {unknown}"
    if not known.queues:
        yield "# ? queues: {NAME: {nodes: [1, 128], walltime: 12 h}}   not known: their limits are not checked"
        return
    yield "queues:"
    for queue in known.queues:
        parts = [f"nodes: [{queue.fewest_nodes}, {queue.most_nodes}]"] if queue.most_nodes else []
        parts += [f"walltime: {queue.walltime_s} s"] if queue.walltime_s else []
        parts += ["default: true"] if queue.default else []
        yield f"  {queue.name}: {{{', '.join(parts)}}}"
