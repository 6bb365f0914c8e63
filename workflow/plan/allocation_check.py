"""Compares the nodes and cores of the job, or of this machine, with those that the plan needs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from workflow.errors import Problem, to_message
from workflow.formatting import duration, plural, size
from workflow.launch.allocation import Allocation, Host
from workflow.plan.plan_model import Plan, StagePlan
from workflow.plan.streams.queue import held_on_node
from workflow.schedulers.schedulers import SCHEDULERS, scheduler_named
from workflow.site.queue_model import HOW_TO_SUBMIT
from workflow.site.site_model import Site

if TYPE_CHECKING:
    from workflow.schedulers.scheduler import HowToAsk

# A job gets a little less than the node has, and nobody asks for the last bytes.
_ALMOST_ALL = 0.9
_MOST_NAMES = 4


@dataclass(frozen=True)
class NodeNeed:
    """What the stages of a plan use on the nodes `first` to `end` (half open), each of them."""

    first: int
    end: int
    cores: int
    gpus: int
    memory: int  # bytes, as far as the plan knows: queues


def allocation_problems(
    plan: Plan, allocation: Allocation, now: float, site: Site | None = None, suggestion: str = ""
) -> list[Problem]:
    """Errors where the plan cannot run on what was received, warnings and notes where it can; [] where both agree.

    Args:
        now: in Unix seconds.
        site: what the plan was made from, where that is known: what it says of a node is compared, too.
        suggestion: the site to name where nodes are idle.
    """
    if not allocation.hosts:
        return [to_message("error", "; ".join(allocation.notes) or "the hosts of the job are not known")]
    if (few := too_few_nodes(plan, allocation)) is not None:
        return [few]
    needs, wanted, got = node_needs(plan), plan.nodes_of_stages, len(allocation.hosts)
    problems = [*_lacks(needs, allocation, plan.node.threads_per_core), *_late(plan, allocation, now)]
    asked = plan.allocation.nodes if plan.allocation is not None else wanted
    if got < asked and allocation.source != "local":
        text = f"{job_text(allocation)} has {plural(got, 'node')}, and {asked} were requested; the stages need {wanted}"
        problems.append(to_message("note", text))
    if got > max(wanted, asked):
        problems.append(_idle(plan, allocation, wanted, suggestion))
    if site is not None and not problems:
        problems += _other_node(site, allocation)
    return problems


def too_few_nodes(plan: Plan, allocation: Allocation) -> Problem | None:
    """The error where a plan needs more nodes than there are."""
    wanted, got = plan.nodes_of_stages, len(allocation.hosts)
    return _too_few(allocation, wanted, got) if wanted > got else None


def node_needs(plan: Plan) -> list[NodeNeed]:
    """What is used on each range of nodes that have the same stages, in order. Linear in the number of stages."""
    begins: dict[int, list[StagePlan]] = {}
    for stage in plan.stages:
        for first, end in stage.placement.nodes:
            begins.setdefault(first, []).append(stage)
            begins.setdefault(end, [])
    held = _queues_by_stage(plan)
    needs: list[NodeNeed] = []
    active: dict[str, StagePlan] = {}
    for first, end in pairwise(sorted(begins)):
        active = {
            name: stage for name, stage in active.items() if any(a <= first < b for a, b in stage.placement.nodes)
        }
        active |= {stage.name: stage for stage in begins[first]}
        if active:
            stages = active.values()
            cores = {core for stage in stages for core in stage.placement.cores}
            gpus = {gpu for stage in stages for gpu in stage.placement.gpus}
            needs.append(NodeNeed(first, end, len(cores), len(gpus), sum(held.get(name, 0) for name in active)))
    return needs


def _queues_by_stage(plan: Plan) -> dict[str, int]:
    """Stage → bytes that the queues of its streams may hold on one of its nodes."""
    held: dict[str, int] = {}
    for stream in plan.streams:
        writer = plan.stage(stream.writer)
        on_node = held_on_node(stream.queue_memory or 0, writer.ranks, writer.placement)
        held[stream.writer] = held.get(stream.writer, 0) + on_node
    return held


def job_text(allocation: Allocation) -> str:
    """`Slurm job 1234`, or what else the hosts are from."""
    if allocation.source == "hostfile":
        return "the host file"
    return f"{scheduler_named(allocation.source).title} job {allocation.job}".strip()


def _how_to_ask(allocation: Allocation) -> HowToAsk:
    if allocation.source in SCHEDULERS:
        return scheduler_named(allocation.source).ask
    from workflow.schedulers.scheduler import HowToAsk

    return HowToAsk("a host file of {0} hosts", "`slots=` of the host file", "hosts that have them")


def _names(hosts: Sequence[Host]) -> str:
    names = [host.name for host in hosts[:_MOST_NAMES]]
    return ", ".join(names) + (", …" if len(hosts) > _MOST_NAMES else "")


def _too_few(allocation: Allocation, wanted: int, got: int) -> Problem:
    if allocation.source == "local":
        text = (
            f"the plan needs {plural(wanted, 'node')}, but wf does not run inside a batch job: it has only this machine"
        )
        hint = f"start it inside a job, or plan for this machine: `--site local`; {HOW_TO_SUBMIT}"
        return to_message("error", text, hint)
    text = f"the plan needs {plural(wanted, 'node')}, and {job_text(allocation)} has {got}: {_names(allocation.hosts)}"
    fewer = "or let stages share nodes: `--set stages.STAGE.place.share=OTHER`"
    return to_message("error", text, f"ask for {wanted}: {_how_to_ask(allocation).nodes.format(wanted)}; {fewer}")


def _lacks(needs: Sequence[NodeNeed], allocation: Allocation, threads: int) -> Iterator[Problem]:
    """Cores, GPUs and memory that stages use and a node has not: one message each, about all such nodes.

    `threads` of hardware are a core. Without a scheduler the ranks get the cores that there are (`workflow.core_set`).
    """
    if allocation.source == "local":
        return
    has = job_text(allocation)
    pairs = [(need, host) for need in needs for host in allocation.hosts[need.first : need.end]]
    cores = ((need.cores, allocation.cores_of(host, threads), host) for need, host in pairs)
    if (short := _shortage(cores)) is not None:
        text = f"the plan uses {plural(short.wanted, 'core')} on a node, and {has} has {short.got} on {short.names}"
        yield to_message("error", text, f"ask for whole nodes: {_how_to_ask(allocation).whole}; or use fewer ranks")
    if (short := _shortage((need.gpus, host.gpus, host) for need, host in pairs)) is not None:
        text = f"the plan uses {plural(short.wanted, 'GPU')} on a node, and {has} has {short.got} on {short.names}"
        ask = _how_to_ask(allocation).gpus.format(short.wanted)
        yield to_message("error", text, f"ask for them: {ask}; or set `gpus_per_rank: 0`")
    if (short := _shortage((need.memory, host.memory, host) for need, host in pairs)) is not None:
        held = f"the queues of the streams may hold {size(short.wanted)} on a node"
        text = f"{held}, and {has} has {size(short.got)} of memory on {short.names}"
        yield to_message(
            "error", text, "ask for more memory (Slurm: `--mem=0` is all of a node), or lower `queue.limit`"
        )


class _Shortage(NamedTuple):
    wanted: int
    got: int
    names: str


def _shortage(facts: Iterable[tuple[int, int | None, Host]]) -> _Shortage | None:
    """What is wanted and had of one thing by node, where a node has too little; what is not known is enough."""
    short = [(wanted, got, host) for wanted, got, host in facts if got is not None and got < wanted]
    if not short:
        return None
    wanted, got, _ = min(short, key=lambda fact: fact[1] - fact[0])
    return _Shortage(wanted, got, _names([host for _, _, host in short]))


def _late(plan: Plan, allocation: Allocation, now: float) -> Iterator[Problem]:
    """The time that is left, against the run's own limit."""
    if allocation.end_time is None:
        return
    left, limit = allocation.end_time - now, plan.deadlines.run
    if left <= 0:
        yield to_message("error", f"{job_text(allocation)} has ended", "start a new job")
    elif limit is not None and left < limit:
        text = f"{job_text(allocation)} ends in {duration(left)}, before the run's own limit of {duration(limit)}"
        yield to_message("warning", text, "ask for a longer job if the run needs that time")
    elif plan.allocation is not None and "allocation.walltime" not in plan.reasons:
        asked = plan.allocation.walltime_s
        if left < _ALMOST_ALL * asked:
            text = f"{job_text(allocation)} ends in {duration(left)}, and {duration(asked)} were requested"
            yield to_message("note", text, "wf stops the run cleanly before that")


def _idle(plan: Plan, allocation: Allocation, wanted: int, suggestion: str) -> Problem:
    """More nodes than the plan uses: a mistake where the plan is for one machine, and a waste elsewhere."""
    got = len(allocation.hosts)
    text = f"{job_text(allocation)} has {plural(got, 'node')}, and the plan for site {plan.site} uses {wanted}: "
    text += f"{got - wanted} {'stays' if got - wanted == 1 else 'stay'} idle"
    more = "give stages more nodes (`place: {nodes: N}`), or ask for fewer"
    hint = f"use them: `--site {suggestion}`" if suggestion else more
    return to_message("warning" if suggestion else "note", text, hint)


def _other_node(site: Site, allocation: Allocation) -> Iterator[Problem]:
    """What the site's file says of a node, and the job has less of. The plan fits all the same."""
    if allocation.source == "local":
        return
    has, usable = job_text(allocation), len(site.usable_cores)
    counts = (allocation.cores_of(host, site.threads_per_core) for host in allocation.hosts)
    cores = min((count for count in counts if count is not None), default=usable)
    if cores < usable:
        text = (
            f"{has} has {plural(cores, 'core')} of a node, where site {site.site} has {usable}; the plan uses no more"
        )
        yield to_message("note", text, f"for whole nodes: {_how_to_ask(allocation).whole}")
    memory = min((host.memory for host in allocation.hosts if host.memory is not None), default=site.memory_per_node)
    if memory < _ALMOST_ALL * site.memory_per_node:
        text = f"{has} has {size(memory)} of memory on a node, where site {site.site} has {size(site.memory_per_node)}"
        yield to_message("note", text, "stages that use more are killed; Slurm gives all of it with `--mem=0`")
