"""Which nodes each stage gets: the site's only one, nodes of its own, or those of the stage it shares with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from workflow.plan.making import Making, counted
from workflow.plan.plan_model import Placement
from workflow.site.site_model import Site

OVERSUBSCRIBE = "`--set oversubscribe=true`"
Overlap = Mapping[str, int]  # stage → bit set of the positions of stages that may run at the same time
Range = tuple[int, int]  # half open


@dataclass(frozen=True)
class Demand:
    """What one stage asks for. `home` is the stage whose nodes it uses: its own name, or that of its host."""

    name: str
    position: int
    ranks: int
    cores_per_rank: int
    nodes: int | None
    home: str

    def nodes_on(self, site: Site) -> int:
        """How many nodes: as written, or the fewest that fit."""
        if self.nodes is not None:
            return self.nodes
        ranks_that_fit = max(1, site.cores_per_node // max(1, self.cores_per_rank))
        return math.ceil(self.ranks / ranks_that_fit)


def find_homes(cores_per_rank: Mapping[str, int], feeders: Mapping[str, str], making: Making) -> dict[str, str]:
    """Stage → the stage whose nodes it uses.

    A stage without cores of its own (a sink) sits beside the stage that it reads from (`feeders`).
    """
    stages = making.loaded.spec.stages
    beside: dict[str, str] = {}
    for name, stage in stages.items():
        share = stage.place.share
        if share is not None:
            beside[name] = share
        elif cores_per_rank[name] == 0 and stage.place.nodes is None and name in feeders:
            beside[name] = feeders[name]
    homes = {name: _end_of_chain(name, beside, making) for name in stages}
    return homes if making.site.nodes > 1 else {name: name for name in stages}


def _end_of_chain(name: str, beside: Mapping[str, str], making: Making) -> str:
    chain = [name]
    while chain[-1] in beside:
        if beside[chain[-1]] in chain:
            circle = chain[chain.index(beside[chain[-1]]) :]
            if name == min(circle, key=list(beside).index):  # one message for all of them
                arrows = " → ".join([*chain, beside[chain[-1]]])
                making.problems.add(
                    f"stages.{name}.place.share",
                    f"{arrows}: none of these stages has nodes of its own",
                    "remove one `share`",
                )
            return name
        chain.append(beside[chain[-1]])
    return chain[-1]


def place_nodes(demands: list[Demand], overlap: Overlap, making: Making) -> tuple[dict[str, Range], set[str]]:
    """Stage → node range: the lowest nodes not used at the same time; guests are on their host's nodes.

    Also returns the homes that had to be put on nodes in use (only with `oversubscribe: true`).
    """
    bits, overlaps = (
        dict.fromkeys((each.home for each in demands), 0),
        dict.fromkeys((each.home for each in demands), 0),
    )
    for each in demands:
        bits[each.home] |= 1 << each.position
        overlaps[each.home] |= overlap[each.name]
    ranges: dict[str, Range] = {}
    squeezed: set[str] = set()
    for demand in demands:
        _check_count(demand, making)
        if making.site.nodes == 1:
            ranges[demand.name] = 0, 1
        elif demand.home == demand.name:
            count = min(demand.nodes_on(making.site), demand.ranks, making.site.nodes)
            taken = {other: used for other, used in ranges.items() if overlaps[demand.name] & bits[other]}
            gap = _first_gap(count, list(taken.values()), making.site)
            if gap is None:
                squeezed |= {demand.name, *taken}
                _no_gap(demand, count, list(taken.values()), making)
            ranges[demand.name] = gap or (0, count)
    for demand in demands:
        if demand.name not in ranges:
            ranges[demand.name] = _guest(demand, ranges[demand.home], making)
    return ranges, squeezed


def _check_count(demand: Demand, making: Making) -> None:
    site, count = making.site, demand.nodes_on(making.site)
    key = f"stages.{demand.name}"
    if demand.nodes is not None and demand.nodes > demand.ranks:
        making.problems.add(
            f"{key}.place.nodes",
            f"{counted(demand.nodes, 'node')} for {counted(demand.ranks, 'rank')}",
            "give at least one rank per node",
        )
    if demand.nodes is not None and demand.nodes > site.nodes:
        making.problems.add(
            f"{key}.place.nodes",
            f"site {site.site} has {counted(site.nodes, 'node')}, not {demand.nodes}",
            f"give at most {site.nodes}, or another `site:`",
        )
    elif count > site.nodes > 1 and not making.loaded.spec.oversubscribe:
        total = demand.ranks * demand.cores_per_rank
        making.problems.add(
            f"{key}.ranks",
            f"{counted(demand.ranks, 'rank')} × {counted(demand.cores_per_rank, 'core')} = {total} cores, "
            f"site {site.site} has {site.nodes} nodes × {site.cores_per_node} cores = "
            f"{site.nodes * site.cores_per_node}",
            f"use fewer ranks, or {OVERSUBSCRIBE}",
        )


def _first_gap(count: int, taken: list[Range], site: Site) -> Range | None:
    start = 0
    for first, end in sorted(taken):
        if start + count <= first:
            break
        start = max(start, end)
    return (start, start + count) if start + count <= site.nodes else None


def _no_gap(demand: Demand, count: int, taken: list[Range], making: Making) -> None:
    used, site = sum(end - first for first, end in taken), making.site
    if making.loaded.spec.oversubscribe:
        making.notes.advise(
            f"stage {demand.name} is on nodes that other stages use at the same time: they slow each other down"
        )
        return
    making.problems.add(
        f"stages.{demand.name}.place",
        f"needs {counted(count, 'node')} of its own, but stages that run at the same time have {used} "
        f"of the {site.nodes} nodes of site {site.site}",
        f"use fewer ranks, `place: {{share: STAGE}}`, or {OVERSUBSCRIBE}",
    )


def _guest(demand: Demand, host: Range, making: Making) -> Range:
    start, end = host
    wanted = demand.nodes or min(end - start, demand.ranks)
    if wanted > end - start:
        making.problems.add(
            f"stages.{demand.name}.place.nodes",
            f"{demand.home} has {counted(end - start, 'node')} to share, not {wanted}",
            f"give at most {end - start}",
        )
    return start, min(end, start + wanted)


def node_count(placement: Placement) -> int:
    """Nodes of a stage."""
    return sum(end - start for start, end in placement.nodes)
