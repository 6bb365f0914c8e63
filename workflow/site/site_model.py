"""One machine's description, from `configs/sites/*.yaml`, and whether this machine is it.

Nothing is assumed: a site is recognised by what its file says.
"""

import os
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from workflow.core_set import format_cores, parse_cores
from workflow.errors import Problem
from workflow.formatting import plural
from workflow.launch.launchers import DEFAULT, known_launcher
from workflow.operators import Operator
from workflow.site.queue_model import Detect, SchedulerName, SiteCost, SiteQueue, SubmitRules, Workaround
from workflow.spec.models.pipeline import Name
from workflow.spec.models.units import MOST_CORES, Nodes, Size, Spec
from workflow.spec.suggest import did_you_mean, listing
from workflow.spec.validation_messages import problem_at
from workflow.spec.yaml_tree.node import KeyPath, Node
from workflow.sst_transports import Transport


def _to_cores(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return value
    return parse_cores(str(value))


Cores = Annotated[
    tuple[int, ...],
    BeforeValidator(_to_cores),
    PlainSerializer(format_cores, return_type=str, when_used="json"),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}], "title": "cores", "examples": ["0-7,16"]}
    ),
]
"""A set of cores, written `0-7,16`: their numbers on the node, sorted."""


class Gpu(Spec):
    """One GPU, or a part of one that a rank may have for itself (a GCD of AMD, a tile of Intel)."""

    cores: Cores | None = Field(None, description="the cores nearest to it, `48-55`")
    nic: str | None = Field(None, description="the network adapter nearest to it, a name of `nics`")


class Nic(Spec):
    """One network adapter."""

    name: str = Field(description="as the system names it: `cxi0`, `mlx5_0`, `hsn0`")
    cores: Cores | None = Field(None, description="the cores nearest to it")


MemoryPolicy = Literal["huge_pages", "keep_freed"]
# More than any machine has: a plan takes time in proportion to them.
CoresOfNode = Annotated[int, Field(ge=1, le=MOST_CORES)]


class SiteFile(Spec):
    """A site as written. `auto` is filled from the machine at hand when the file is loaded."""

    site: Name
    summary: str
    extends: str | None = Field(
        None, description="another site: what this file does not say is taken from it; a file may extend its namesake"
    )
    nodes: Nodes | Literal["auto"] = Field(
        1,
        description="number of nodes of the largest partition; auto: those of the allocation; outside of an "
        "allocation as many as needed",
    )
    cores_per_node: CoresOfNode | Literal["auto"] = Field("auto", description="physical cores")
    threads_per_core: int = Field(1, ge=1, le=1024, description="hardware threads of a core")
    reserved_cores: Cores = Field(
        default=(), description="cores that the site reserves for the system, and that stages do not use: `0,8,16`"
    )
    numa: list[Cores] = Field([], description="cores of each NUMA domain; []: not known")
    l3: list[Cores] = Field([], description="cores of each L3 cache; []: not known")
    memory_per_node: Size | Literal["auto"] = "auto"
    gpus_per_node: int = Field(0, ge=0, le=10_000, description="devices that a rank may have for itself")
    gpus: list[Gpu] = Field([], description="the GPUs, by device index; []: not known")
    gpu_variable: str | None = Field(
        None, description="the variable that restricts a rank to its GPUs: `ROCR_VISIBLE_DEVICES`"
    )
    nics_per_node: int = Field(0, ge=0, le=10_000, description="network adapters; 0: not known")
    nics: list[Nic] = Field([], description="the network adapters; []: not known")
    launcher: Annotated[str, AfterValidator(known_launcher)] = Field(
        DEFAULT, description="starts stages of more than one rank"
    )
    launcher_path: str = Field(
        "auto",
        description="its executable; auto: the one of wf's Python environment, otherwise the one on PATH",
    )
    launcher_args: list[str] = Field([], description="added to every launch")
    launcher_version: str | None = Field(
        None, description="version of the launcher, e.g. `24.05`, if its options depend on it"
    )
    launch_single: bool = Field(False, description="use the launcher for one-rank stages too")
    interface: str | None = Field(None, description="network interface whose address SST gives its readers")
    planes: list[Transport] | Literal["auto"] = Field(
        "auto",
        description="SST transports of this machine's ADIOS2; auto: found from the libraries that it links",
    )
    fabric: bool | Literal["auto"] | None = Field(
        "auto", description="whether an RDMA network (InfiniBand, Slingshot, …) joins the nodes"
    )
    parallel_adios2: bool | Literal["auto"] | None = Field(
        "auto",
        description="whether this machine's ADIOS2 is built with MPI; auto: found from the files beside its library",
    )
    random_sst_ids: bool | Literal["auto"] = Field(
        "auto",
        description="whether this machine's ADIOS2 gives each process of SST a random id, as `make adios2-mpi` builds "
        "it; auto: read from its library",
    )
    operators: list[Operator] | None = Field(
        None,
        description="operators of its ADIOS2; default: read from its library when a pipeline compresses",
    )
    peer_memory: bool | Literal["auto"] = Field(
        "auto",
        description="whether processes of one node may read each other's memory (process_vm_readv), as UCX must there; "
        "false: `transport: auto` does not take `shm` either, and `transport: shm` is refused",
    )
    memory_policy: list[MemoryPolicy] | Literal["auto"] = Field(
        "auto", description="default memory policy of stages with streams; []: none"
    )
    glibc: str = Field("auto", description="version of the C library, which decides how its allocator is configured")
    scheduler: SchedulerName | None = Field(
        None, description="scheduler to which jobs are submitted; without one wf submits no jobs"
    )
    queues: dict[str, SiteQueue] = Field({}, description="name → its limits")
    submit: SubmitRules = Field(default_factory=lambda: SubmitRules(), description="options of every job")
    modules: list[str] = Field([], description="lines of shell that a job runs before wf: `module load …`")
    env: dict[str, str] = Field({}, description="environment of every stage")
    workarounds: list[Workaround] = Field([], description="environment variables that the site needs, with the reasons")
    detect: list[Detect] = Field([], description="how to recognise the machine: one of these must apply")
    cost: SiteCost | None = Field(None, description="what the site charges for nodes")


class Site(SiteFile):
    """A site with every number known: what the plan is made from."""

    nodes: int = 1
    cores_per_node: int
    memory_per_node: int
    launcher_path: str = Field("", description="executable of the launcher; empty: not known")
    planes: list[Transport] = Field([], description="[]: not known")
    fabric: bool | None = Field(False, description="None: not known")
    peer_memory: bool = True
    parallel_adios2: bool | None = Field(None, description="None: not known")
    random_sst_ids: bool = False
    memory_policy: list[MemoryPolicy] = Field([])
    glibc: str = ""
    launcher_options: dict[str, str] = Field(
        {}, description="options of the launcher, as its version spells them (`site.load_site`)"
    )
    interfaces: list[str] = Field([], description="network interfaces of this machine; []: not known")
    others: tuple[int, ...] = Field((), description="cores of each node that other runs use now")
    seen: dict[str, str] = Field({}, description="key filled from this machine → what was seen")

    @property
    def usable_cores(self) -> tuple[int, ...]:
        """Numbers of the cores of a node that stages may get."""
        return tuple(sorted(set(range(self.cores_per_node)) - {*self.reserved_cores, *self.others}))


# What two keys of a site file say about each other. A single value is checked by its model.


def check_site(file: SiteFile, node: Node) -> list[Problem]:
    """The contradictions in a site file, with their places in its tree."""
    return [*_cores(file, node), *_devices(file, node), *_queues(file, node), *_detection(file, node)]


def _cores(file: SiteFile, node: Node) -> Iterator[Problem]:
    sets: list[tuple[KeyPath, Sequence[int]]] = [(("reserved_cores",), file.reserved_cores)]
    for key, domains in (("numa", file.numa), ("l3", file.l3)):
        sets += [((key, index), cores) for index, cores in enumerate(domains)]
        twice = [core for core, count in Counter(chain.from_iterable(domains)).items() if count > 1]
        if twice:
            yield problem_at(
                node, (key,), f"cores {format_cores(twice)} are in two domains", "a core belongs to one domain"
            )
    sets += [(("gpus", index, "cores"), gpu.cores or ()) for index, gpu in enumerate(file.gpus)]
    sets += [(("nics", index, "cores"), nic.cores or ()) for index, nic in enumerate(file.nics)]
    count = file.cores_per_node
    if count == "auto":
        if any(cores for _, cores in sets):
            path = next(path for path, cores in sets if cores)
            message = "cores are numbered, but `cores_per_node` is not given"
            yield problem_at(node, path, message, "add `cores_per_node: …`", at_key=True)
        return
    for path, cores in sets:
        if cores and max(cores) >= count:
            message = f"there is no core {max(cores)}: nodes have {count} cores, 0 to {count - 1}"
            yield problem_at(node, path, message, "correct it, or `cores_per_node`; hardware threads are not counted")
    if len(file.reserved_cores) == count:
        yield problem_at(node, ("reserved_cores",), "all cores are reserved", "leave at least one to the stages")


def _devices(file: SiteFile, node: Node) -> Iterator[Problem]:
    if file.gpus and len(file.gpus) != file.gpus_per_node:
        message = f"describes {plural(len(file.gpus), 'GPU')}, and `gpus_per_node` is {file.gpus_per_node}"
        yield problem_at(node, ("gpus",), message, f"describe each, or write `gpus_per_node: {len(file.gpus)}`")
    names = [nic.name for nic in file.nics]
    if file.nics and file.nics_per_node not in (0, len(names)):
        message = f"describes {plural(len(names), 'adapter')}, and `nics_per_node` is {file.nics_per_node}"
        yield problem_at(node, ("nics",), message, "leave `nics_per_node` out")
    for index, gpu in enumerate(file.gpus):
        if gpu.nic is not None and gpu.nic not in names:
            hint = did_you_mean(gpu.nic, names) or (f"adapters: {listing(names)}" if names else "describe it in `nics`")
            yield problem_at(node, ("gpus", index, "nic"), f"there is no network adapter `{gpu.nic}`", hint)


def _queues(file: SiteFile, node: Node) -> Iterator[Problem]:
    if file.scheduler is None and file.queues:
        yield problem_at(
            node, ("queues",), "the site has queues, but no scheduler", "add `scheduler: slurm`", at_key=True
        )
    defaults = [name for name, queue in file.queues.items() if queue.default]
    for name in defaults[1:]:
        message = f"{defaults[0]} is the default queue already"
        yield problem_at(node, ("queues", name, "default"), message, "remove one of the two")
    for name, queue in file.queues.items():
        for index, limit in enumerate(queue.limits):
            if queue.nodes is not None and (limit.nodes[0] < queue.nodes[0] or limit.nodes[1] > queue.nodes[1]):
                message = f"jobs of {_bounds(limit.nodes)} nodes: the queue takes {_bounds(queue.nodes)}"
                yield problem_at(node, ("queues", name, "limits", index, "nodes"), message, "correct one of the two")


def _bounds(nodes: tuple[int, int]) -> str:
    return f"{nodes[0]} to {nodes[1]}"


def _detection(file: SiteFile, node: Node) -> Iterator[Problem]:
    for index, detect in enumerate(file.detect):
        path = ("detect", index)
        if detect.value is not None and detect.variable is None:
            message = "the value of which variable?"
            yield problem_at(node, (*path, "value"), message, "add `variable: NAME`", at_key=True)
        elif detect.variable is None and detect.host is None:
            yield problem_at(
                node, path, "neither a variable nor a host is given", "add `variable: NAME` or `host: PATTERN`"
            )


def largest_job(site: Site) -> int:
    """The most nodes that a job may have, as far as the limits of the queues are known."""
    bounds = [queue.nodes for queue in site.queues.values()]
    known = [each[1] for each in bounds if each is not None]
    return min(site.nodes, max(known)) if known and len(known) == len(bounds) else site.nodes


def is_here(detect: Sequence[Detect]) -> bool:
    """Whether this process runs on the machine that is recognised so."""
    return is_recognised(detect, os.environ, platform.node())


def is_recognised(detect: Iterable[Detect], environ: Mapping[str, str], host: str) -> bool:
    """Whether one of the ways holds for this environment and host name."""
    return any(_holds(way, environ, host) for way in detect)


def ways_text(detect: Iterable[Detect]) -> str:
    """What recognises the machine, as it is told to a user: `host aurora-uan-*, or PBS_JOBID=*.aurora-pbs-*`."""
    return ", or ".join(" and ".join(_parts(way)) for way in detect)


def _parts(way: Detect) -> Iterable[str]:
    if way.variable is not None:
        yield way.variable if way.value is None else f"{way.variable}={way.value}"
    if way.host is not None:
        yield f"host {way.host}"


def _holds(way: Detect, environ: Mapping[str, str], host: str) -> bool:
    if way.variable is not None:
        value = environ.get(way.variable)
        if value is None or (way.value is not None and not fnmatchcase(value, way.value)):
            return False
    return way.host is None or fnmatchcase(host.lower(), way.host.lower())
