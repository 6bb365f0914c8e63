"""A campaign packed into the pilots that it has: how many run at once, for how long, on how many nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from workflow.campaign.planning.estimated_duration import EstimatedDurations
from workflow.campaign.planning.free_nodes import Footprint
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.campaign.planning.simulated_packing import PilotSize, Timeline, simulate
from workflow.campaign.planning.trial_requests import all_requests, footprint_of

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


@dataclass(frozen=True)
class PackedCampaign:
    """All repetitions of a campaign, as they would run from the beginning."""

    pilots: PilotsOfCampaign
    timeline: Timeline
    node_s: float
    """What it costs; where repetitions run side by side, idle nodes included."""
    known_by: KnownBy
    """Where the estimates are from; measured: at least those of one trial."""
    most_if_shared: int
    """How many would run at once if they shared nodes."""


def pack_campaign(planned: PlannedCampaign, estimates: EstimatedDurations, pilots: PilotsOfCampaign) -> PackedCampaign:
    """The campaign on pilots of which each is replaced when it ends."""
    size, count = pilots.size, 1 if pilots.one_at_a_time else pilots.count
    requests = all_requests(planned, estimates, share_nodes=pilots.share_nodes)
    node_s = sum(each.nodes * each.expected_s for each in requests)
    if pilots.one_at_a_time:
        requests = [replace(each, nodes=size.nodes, cores_per_node=None) for each in requests]
    timeline = simulate(requests, [size] * count)
    known_by: KnownBy = "measured" if estimates.any_measured else "expected"
    if planned.spec.expected is None and known_by == "expected":
        known_by = "deadline"
    shared = {footprint_of(trial.plan, share_nodes=True) for trial in planned.ready}
    return PackedCampaign(
        pilots=pilots,
        timeline=timeline,
        node_s=timeline.pilot_node_s if timeline.most_at_once > 1 or pilots.in_jobs else node_s,
        known_by=known_by,
        most_if_shared=min(len(requests), count * most_at_once(shared, size.nodes, len(size.cores))),
    )


def most_at_once(footprints: Iterable[Footprint], nodes: int, cores: int) -> int:
    """How many repetitions have room at the same time on so many nodes, if all are of the smallest footprint."""
    return max((_room_for(each, nodes, cores) for each in footprints), default=0)


def _room_for(footprint: Footprint, nodes: int, cores: int) -> int:
    on_each = 1 if footprint.cores_per_node is None else cores // footprint.cores_per_node
    return nodes // footprint.nodes * on_each
