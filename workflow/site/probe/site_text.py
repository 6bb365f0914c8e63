"""The facts of a node as the text of a site file. What could not be found is in comments, with what to write. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from workflow.core_set import format_cores
from workflow.formatting import plural
from workflow.schedulers.schedulers import SCHEDULERS, scheduler_named
from workflow.site.probe.probed_devices import Device
from workflow.site.probe.probed_node import ProbedNode

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
        yield f"# ? interface: {facts.interfaces[0]}   the network that SST listens on; this node has {names}"


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
