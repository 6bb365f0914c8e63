"""The job of a plan: what is requested from the batch system, and whether the nodes that were given fit. Pure.

The request is `allocation:` of the pipeline, checked by the rules of the site. The nodes are those of the job, or of
this machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from workflow.errors import Problem, did_you_mean, listing, to_message
from workflow.formatting import duration, plural, size
from workflow.launch.allocation import Allocation, Host
from workflow.plan.placement.nodes import nodes_needed
from workflow.plan.plan_model import AllocationPlan, Placement, Plan, StagePlan
from workflow.schedulers.schedulers import SCHEDULERS, scheduler_named
from workflow.site.queue_model import HOW_TO_SUBMIT, fitting_queues, longest_walltime_s, misfit
from workflow.site.site_model import Site
from workflow.spec.models.allocation_request import AllocationRequest

if TYPE_CHECKING:
    from workflow.plan.plan_notes import Notes
    from workflow.schedulers.scheduler import HowToAsk
    from workflow.site.queue_model import SiteQueue
    from workflow.site.site_model import Site

DEFAULT_WALLTIME_S = 1800.0
DEFAULT_GRACE_S = 120.0
# The grace leaves most of the job to the stages.
LARGEST_GRACE = 0.1
_AT = "allocation"


def plan_allocation(
    asked: AllocationRequest | None,
    site: Site,
    placements: Mapping[str, Placement],
    notes: Notes,
    *,
    placed: bool = True,
) -> AllocationPlan | None:
    """The request, with all that was left out; None where the site has no scheduler. Notes what its queues refuse.

    Args:
        placed: whether the stages have places. Without them their nodes are not known, and nothing is said of these.
    """
    if site.scheduler is None:
        if asked is not None:
            text = f"the file of site {site.site} has no `scheduler:`, and the run starts on this machine"
            notes.advise(f"{_AT} is not used: {text}; {HOW_TO_SUBMIT}")
        return None
    request = asked or AllocationRequest()
    nodes = _nodes(request, placements.values(), notes)
    name, queue = _queue(request, site, notes)
    walltime_s = _walltime_s(request, nodes, name, site, notes)
    if placed:
        _check_nodes(nodes, placements.values(), request, site, notes)
    if placed and nodes <= site.nodes:
        _check_walltime(nodes, request, name, site, notes)
        _check_size(nodes, request, name, site, notes)
    grace_s = _grace_s(request, walltime_s, notes)
    return AllocationPlan(
        scheduler=site.scheduler, nodes=nodes, walltime_s=walltime_s, queue=name, account=_account(request, site),
        partition=None if queue is None else queue.partition, qos=None if queue is None else queue.qos,
        reservation=request.reservation, constraints=_constraints(request, site), exclusive=request.exclusive,
        grace_s=grace_s, directives=[*site.submit.directives, *request.directives],
    )  # fmt: skip


def unnamed_options(allocation: AllocationPlan, site: Site) -> list[Problem]:
    """Notes on what a job does not say, and the site has no default for: its scheduler may refuse the job."""
    notes = []
    if allocation.queue is None and site.queues:
        fitting = fitting_queues(site.queues, allocation.nodes, allocation.walltime_s)
        text = f"no queue is given, and site {site.site} has no default queue"
        notes.append(to_message("note", text, f"`--set {_AT}.queue=NAME`: {listing(fitting or list(site.queues))}"))
    if allocation.account is None and site.submit.account_needed:
        text = f"no account is given, and site {site.site} requires one"
        own = f"`extends: {site.site}` and `submit: {{account: NAME}}` in a site file of your own"
        notes.append(to_message("note", text, f"`--set {_AT}.account=NAME`, or {own}"))
    return notes


def _nodes(request: AllocationRequest, placements: Iterable[Placement], notes: Notes) -> int:
    needed = nodes_needed(placements)
    if request.nodes is None:
        notes.why(f"{_AT}.nodes", f"the stages need {needed}, and {request.spare_nodes} are spare")
        return needed + request.spare_nodes
    return request.nodes


def _check_nodes(
    nodes: int, placements: Iterable[Placement], request: AllocationRequest, site: Site, notes: Notes
) -> None:
    """Refuses fewer nodes than the stages need, and more than the site has."""
    needed = nodes_needed(placements)
    spare = f" and {request.spare_nodes} more are to be spare" if request.spare_nodes else ""
    if nodes < needed + request.spare_nodes:
        message = f"{plural(nodes, 'node')}, but the stages need {needed}{spare}"
        hint = f"leave it out, or write `nodes: {needed + request.spare_nodes}`"
        notes.problems.add(f"{_AT}.nodes", message, hint)
    elif nodes > site.nodes:
        key, most = ("nodes", site.nodes) if request.nodes is not None else ("spare_nodes", site.nodes - needed)
        message = f"{plural(nodes, 'node')}, but site {site.site} has {site.nodes}; the stages need {needed}{spare}"
        notes.problems.add(f"{_AT}.{key}", message, f"write `{key}: {most}`" if most else f"leave `{key}` out")


def _queue(request: AllocationRequest, site: Site, notes: Notes) -> tuple[str | None, SiteQueue | None]:
    """(its name, what the site's file says of it)."""
    if request.queue is None:
        default = next((name for name, queue in site.queues.items() if queue.default), None)
        if default is not None:
            notes.why(f"{_AT}.queue", f"the default of site {site.site}")
        return default, site.queues.get(default or "")
    if site.queues and request.queue not in site.queues:
        hint = did_you_mean(request.queue, site.queues) or f"its queues: {listing(list(site.queues))}"
        notes.problems.add(f"{_AT}.queue", f"site {site.site} has no queue `{request.queue}`", hint)
    return request.queue, site.queues.get(request.queue)


def _walltime_s(request: AllocationRequest, nodes: int, name: str | None, site: Site, notes: Notes) -> float:
    queue = site.queues.get(name or "")
    limit = None if queue is None else longest_walltime_s(queue, nodes)
    if request.walltime is None:
        short = limit is not None and limit < DEFAULT_WALLTIME_S
        notes.why(f"{_AT}.walltime", f"the limit of queue {name}" if short else "the default")
        return min(DEFAULT_WALLTIME_S, limit or DEFAULT_WALLTIME_S)
    return request.walltime


def _check_walltime(nodes: int, request: AllocationRequest, name: str | None, site: Site, notes: Notes) -> None:
    """Refuses a time that the queue does not take for so many nodes."""
    queue, asked = site.queues.get(name or ""), request.walltime
    if queue is None or asked is None or not misfit(queue, nodes, asked) or misfit(queue, nodes, None):
        return
    limit = longest_walltime_s(queue, nodes)
    shortest = queue.min_walltime
    if shortest is not None and asked < shortest:
        message, write = f"at least {_time(shortest)}", _time(shortest)
    else:
        message, write = f"at most {_time(limit or 0)}", _time(limit or 0)
    size = f" of {plural(nodes, 'node')}" if queue.limits else ""
    message = f"{_time(asked)}, but queue {name} takes jobs{size} of {message}{_swallowed(queue)}"
    other = _other_queue(site, nodes, asked)
    notes.problems.add(f"{_AT}.walltime", message, f"write `walltime: {write}`" + (f", or {other}" if other else ""))


def _check_size(nodes: int, request: AllocationRequest, name: str | None, site: Site, notes: Notes) -> None:
    """Refuses a number of nodes that the queue does not take; without a queue, one that no queue of the site takes."""
    queue = site.queues.get(name or "")
    if queue is not None:
        fault = misfit(queue, nodes, None)
        message = f"{plural(nodes, 'node')}, but queue {name} {fault}{_swallowed(queue)}"
    else:
        known = name is None and bool(site.queues)
        fault = "" if not known or fitting_queues(site.queues, nodes, request.walltime) else "no queue takes it"
        time = f" for {_time(request.walltime)}" if request.walltime is not None else ""
        message = f"no queue of site {site.site} takes {plural(nodes, 'node')}{time}"
    if fault:
        given = (("nodes", request.nodes), ("queue", request.queue), ("walltime", request.walltime))
        key = next((key for key, value in given if value is not None), "")
        other = _other_queue(site, nodes, request.walltime) or _other_request(site, nodes, request.walltime)
        notes.problems.add(f"{_AT}.{key}".rstrip("."), message, other)


def _swallowed(queue: SiteQueue) -> str:
    return ": it would drop the job silently" if queue.routing else ""


def _other_queue(site: Site, nodes: int, walltime_s: float | None) -> str:
    """A queue that takes the job, as a user writes it; empty where none does."""
    fitting = fitting_queues(site.queues, nodes, walltime_s)
    return f"choose a queue that takes it: {listing([f'`queue: {name}`' for name in fitting])}" if fitting else ""


def _other_request(site: Site, nodes: int, walltime_s: float | None) -> str:
    """What to ask for where no queue takes the job: another time where some take so many nodes, else other nodes."""
    if taking := _taking(site, nodes):
        times = [f"{name} ({_times(site.queues[name], nodes)})" for name in taking]
        return f"ask for another time: queues that take {plural(nodes, 'node')} are {listing(times)}"
    sizes = {name: queue.nodes for name, queue in site.queues.items() if queue.nodes is not None}
    long_enough = [
        name for name in sizes if walltime_s is None or walltime_s <= (site.queues[name].walltime or walltime_s)
    ]
    shown = [f"{name} {sizes[name][0]} to {sizes[name][1]}" for name in long_enough or sizes]
    fewer = all(nodes > sizes[name][1] for name in sizes)
    return f"ask for {'fewer nodes' if fewer else 'another number of nodes'}" + (f": {listing(shown)}" if shown else "")


def _taking(site: Site, nodes: int) -> list[str]:
    """The queues that take so many nodes, for some time."""
    return [name for name, queue in site.queues.items() if not misfit(queue, nodes, None)]


def _times(queue: SiteQueue, nodes: int) -> str:
    """`5 min to 1 h`, `up to 48 h`."""
    longest, shortest = longest_walltime_s(queue, nodes), queue.min_walltime
    if longest is None:
        return f"at least {_time(shortest or 0)}"
    return f"up to {_time(longest)}" if shortest is None else f"{_time(shortest)} to {_time(longest)}"


def _grace_s(request: AllocationRequest, walltime_s: float, notes: Notes) -> float:
    if request.grace is None:
        return min(DEFAULT_GRACE_S, LARGEST_GRACE * walltime_s)
    if request.grace >= walltime_s:
        message = f"{_time(request.grace)}, but the job ends after {_time(walltime_s)}: nothing is left for the stages"
        notes.problems.add(f"{_AT}.grace", message, "make it shorter, or `walltime` longer")
    return request.grace


def _account(request: AllocationRequest, site: Site) -> str | None:
    account, suffix = request.account or site.submit.account, site.submit.account_suffix or ""
    return account if account is None or account.endswith(suffix) else account + suffix


def _constraints(request: AllocationRequest, site: Site) -> list[str]:
    """Those of the pipeline in place of the site's: they are most often another node type."""
    if request.constraints:
        return list(request.constraints)
    return [] if site.submit.constraint is None else [site.submit.constraint]


def _time(seconds: float) -> str:
    """As a user writes it: `90 min`, `2 h`."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds % length == 0 and seconds >= length:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


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
    needs, wanted, got = node_needs(plan), plan_nodes(plan), len(allocation.hosts)
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
    wanted, got = plan_nodes(plan), len(allocation.hosts)
    return _too_few(allocation, wanted, got) if wanted > got else None


def plan_nodes(plan: Plan) -> int:
    """How many nodes the stages of a plan are on."""
    return max((end for stage in plan.stages for _, end in stage.placement.nodes), default=1)


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
    """Stage → bytes that the queues of its streams may hold on each of its nodes."""
    held: dict[str, int] = {}
    for stream in plan.streams:
        nodes = sum(end - first for first, end in plan.stage(stream.writer).placement.nodes)
        held[stream.writer] = held.get(stream.writer, 0) + (stream.queue_memory or 0) // max(1, nodes)
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

    `threads` of hardware are a core. Without a scheduler the ranks get the cores that there are (`launch.binding`).
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
