"""What the scheduler's and the launcher's own commands say of a site. What is not understood is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from workflow.launch.allocation import Source
from workflow.site.allocation.scheduler_query import Query, QueryError
from workflow.site.queue_model import Scheduler

_PAIR = re.compile(r"(\w+)=(\S+)")
_VERSION = re.compile(r"(\d+(?:\.\d+)+)")
# The schedulers, by a command that each of them has.
_COMMANDS: dict[str, Scheduler] = {"sinfo": "slurm", "pbsnodes": "pbs", "bhosts": "lsf", "flux": "flux"}


@dataclass(frozen=True)
class QueueFact:
    """One queue. `walltime_s` and `most_nodes` are None without a limit."""

    name: str
    fewest_nodes: int = 1
    most_nodes: int | None = None
    walltime_s: int | None = None
    default: bool = False


@dataclass(frozen=True)
class SchedulerFacts:
    """A scheduler, its queues, and what it says of this node (0: nothing)."""

    scheduler: Scheduler | None = None
    nodes: int = 0
    memory: int = 0
    queues: tuple[QueueFact, ...] = ()
    unknown: tuple[str, ...] = field(default_factory=tuple)


def scheduler_of(source: Source, on_path: Callable[[str], object]) -> Scheduler | None:
    """The scheduler of a job that is in it, else the one whose commands are here."""
    if source in ("slurm", "pbs", "lsf", "flux"):
        return source
    return next((name for command, name in _COMMANDS.items() if on_path(command)), None)


def ask_scheduler(scheduler: Scheduler | None, environ: Mapping[str, str], query: Query) -> SchedulerFacts:
    """Of Slurm: the queues, the nodes of the largest, and the memory that it gives out of this node."""
    if scheduler != "slurm":
        return SchedulerFacts(scheduler)
    unknown = []
    queues: tuple[QueueFact, ...] = ()
    nodes = memory = 0
    try:
        partitions = [dict(_PAIR.findall(line)) for line in query(["scontrol", "show", "partition", "-o"]).splitlines()]
        queues = tuple(slurm_queue(words) for words in partitions if "PartitionName" in words)
        nodes = max((int(words.get("TotalNodes", 0)) for words in partitions), default=0)
    except (QueryError, ValueError) as error:
        unknown.append(f"queues: {error}")
    if name := environ.get("SLURMD_NODENAME", ""):
        try:
            words = dict(_PAIR.findall(query(["scontrol", "show", "node", name])))
            memory = int(words.get("RealMemory", 0)) * 2**20
        except (QueryError, ValueError) as error:
            unknown.append(f"memory that jobs get: {error}")
    return SchedulerFacts(scheduler, nodes, memory, queues, tuple(unknown))


def slurm_queue(words: Mapping[str, str]) -> QueueFact:
    """A partition, from the words of `scontrol show partition`. Raises ValueError for a time that is none."""
    most = words.get("MaxNodes", "UNLIMITED")
    total = int(words.get("TotalNodes", 0))
    return QueueFact(
        name=words["PartitionName"],
        fewest_nodes=max(1, int(words.get("MinNodes", 1))),
        most_nodes=int(most) if most.isdigit() else total or None,
        walltime_s=slurm_seconds(words.get("MaxTime", "UNLIMITED")),
        default=words.get("Default") == "YES",
    )


def slurm_seconds(text: str) -> int | None:
    """`1-12:00:00`, `02:00:00` or `30:00`; None for UNLIMITED. Raises ValueError."""
    if text in ("UNLIMITED", "NONE"):
        return None
    days, dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    seconds = 0
    for part in parts:
        seconds = 60 * seconds + part
    return seconds + (86400 * int(days) if dash else 0)


@dataclass(frozen=True)
class LauncherFact:
    """The launcher to use, as site files name it, and its version; empty where it is not told."""

    name: str = "mpiexec"
    version: str = ""


def ask_launcher(scheduler: Scheduler | None, query: Query) -> LauncherFact:
    """srun under Slurm, flux under Flux, jsrun where LSF has it; else what `mpiexec --version` says that it is."""
    own = {"slurm": "srun", "flux": "flux", "lsf": "jsrun"}.get(scheduler or "", "")
    for command in filter(None, (own, "mpiexec")):
        try:
            said = query([command, "--version"])
        except QueryError:
            continue
        if command != "mpiexec":
            return LauncherFact(command, _version(said))
        flavour = next((name for word, name in _FLAVOURS.items() if word in said), "mpiexec")
        return LauncherFact(flavour, _version(said))
    return LauncherFact()


# A word of `mpiexec --version`, and what site files call that launcher.
_FLAVOURS = {"PALS": "pals", "Open MPI": "openmpi", "OpenRTE": "openmpi", "HYDRA": "mpiexec"}


def _version(said: str) -> str:
    match = _VERSION.search(said)
    return match[1] if match else ""
