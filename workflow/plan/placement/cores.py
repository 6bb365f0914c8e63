"""Which nodes and cores each stage gets. Time and memory depend on the number of stages, not of ranks.

Stages that may run at the same time on the same nodes get different cores; stages that cannot (one waits
for the other's end) may get the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from workflow.formatting import plural
from workflow.plan.placement.nodes import OVERSUBSCRIBE, Demand, Overlap, Range, find_homes, place_nodes
from workflow.plan.plan_model import Placement
from workflow.plan.plan_notes import Notes
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.port_matching import JoinedStream
from workflow.plan.topology.stage_kinds import StageKind
from workflow.plan.topology.start_dependencies import may_overlap
from workflow.site.site_model import Site


def place_stages(
    stages: Mapping[str, DeclaredStage],
    kinds: Mapping[str, StageKind],
    streams: Iterable[JoinedStream],
    waits: Mapping[str, list[str]],
    site: Site,
    oversubscribe: bool,
    notes: Notes,
) -> dict[str, Placement]:
    """The placement of every stage.

    `waits` names the stages that end before a stage starts, whose cores it may use. Notes more ranks than cores, with
    the sum, unless the pipeline says `oversubscribe: true`.
    """
    overlap = may_overlap(list(stages), waits)
    cores = {
        name: int(kinds[name] != "sink") if stage.spec.place.cores_per_rank is None else stage.spec.place.cores_per_rank
        for name, stage in stages.items()
    }
    homes = find_homes(stages, cores, _feeders(streams), site, notes.problems)
    demands = [
        Demand(name, position, stage.spec.ranks, cores[name], stage.spec.place.nodes, homes[name])
        for position, (name, stage) in enumerate(stages.items())
    ]
    ranges, squeezed = place_nodes(demands, overlap, site, oversubscribe, notes)
    chosen, crowded = _choose_cores(demands, ranges, overlap, site, oversubscribe, notes)
    crowded |= squeezed
    placed = {}
    for each in demands:
        bound = [] if _group(each, site) in crowded else chosen[each.name]
        placed[each.name] = Placement(
            nodes=[ranges[each.name]],
            ranks_per_node=_ranks_per_node(each, ranges),
            cores=bound,
            cores_per_rank=each.cores_per_rank,
        )
        _note(each, placed[each.name], site, notes)
    return placed


def _feeders(streams: Iterable[JoinedStream]) -> dict[str, str]:
    """Reading stage → the stage that it reads from, the first one where there are several."""
    found: dict[str, str] = {}
    for stream in streams:
        for port in stream.readers if stream.writer is not None else []:
            found.setdefault(port.stage, stream.ports[0].stage)
    return found


def _group(demand: Demand, site: Site) -> str:
    """Stages of one group use the same nodes."""
    return demand.home if site.nodes > 1 else ""


def _ranks_per_node(demand: Demand, ranges: Mapping[str, Range]) -> int:
    start, end = ranges[demand.name]
    return math.ceil(demand.ranks / (end - start))


def _choose_cores(
    demands: list[Demand],
    ranges: Mapping[str, Range],
    overlap: Overlap,
    site: Site,
    oversubscribe: bool,
    notes: Notes,
) -> tuple[dict[str, list[int]], set[str]]:
    """The lowest cores that no stage on the same nodes uses at the same time, and the groups that do not fit."""
    chosen: dict[str, list[int]] = {}
    crowded: set[str] = set()
    groups: dict[str, list[Demand]] = {}
    for demand in sorted(demands, key=lambda each: each.home != each.name):  # hosts before their guests
        group = groups.setdefault(_group(demand, site), [])
        beside = [each for each in group if overlap[demand.name] >> each.position & 1]
        used = {core for each in beside for core in chosen[each.name]}
        free = [core for core in range(site.cores_per_node) if core not in used]
        needed = _ranks_per_node(demand, ranges) * demand.cores_per_rank
        chosen[demand.name] = free[:needed]
        if needed > len(free) and _group(demand, site) not in crowded:
            crowded.add(_group(demand, site))
            together = [*(each for each in beside if each.cores_per_rank), demand]
            _note_too_few_cores(together, ranges, site, oversubscribe, notes)
        group.append(demand)
    return chosen, crowded


def _note_too_few_cores(
    together: list[Demand], ranges: Mapping[str, Range], site: Site, oversubscribe: bool, notes: Notes
) -> None:
    """More ranks than cores: a mistake with its sum, or advice where the file allows it."""
    ranks = {each.name: _ranks_per_node(each, ranges) for each in together}
    total = sum(ranks[each.name] * each.cores_per_rank for each in together)
    has = f"site {site.site} has {site.cores_per_node}" + (" on a node" if site.nodes > 1 else "")
    shares = ", ".join(
        f"{each.name} {plural(ranks[each.name], 'rank')} × {plural(each.cores_per_rank, 'core')}" for each in together
    )
    if oversubscribe:
        notes.advise(f"{total} cores are asked for and {has} ({shares}): these stages slow each other down")
        return
    biggest = max(together, key=lambda each: ranks[each.name] * each.cores_per_rank)
    hint, ranks_key = f"let them share with {OVERSUBSCRIBE}", f"stages.{biggest.name}.ranks"
    if biggest.ranks > 1:
        hint += f", or use fewer ranks: `--set {notes.problems.written(ranks_key)}=N`"
    if biggest.cores_per_rank > 1:
        cores_key = notes.problems.written(f"stages.{biggest.name}.place.cores_per_rank")
        hint += f", or fewer cores: `--set {cores_key}=N`"
    notes.problems.add(ranks_key, f"{total} cores are needed at the same time, {has}: {shares}", hint)


def _note(demand: Demand, placement: Placement, site: Site, notes: Notes) -> None:
    key = f"stages.{demand.name}"
    if placement.cores:
        ranks, cores = plural(placement.ranks_per_node, "rank"), plural(demand.cores_per_rank, "core")
        where = "" if site.nodes == 1 else " on each node"
        notes.why(f"{key}.cores", f"{ranks} × {cores}{where}, which no other stage uses meanwhile")
    elif demand.cores_per_rank == 0:
        notes.why(f"{key}.cores", "cores_per_rank is 0: no core of its own, runs where there is room")
    else:
        notes.why(f"{key}.cores", "not bound: more ranks than cores on these nodes, as oversubscribe allows")
    if site.nodes > 1:
        start, end = placement.nodes[0]
        where = "of its own" if demand.home == demand.name else f"shared with {demand.home}"
        notes.why(
            f"{key}.nodes", f"{plural(end - start, 'node')} {where}, {plural(placement.ranks_per_node, 'rank')} on each"
        )
