"""Which nodes and cores each stage gets. Time and memory depend on the number of stages, not of ranks.

Stages that may run at the same time on the same nodes get different cores; stages that cannot (one waits
for the other's end) may get the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from workflow.plan.making import Making, counted
from workflow.plan.placement.nodes import OVERSUBSCRIBE, Demand, Overlap, Range, find_homes, place_nodes
from workflow.plan.plan_model import Placement


def place_stages(
    default_cores: Mapping[str, int], feeders: Mapping[str, str], overlap: Overlap, making: Making
) -> dict[str, Placement]:
    """The placement of every stage.

    `default_cores` is a stage's cores per rank where the file says nothing; `feeders` names for a reading
    stage the stage that it reads from. Notes more ranks than cores, with the sum, unless the pipeline
    says `oversubscribe: true`.
    """
    stages = making.loaded.spec.stages
    cores = {
        name: default_cores[name] if stage.place.cores_per_rank is None else stage.place.cores_per_rank
        for name, stage in stages.items()
    }
    homes = find_homes(cores, feeders, making)
    demands = [
        Demand(name, position, stage.ranks, cores[name], stage.place.nodes, homes[name])
        for position, (name, stage) in enumerate(stages.items())
    ]
    ranges, squeezed = place_nodes(demands, overlap, making)
    chosen, crowded = _choose_cores(demands, ranges, overlap, making)
    crowded |= squeezed
    placed = {}
    for each in demands:
        bound = [] if _group(each, making) in crowded else chosen[each.name]
        placed[each.name] = Placement(
            nodes=[ranges[each.name]],
            ranks_per_node=_ranks_per_node(each, ranges),
            cores=bound,
            cores_per_rank=each.cores_per_rank,
        )
        _note(each, placed[each.name], making)
    return placed


def _group(demand: Demand, making: Making) -> str:
    """Stages of one group use the same nodes."""
    return demand.home if making.site.nodes > 1 else ""


def _ranks_per_node(demand: Demand, ranges: Mapping[str, Range]) -> int:
    start, end = ranges[demand.name]
    return math.ceil(demand.ranks / (end - start))


def _choose_cores(
    demands: list[Demand], ranges: Mapping[str, Range], overlap: Overlap, making: Making
) -> tuple[dict[str, list[int]], set[str]]:
    """The lowest cores that no stage on the same nodes uses at the same time, and the groups that do not fit."""
    chosen: dict[str, list[int]] = {}
    crowded: set[str] = set()
    groups: dict[str, list[Demand]] = {}
    for demand in sorted(demands, key=lambda each: each.home != each.name):  # hosts before their guests
        group = groups.setdefault(_group(demand, making), [])
        beside = [each for each in group if overlap[demand.name] >> each.position & 1]
        used = {core for each in beside for core in chosen[each.name]}
        free = [core for core in range(making.site.cores_per_node) if core not in used]
        needed = _ranks_per_node(demand, ranges) * demand.cores_per_rank
        chosen[demand.name] = free[:needed]
        if needed > len(free) and _group(demand, making) not in crowded:
            crowded.add(_group(demand, making))
            _crowded([*(each for each in beside if each.cores_per_rank), demand], ranges, making)
        group.append(demand)
    return chosen, crowded


def _crowded(together: list[Demand], ranges: Mapping[str, Range], making: Making) -> None:
    """More ranks than cores: a mistake with its sum, or advice where the file allows it."""
    site = making.site
    ranks = {each.name: _ranks_per_node(each, ranges) for each in together}
    total = sum(ranks[each.name] * each.cores_per_rank for each in together)
    has = f"site {site.site} has {site.cores_per_node}" + (" on a node" if site.nodes > 1 else "")
    shares = ", ".join(
        f"{each.name} {counted(ranks[each.name], 'rank')} × {counted(each.cores_per_rank, 'core')}" for each in together
    )
    if making.loaded.spec.oversubscribe:
        making.notes.advise(f"{total} cores are asked for and {has} ({shares}): these stages slow each other down")
        return
    biggest = max(together, key=lambda each: ranks[each.name] * each.cores_per_rank)
    hint, ranks_key = f"let them share with {OVERSUBSCRIBE}", f"stages.{biggest.name}.ranks"
    if biggest.ranks > 1:
        hint += f", or use fewer ranks: `--set {making.problems.written(ranks_key)}=N`"
    if biggest.cores_per_rank > 1:
        cores_key = making.problems.written(f"stages.{biggest.name}.place.cores_per_rank")
        hint += f", or fewer cores: `--set {cores_key}=N`"
    making.problems.add(ranks_key, f"{total} cores are needed at the same time, {has}: {shares}", hint)


def _note(demand: Demand, placement: Placement, making: Making) -> None:
    key, site = f"stages.{demand.name}", making.site
    if placement.cores:
        ranks, cores = counted(placement.ranks_per_node, "rank"), counted(demand.cores_per_rank, "core")
        where = "" if site.nodes == 1 else " on each node"
        making.notes.why(f"{key}.cores", f"{ranks} × {cores}{where}, which no other stage uses meanwhile")
    elif demand.cores_per_rank == 0:
        making.notes.why(f"{key}.cores", "cores_per_rank is 0: no core of its own, runs where there is room")
    else:
        making.notes.why(f"{key}.cores", "not bound: more ranks than cores on these nodes, as oversubscribe allows")
    if site.nodes > 1:
        start, end = placement.nodes[0]
        where = "of its own" if demand.home == demand.name else f"shared with {demand.home}"
        making.notes.why(
            f"{key}.nodes", f"{counted(end - start, 'node')} {where}, {placement.ranks_per_node} ranks on each"
        )
