"""The size of a campaign on its pilots: how many repetitions run at once, for how long, on how many nodes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from workflow.campaign.ledger import Repetition
from workflow.campaign.planning.estimated_duration import EstimatedDurations
from workflow.campaign.planning.free_nodes import Footprint
from workflow.campaign.planning.job_allocation import pilot_allocation
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.campaign.planning.simulated_packing import PilotSize, Timeline, simulate
from workflow.campaign.planning.trial_requests import all_requests, footprint_of
from workflow.launch.allocation import Allocation
from workflow.site.site_model import Site

KnownBy = Literal["measured", "expected", "deadline"]


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
class PackedCampaign:
    """The repetitions of a campaign that are not finished, as they would run from now on."""

    pilots: PilotsOfCampaign
    timeline: Timeline
    node_s: float
    """What it costs; where repetitions run side by side, idle nodes included."""
    known_by: KnownBy
    """Where the estimates are from; measured: at least those of one trial."""
    most_if_shared: int
    """How many would run at once if they shared nodes."""
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


def pack_campaign(
    planned: PlannedCampaign,
    estimates: EstimatedDurations,
    pilots: PilotsOfCampaign,
    finished: Collection[Repetition] = (),
) -> PackedCampaign:
    """The campaign, without what is finished, on pilots of which each is replaced when it ends."""
    size, count = pilots.size, 1 if pilots.one_at_a_time else pilots.count
    todo = [each for each in planned.repetitions if each not in finished]
    requests = all_requests(planned, todo, estimates, share_nodes=pilots.share_nodes)
    known_by = _known_by(planned, estimates)
    if known_by == "deadline":
        # A guess is no reason not to try.
        requests = [replace(each, expected_s=min(each.expected_s, size.time_s / 2)) for each in requests]
    node_s = sum(each.nodes * each.expected_s for each in requests)
    if pilots.one_at_a_time:
        requests = [replace(each, nodes=size.nodes, cores_per_node=None) for each in requests]
    timeline = simulate(requests, [size] * count)
    idle_counts = (timeline.most_at_once > 1 or pilots.in_jobs) and not pilots.job_each
    shared = {footprint_of(trial.plan, share_nodes=True) for trial in planned.ready}
    return PackedCampaign(
        pilots=pilots,
        timeline=timeline,
        node_s=timeline.pilot_node_s if idle_counts else node_s,
        known_by=known_by,
        most_if_shared=min(len(requests), count * most_at_once(shared, size.nodes, len(size.cores))),
        finished=len(finished),
        left=len(requests),
    )


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
