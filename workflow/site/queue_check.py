"""Whether a queue takes a job: nodes and walltime against the limits in the site's file. Pure.

A scheduler holds a job for ever that no node may run, and a routing queue of PBS drops a job without a word that none
of its queues takes.
"""

from __future__ import annotations

from collections.abc import Mapping

from workflow.formatting import duration, plural
from workflow.site.queue_model import SiteQueue
from workflow.site.site_model import Site


def fitting_queues(queues: Mapping[str, SiteQueue], nodes: int, walltime_s: float | None) -> list[str]:
    """The queues that take a job, as far as their limits are known; those first that are the default."""
    fitting = [name for name, queue in queues.items() if not misfit(queue, nodes, walltime_s)]
    return sorted(fitting, key=lambda name: not queues[name].default)


def misfit(queue: SiteQueue, nodes: int, walltime_s: float | None) -> str:
    """Why a queue does not take a job; empty where it does, as far as its limits are known."""
    if queue.nodes is not None and not queue.nodes[0] <= nodes <= queue.nodes[1]:
        return f"takes jobs of {queue.nodes[0]} to {plural(queue.nodes[1], 'node')}"
    longest = longest_walltime_s(queue, nodes)
    if longest == 0:
        return f"takes no job of {plural(nodes, 'node')}"
    if walltime_s is not None and queue.min_walltime is not None and walltime_s < queue.min_walltime:
        return f"takes jobs of at least {duration(queue.min_walltime)}"
    if walltime_s is not None and longest is not None and walltime_s > longest:
        return f"takes jobs of {plural(nodes, 'node')} for at most {duration(longest)}"
    return ""


def largest_job(site: Site) -> int:
    """The most nodes that a job may have, as far as the limits of the queues are known."""
    bounds = [queue.nodes for queue in site.queues.values()]
    known = [each[1] for each in bounds if each is not None]
    return min(site.nodes, max(known)) if known and len(known) == len(bounds) else site.nodes


def longest_walltime_s(queue: SiteQueue, nodes: int) -> float | None:
    """The longest that a job of so many nodes may run in a queue; 0: not at all, None: not known.

    Every limit on jobs of this size holds. A routing queue passes a job on to whichever of its queues takes it.
    """
    own = [limit.walltime for limit in queue.limits if limit.nodes[0] <= nodes <= limit.nodes[1]]
    if queue.routing and queue.limits:
        longest = max(own, default=0.0)
        return longest if queue.walltime is None else min(longest, queue.walltime)
    return min([*own, *([] if queue.walltime is None else [queue.walltime])], default=None)
