"""Whether a queue takes a job: nodes and walltime against the limits in the site's file. Pure.

A scheduler holds a job for ever that no node may run, and a routing queue of PBS drops a job without a word that none
of its queues takes.
"""

from __future__ import annotations

from collections.abc import Mapping

from workflow.errors import Problem, to_message
from workflow.formatting import duration, plural
from workflow.site.queue_model import SiteQueue
from workflow.spec.suggest import did_you_mean, listing


def queue_problems(
    queues: Mapping[str, SiteQueue], nodes: int, walltime_s: float | None, queue: str | None
) -> list[Problem]:
    """Why a job of so many nodes and that walltime does not run in `queue`; [] where it does, or nothing is known.

    Without `queue` it is the site's default, or any of its queues where no default is known. A queue that the file
    does not have is a warning: sites have more queues than their files.
    """
    if queue is not None and queue not in queues:
        if not queues:
            return []
        hint = did_you_mean(queue, queues) or f"queues in the site's file: {listing(queues)}"
        return [to_message("warning", f"the site's file has no queue `{queue}`: its limits are not checked", hint)]
    chosen = queue or next((name for name, each in queues.items() if each.default), None)
    fitting = [name for name, each in queues.items() if not misfit(each, nodes, walltime_s)]
    if not queues or chosen in fitting or (chosen is None and fitting):
        return []
    job = plural(nodes, "node") + (f" for {duration(walltime_s)}" if walltime_s is not None else "")
    if chosen is None:
        return [to_message("error", f"no queue takes {job}", _what_fits(queues, nodes, walltime_s))]
    fault = misfit(queues[chosen], nodes, walltime_s)
    end = " and drops other jobs without a message" if queues[chosen].routing else ""
    text = f"queue {chosen} does not take {job}: {fault}{end}"
    if fitting:
        return [
            to_message(
                "error", text, f"take {'one of ' if len(fitting) > 1 else ''}{listing(fitting)}: `queue: {fitting[0]}`"
            )
        ]
    return [to_message("error", text, _what_fits(queues, nodes, walltime_s))]


def misfit(queue: SiteQueue, nodes: int, walltime_s: float | None) -> str:
    """Why a queue does not take a job; empty where it does, as far as its limits are known."""
    if queue.nodes is not None and not queue.nodes[0] <= nodes <= queue.nodes[1]:
        return f"it takes {queue.nodes[0]} to {plural(queue.nodes[1], 'node')}"
    if walltime_s is None:
        return ""
    if queue.min_walltime is not None and walltime_s < queue.min_walltime:
        return f"it takes {duration(queue.min_walltime)} at least"
    longest = longest_walltime_s(queue, nodes)
    if longest == 0:
        return f"it takes no job of {plural(nodes, 'node')}"
    if longest is not None and walltime_s > longest:
        return f"it takes {plural(nodes, 'node')} for {duration(longest)} at most"
    return ""


def longest_walltime_s(queue: SiteQueue, nodes: int) -> float | None:
    """The longest that a job of so many nodes may run in a queue; 0: not at all, None: not known.

    Every limit on jobs of this size holds. A routing queue passes a job on to whichever of its queues takes it.
    """
    own = [limit.walltime for limit in queue.limits if limit.nodes[0] <= nodes <= limit.nodes[1]]
    if queue.routing and queue.limits:
        longest = max(own, default=0.0)
        return longest if queue.walltime is None else min(longest, queue.walltime)
    return min([*own, *([] if queue.walltime is None else [queue.walltime])], default=None)


def _what_fits(queues: Mapping[str, SiteQueue], nodes: int, walltime_s: float | None) -> str:
    """What may be asked for instead: the longest job of this size, and the sizes that there are."""
    times = {
        name: longest
        for name, each in queues.items()
        if not misfit(each, nodes, None) and (longest := longest_walltime_s(each, nodes))
    }
    if times and walltime_s is not None:
        name = max(times, key=lambda each: times[each])
        if times[name] < walltime_s:
            return f"ask for {duration(times[name])} at most: `queue: {name}` takes {plural(nodes, 'node')} so long"
    sizes = [f"{name} {each.nodes[0]} to {each.nodes[1]}" for name, each in queues.items() if each.nodes is not None]
    return f"nodes that the queues take: {listing(sizes)}" if sizes else "ask for fewer nodes or less time"
