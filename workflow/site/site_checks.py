"""What two keys of a site file say about each other. A single value is checked by its model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from workflow.core_set import format_cores
from workflow.errors import Problem
from workflow.formatting import plural
from workflow.site.site_model import SiteFile
from workflow.spec.suggest import did_you_mean, listing
from workflow.spec.validation_messages import problem_at
from workflow.spec.yaml_tree.node import KeyPath, Node


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
