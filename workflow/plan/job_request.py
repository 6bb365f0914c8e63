"""What is asked of the batch system: the pipeline's `allocation:` over the site's rules. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from workflow.formatting import plural
from workflow.plan.plan_model import AllocationPlan, Placement
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
    asked: AllocationRequest | None, site: Site, placements: Mapping[str, Placement], notes: Notes
) -> AllocationPlan | None:
    """The request, with all that was left out; None where the site has no scheduler. Notes what its queues refuse."""
    if site.scheduler is None:
        if asked is not None:
            notes.advise(f"{_AT} is not used: site {site.site} has no scheduler, and the run starts on this machine")
        return None
    request = asked or AllocationRequest()
    nodes = _nodes(request, placements.values(), notes)
    name, queue = _queue(request, site, notes)
    walltime_s = _walltime_s(request, nodes, name, queue, notes)
    _check_size(nodes, request, name, queue, notes)
    grace_s = _grace_s(request, walltime_s, notes)
    return AllocationPlan(
        scheduler=site.scheduler, nodes=nodes, walltime_s=walltime_s, queue=name, account=_account(request, site),
        partition=None if queue is None else queue.partition, qos=None if queue is None else queue.qos,
        reservation=request.reservation, constraints=_constraints(request, site), exclusive=request.exclusive,
        grace_s=grace_s, directives=[*site.submit.directives, *request.directives],
    )  # fmt: skip


def _nodes(request: AllocationRequest, placements: Iterable[Placement], notes: Notes) -> int:
    needed = max((end for placement in placements for _, end in placement.nodes), default=1)
    if request.nodes is None:
        notes.why(f"{_AT}.nodes", f"the stages need {needed}, and {request.spare_nodes} are spare")
        return needed + request.spare_nodes
    if request.nodes < needed + request.spare_nodes:
        spare = f" and {request.spare_nodes} more are to be spare" if request.spare_nodes else ""
        message = f"{plural(request.nodes, 'node')}, but the stages need {needed}{spare}"
        hint = f"leave it out, or write `nodes: {needed + request.spare_nodes}`"
        notes.problems.add(f"{_AT}.nodes", message, hint)
    return request.nodes


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


def _walltime_s(
    request: AllocationRequest, nodes: int, name: str | None, queue: SiteQueue | None, notes: Notes
) -> float:
    limit = None if queue is None else _limit_s(queue, nodes)
    if request.walltime is None:
        short = limit is not None and limit < DEFAULT_WALLTIME_S
        notes.why(f"{_AT}.walltime", f"the limit of queue {name}" if short else "the default")
        return min(DEFAULT_WALLTIME_S, limit or DEFAULT_WALLTIME_S)
    if limit is not None and request.walltime > limit:
        size = f" of {plural(nodes, 'node')}" if queue is not None and queue.limits else ""
        swallowed = ": it would drop the job without a word" if queue is not None and queue.routing else ""
        message = f"{_time(request.walltime)}, but queue {name} takes jobs{size} of at most {_time(limit)}{swallowed}"
        notes.problems.add(f"{_AT}.walltime", message, f"write `walltime: {_time(limit)}`, or another queue")
    return request.walltime


def _limit_s(queue: SiteQueue, nodes: int) -> float | None:
    """The longest that a job of so many nodes may run; None: not known."""
    of_size = [limit.walltime for limit in queue.limits if limit.nodes[0] <= nodes <= limit.nodes[1]]
    return min([*of_size, *([queue.walltime] if queue.walltime is not None else [])], default=None)


def _check_size(
    nodes: int, request: AllocationRequest, name: str | None, queue: SiteQueue | None, notes: Notes
) -> None:
    if queue is None or queue.nodes is None or queue.nodes[0] <= nodes <= queue.nodes[1]:
        return
    fewest, most = queue.nodes
    swallowed = ": it would drop the job without a word" if queue.routing else ""
    message = f"{plural(nodes, 'node')}, but queue {name} takes jobs of {fewest} to {most}{swallowed}"
    key = "nodes" if request.nodes is not None else "queue" if request.queue is not None else ""
    notes.problems.add(f"{_AT}.{key}".rstrip("."), message, "choose another queue: `queue: …`")


def _grace_s(request: AllocationRequest, walltime_s: float, notes: Notes) -> float:
    if request.grace is None:
        return min(DEFAULT_GRACE_S, LARGEST_GRACE * walltime_s)
    if request.grace >= walltime_s:
        message = f"{_time(request.grace)}, but the job ends after {_time(walltime_s)}: nothing is left for the stages"
        notes.problems.add(f"{_AT}.grace", message, "make it shorter, or `walltime` longer")
    return request.grace


def _account(request: AllocationRequest, site: Site) -> str | None:
    suffix = site.submit.account_suffix or ""
    if request.account is None or request.account.endswith(suffix):
        return request.account
    return request.account + suffix


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
