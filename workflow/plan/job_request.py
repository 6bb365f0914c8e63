"""The request to the batch system: `allocation:` of the pipeline, checked by the rules of the site. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from workflow.errors import Problem, to_message
from workflow.formatting import plural
from workflow.plan.placement.nodes import nodes_needed
from workflow.plan.plan_model import AllocationPlan, Placement
from workflow.schedulers.schedulers import scheduler_named
from workflow.site.queue_model import HOW_TO_SUBMIT, fitting_queues, longest_walltime_s, misfit
from workflow.spec.models.allocation_request import AllocationRequest
from workflow.spec.suggest import did_you_mean, listing

if TYPE_CHECKING:
    from workflow.plan.plan_notes import Notes
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
    parts = _parts(request, walltime_s, site, notes)
    return AllocationPlan(
        scheduler=site.scheduler, nodes=nodes, walltime_s=walltime_s, queue=name, account=_account(request, site),
        partition=None if queue is None else queue.partition, qos=None if queue is None else queue.qos,
        reservation=request.reservation, constraints=_constraints(request, site), exclusive=request.exclusive,
        grace_s=grace_s, parts=parts, directives=[*site.submit.directives, *request.directives],
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
    spare = f" plus {plural(request.spare_nodes, 'spare node')}" if request.spare_nodes else ""
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


def _parts(request: AllocationRequest, walltime_s: float, site: Site, notes: Notes) -> int:
    """How many jobs, one after the other; notes where the site cannot do that, or nobody has said how long they are."""
    if request.parts == 1:
        return 1
    assert site.scheduler is not None
    scheduler = scheduler_named(site.scheduler)
    if scheduler.nests:
        text = f"a job that is submitted in a job of {scheduler.title} is part of that one"
        notes.advise(f"{_AT}.parts is not used: {text}; go on by hand: `wf resume`")
        return 1
    if request.walltime is None:
        notes.advise(f"{_AT}.parts: each part may run {_time(walltime_s)}, because `walltime` is not given")
    return request.parts


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
