"""The size of a campaign on its pilots: how many repetitions run at once, how long they take, what they cost. Pure.

Sums of what is expected of each repetition. Where they run side by side the sums are bounds: how well repetitions of
different sizes fit together on the nodes shows when they run.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from workflow.campaign.ledger import Repetition
from workflow.campaign.planning.free_nodes import Footprint
from workflow.campaign.planning.job_allocation import pilot_allocation
from workflow.campaign.planning.packing import Request
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.campaign.planning.trial_requests import EstimatedDurations, all_requests, footprint_of
from workflow.launch.allocation import Allocation
from workflow.site.site_model import Site

KnownBy = Literal["measured", "expected", "deadline"]


@dataclass(frozen=True)
class PilotSize:
    """What pilots are alike in: nodes, their usable cores, and for how long."""

    nodes: int
    cores: tuple[int, ...]
    time_s: float = math.inf


@dataclass(frozen=True)
class PilotsOfCampaign:
    """Where the repetitions of a campaign run, and what each has there for itself."""

    size: PilotSize
    """The nodes that are here, or those of each job."""
    count: int = 1
    """Pilots at the same time, at most."""
    in_jobs: bool = False
    """Whether the pilots are batch jobs that are still to be submitted."""
    share_nodes: bool = False
    """Whether a repetition has only cores for itself."""
    one_at_a_time: bool = False
    """Whether each waits for the one before it, whatever room there is."""
    job_each: bool = False
    """Whether each repetition is a job of its own."""


@dataclass(frozen=True)
class CampaignSize:
    """What the repetitions of a campaign that are not finished need from now on."""

    pilots: PilotsOfCampaign
    at_once: int
    """How many run at the same time, at most."""
    time_s: float
    """Of all, without the time in the queue. More than one at once: they take at least so long."""
    node_s: float
    """What all cost, in seconds of a node. More than one at once: at least, with no node ever idle."""
    known_by: KnownBy
    """Where the estimates are from; measured: at least those of one trial."""
    most_if_shared: int
    """How many would run at once if they shared nodes."""
    never: int = 0
    """Repetitions that no pilot has room or time for."""
    finished: int = 0
    """Repetitions that need not run."""
    left: int = 0


def needs_jobs(planned: PlannedCampaign, allocation: Allocation) -> bool:
    """Whether the repetitions cannot run where this process is: on the login node of a site with a scheduler."""
    return allocation.source == "local" and any(trial.plan.allocation is not None for trial in planned.ready)


def pilots_of(planned: PlannedCampaign, allocation: Allocation, site: Site, *, all_cores: bool) -> PilotsOfCampaign:
    """The nodes on which a campaign runs that is started in `allocation`; it has a trial that can run.

    `all_cores`: whether this process may use all cores of its machine. Where it may not, repetitions on part of a node
    would count its cores differently, and have nodes for themselves.

    Raises:
        SpecError: the queues of the site do not take such jobs, with places in the campaign file.
    """
    spec = planned.spec
    alone, share = spec.side_by_side == "no", spec.side_by_side == "cores"
    job = pilot_allocation(planned, site) if needs_jobs(planned, allocation) else None
    if job is None:
        size = PilotSize(len(allocation.hosts), site.usable_cores)
        return PilotsOfCampaign(size, share_nodes=share and all_cores, one_at_a_time=alone)
    return PilotsOfCampaign(
        PilotSize(job.nodes, site.usable_cores, job.walltime_s - job.grace_s),
        spec.jobs.count,
        in_jobs=True,
        share_nodes=share and job.exclusive,
        one_at_a_time=alone,
        job_each=spec.jobs.mode == "each",
    )


def size_campaign(
    planned: PlannedCampaign,
    estimates: EstimatedDurations,
    pilots: PilotsOfCampaign,
    finished: Collection[Repetition] = (),
    asked: Sequence[Repetition] | None = None,
) -> CampaignSize:
    """The size of a campaign, without what is finished. `asked`: the repetitions that it asks for, by default all."""
    nodes, cores = pilots.size.nodes, len(pilots.size.cores)
    todo = [each for each in (planned.repetitions if asked is None else asked) if each not in finished]
    requests = all_requests(planned, todo, estimates, share_nodes=pilots.share_nodes)
    known_by = _known_by(planned, estimates)
    longest_s = math.inf if known_by == "deadline" else pilots.size.time_s  # a guess is no reason not to try
    fitting = [each for each in requests if _room_for(each.footprint, nodes, cores) and each.expected_s <= longest_s]
    at_once = 1
    if not pilots.one_at_a_time:
        at_once = min(len(requests), pilots.count * most_at_once({each.footprint for each in fitting}, nodes, cores))
    total_s = math.fsum(each.expected_s for each in fitting)
    if pilots.job_each:
        time_s, node_s = total_s, math.fsum(each.nodes * each.expected_s for each in requests)
    elif at_once > 1:
        node_s = math.fsum(each.nodes * _part_of_node(each, cores) * each.expected_s for each in fitting)
        time_s = max(node_s / (pilots.count * nodes), *(each.expected_s for each in fitting))
    else:
        # The nodes of a job cost whether they are used or not.
        time_s = total_s
        node_s = math.fsum((nodes if pilots.in_jobs else each.nodes) * each.expected_s for each in fitting)
    shared = {footprint_of(trial.plan, share_nodes=True) for trial in planned.ready}
    count = 1 if pilots.one_at_a_time else pilots.count
    return CampaignSize(
        pilots=pilots,
        at_once=at_once,
        time_s=time_s,
        node_s=node_s,
        known_by=known_by,
        most_if_shared=min(len(requests), count * most_at_once(shared, nodes, cores)),
        never=len(requests) - len(fitting),
        finished=len(finished),
        left=len(requests),
    )


def _part_of_node(request: Request, cores: int) -> float:
    return 1.0 if request.cores_per_node is None else request.cores_per_node / cores


def _known_by(planned: PlannedCampaign, estimates: EstimatedDurations) -> KnownBy:
    if estimates.any_measured:
        return "measured"
    return "deadline" if planned.spec.expected is None else "expected"


def most_at_once(footprints: Iterable[Footprint], nodes: int, cores: int) -> int:
    """How many repetitions have room at the same time on so many nodes, if all are of the smallest footprint."""
    return max((_room_for(each, nodes, cores) for each in footprints), default=0)


def _room_for(footprint: Footprint, nodes: int, cores: int) -> int:
    on_each = 1 if footprint.cores_per_node is None else cores // footprint.cores_per_node
    return nodes // footprint.nodes * on_each
