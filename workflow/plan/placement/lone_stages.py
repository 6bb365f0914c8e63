"""Advice on stages that have a node each but would fit on one, which would need a smaller job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workflow.formatting import plural
from workflow.plan.placement.nodes import Demand, Overlap, Range
from workflow.plan.plan_notes import Notes
from workflow.site.site_model import Site
from workflow.spec.models.pipeline import StagePlace


@dataclass
class _Lone:
    """A stage that is the only one on its node, with the guests that have no cores of their own. `guests`: stages that
    would fit beside it."""

    home: str
    node: Range
    cores: int
    gpus: int
    is_chosen: bool
    stages: int
    overlaps: int
    guests: list[str] = field(default_factory=list)

    def meets(self, other: _Lone) -> bool:
        """Whether both hold a node of their own at the same time."""
        return self.node != other.node and bool(self.overlaps & other.stages)

    def has_room_for(self, other: _Lone, site: Site) -> bool:
        return self.cores + other.cores <= len(site.usable_cores) and self.gpus + other.gpus <= site.gpus_per_node


def advise_sharing(
    demands: Iterable[Demand],
    wishes: Mapping[str, StagePlace],
    ranges: Mapping[str, Range],
    overlap: Overlap,
    site: Site,
    notes: Notes,
) -> None:
    """Notes stages that would fit beside another one, on sites whose jobs have whole nodes, and where `place:` does not
    choose their nodes."""
    if site.scheduler is None or site.nodes == 1:
        return
    hosts: list[_Lone] = []
    for lone in _lone_stages(demands, wishes, ranges, overlap):
        host = next((each for each in hosts if each.meets(lone) and each.has_room_for(lone, site)), None)
        if host is None or lone.is_chosen:
            hosts.append(lone)
            continue
        host.guests.append(lone.home)
        host.cores, host.gpus = host.cores + lone.cores, host.gpus + lone.gpus
        host.stages, host.overlaps = host.stages | lone.stages, host.overlaps | lone.overlaps
    for host in hosts:
        if host.guests:
            notes.advise(_text(host, site))


def _text(host: _Lone, site: Site) -> str:
    guests = host.guests
    have = "it has a node of its own" if len(guests) == 1 else f"{', '.join(guests)} have a node each"
    return (
        f"stages.{guests[0]}: {have}, and would fit beside {host.home}: together {host.cores} of the "
        f"{plural(len(site.usable_cores), 'core')} of a node. `place: {{share: {host.home}}}` saves "
        f"{plural(len(guests), 'node')}; stages on one node share its memory bandwidth and its network"
    )


def _lone_stages(
    demands: Iterable[Demand], wishes: Mapping[str, StagePlace], ranges: Mapping[str, Range], overlap: Overlap
) -> list[_Lone]:
    """Those with cores of their own, on one node."""
    found: dict[str, _Lone] = {}
    for each in demands:
        place, (start, end) = wishes[each.home], ranges[each.home]
        if end - start != 1:
            continue
        chosen = place.nodes is not None or place.ranks_per_node is not None or place.share is not None
        lone = found.setdefault(each.home, _Lone(each.home, (start, end), 0, 0, chosen, 0, 0))
        lone.cores += each.ranks * each.cores_per_rank
        lone.gpus += each.ranks * each.gpus_per_rank
        lone.stages |= 1 << each.position
        lone.overlaps |= overlap[each.name]
    return list(found.values())
