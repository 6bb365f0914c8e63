"""Which nodes and cores each stage gets. Time and memory depend on the number of stages, not of ranks.

Stages that may run at the same time on the same nodes get different cores; stages that cannot (one waits
for the other's end) may get the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from workflow.formatting import plural
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.placement.lone_stages import advise_sharing
from workflow.plan.placement.nodes import OVERSUBSCRIBE, Demand, Overlap, Range, fewer_at_once, find_homes, place_nodes
from workflow.plan.placement.rank_cores import Bound, bind_ranks, check_devices, choose_nics
from workflow.plan.plan_model import Placement
from workflow.plan.plan_notes import Notes
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream, StageKind
from workflow.plan.topology.start_dependencies import may_overlap
from workflow.site.site_model import Site, largest_job
from workflow.spec.models.pipeline import StagePlace

# In a message on stages for which there are too few cores.
MOST_NAMED = 6


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
    wished = {name: stage.spec.place.cores_per_rank for name, stage in stages.items()}
    usual = {name: int(kinds[name] != "sink") if wish is None else wish for name, wish in wished.items()}
    homes = find_homes(stages, usual, _feeders(streams), site, notes.problems)
    shared = LAUNCHERS[site.launcher].shares_cores
    cores = {name: usual[name] if shared or wish is not None else 1 for name, wish in wished.items()}
    demands = [
        Demand(
            name, position, stage.spec.ranks, cores[name], stage.spec.place.nodes, homes[name],
            stage.spec.place.ranks_per_node, stage.spec.place.gpus_per_rank,
            stage.member.ensemble if stage.member is not None else "",
        )
        for position, (name, stage) in enumerate(stages.items())
    ]  # fmt: skip
    for each in demands:
        check_devices(each, stages[each.name].spec.place.nic, site, notes.problems)
    ranges, squeezed = place_nodes(demands, overlap, site, oversubscribe, notes)
    wishes = {name: stage.spec.place for name, stage in stages.items()}
    advise_sharing(demands, wishes, ranges, overlap, site, notes)
    chosen, crowded = _choose_cores(demands, wishes, ranges, overlap, site, oversubscribe, notes)
    crowded |= squeezed
    placed = {}
    for each in demands:
        bound = chosen[each.name]
        if _group(each, site) in crowded:
            bound = replace(bound, cores=[])
        placed[each.name] = _placement(each, bound, wishes[each.name], ranges, site)
        _note(each, placed[each.name], bound, site, notes)
    return placed


def _placement(demand: Demand, bound: Bound, wish: StagePlace, ranges: Mapping[str, Range], site: Site) -> Placement:
    ranks = _ranks_per_node(demand, ranges)
    return Placement(
        nodes=[ranges[demand.name]],
        ranks_per_node=ranks,
        cores=bound.cores,
        cores_per_rank=demand.cores_per_rank,
        threads_per_rank=wish.threads_per_rank or 0,
        gpus=bound.gpus,
        gpus_per_rank=demand.gpus_per_rank,
        nics=choose_nics(wish.nic, ranks, _parts(bound.cores, ranks), _parts(bound.gpus, ranks), site),
    )


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
    wishes: Mapping[str, StagePlace],
    ranges: Mapping[str, Range],
    overlap: Overlap,
    site: Site,
    oversubscribe: bool,
    notes: Notes,
) -> tuple[dict[str, Bound], set[str]]:
    """Cores and GPUs that no stage on the same nodes uses at the same time, and the groups whose cores do not fit."""
    chosen: dict[str, Bound] = {}
    crowded: set[str] = set()
    groups: dict[str, list[Demand]] = {}
    for demand in sorted(demands, key=lambda each: each.home != each.name):  # hosts before their guests
        group = groups.setdefault(_group(demand, site), [])
        beside = [each for each in group if overlap[demand.name] >> each.position & 1]
        used = {core for each in beside for core in chosen[each.name].cores}
        free = [core for core in site.usable_cores if core not in used]
        taken = {gpu for each in beside for gpu in chosen[each.name].gpus}
        gpus = [gpu for gpu in range(site.gpus_per_node) if gpu not in taken]
        ranks = _ranks_per_node(demand, ranges)
        fits_the_site = site.nodes == 1 or demand.nodes_on(site) <= site.nodes  # else it is noted already
        if ranks * demand.gpus_per_rank > len(gpus) and _has_gpus(demand, site):
            _note_too_few_gpus([*(each for each in beside if each.gpus_per_rank), demand], ranges, site, notes)
        chosen[demand.name] = bind_ranks(demand, ranks, wishes[demand.name], free, gpus, site)
        if ranks * demand.cores_per_rank > len(free) and _group(demand, site) not in crowded:
            crowded.add(_group(demand, site))
            together = _together(demands, demand, overlap, site)
            if fits_the_site or oversubscribe:
                more = _nodes_that_fit(demands, demand.home, overlap, ranges, site)
                _note_too_few_cores(together, ranges, more, site, oversubscribe, notes)
        if chosen[demand.name].cores or demand.gpus_per_rank:  # an ensemble has a thousand that have none
            group.append(demand)
    return chosen, crowded


def _together(demands: list[Demand], demand: Demand, overlap: Overlap, site: Site) -> list[Demand]:
    """Stages with cores that all run on the same nodes at the same time, this one among them."""
    here = [each for each in demands if _group(each, site) == _group(demand, site) and each.cores_per_rank]
    chosen, bits = [demand], overlap[demand.name]
    for each in here:
        if bits >> each.position & 1:  # of those of which one waits for the other only one counts
            chosen.append(each)
            bits &= overlap[each.name]
    return sorted(chosen, key=lambda each: each.position)


def _has_gpus(demand: Demand, site: Site) -> bool:
    """Whether the site has the GPUs of a stage, for itself: else that is noted already."""
    return demand.gpus_per_rank <= site.gpus_per_node and demand.ranks <= demand.ranks_with_gpus(site)


def _parts(values: list[int], count: int) -> list[list[int]]:
    size = len(values) // count
    return [values[index * size : (index + 1) * size] for index in range(count)] if size else []


def _note_too_few_gpus(together: list[Demand], ranges: Mapping[str, Range], site: Site, notes: Notes) -> None:
    ranks = {each.name: _ranks_per_node(each, ranges) for each in together}
    total = sum(ranks[each.name] * each.gpus_per_rank for each in together)
    shares = ", ".join(
        f"{each.name} {plural(ranks[each.name], 'rank')} × {plural(each.gpus_per_rank, 'GPU')}" for each in together
    )
    key = f"stages.{together[-1].name}.place.gpus_per_rank"
    has = f"site {site.site} has {site.gpus_per_node}" + (" on a node" if site.nodes > 1 else "")
    way = "put the stages on more nodes, or on nodes of their own" if site.nodes > 1 else "use fewer ranks with GPUs"
    notes.problems.add(key, f"{plural(total, 'GPU')} are needed at the same time, {has}: {shares}", way)


def _note_too_few_cores(
    together: list[Demand],
    ranges: Mapping[str, Range],
    more_nodes: int | None,
    site: Site,
    oversubscribe: bool,
    notes: Notes,
) -> None:
    """More ranks than cores: a mistake with its sum, or advice where the file allows it.

    Args:
        more_nodes: on how many nodes they fit, if on any.
    """
    ranks = {each.name: _ranks_per_node(each, ranges) for each in together}
    used = {each.name: ranks[each.name] * each.cores_per_rank for each in together}
    total = sum(used.values())
    usable = " usable" if len(site.usable_cores) < site.cores_per_node else ""
    has = f"site {site.site} has {len(site.usable_cores)}{usable}" + (" on a node" if site.nodes > 1 else "")
    if site.others:
        has += f", and other runs use {plural(len(site.others), 'core')}"
    shares = ", ".join(
        f"{each.name} {plural(ranks[each.name], 'rank')} × {plural(each.cores_per_rank, 'core')}"
        for each in together[:MOST_NAMED]
    )
    if len(together) > MOST_NAMED:
        shares += f", and {plural(len(together) - MOST_NAMED, 'more stage')}"
    if oversubscribe:
        notes.advise(f"{total} cores are requested and {has} ({shares}): these stages slow each other down")
        return
    needed = "1 core is" if total == 1 else f"{total} cores are"
    biggest = max(together, key=lambda each: used[each.name])
    hint, ranks_key = f"let them share with {OVERSUBSCRIBE}", f"stages.{biggest.name}.ranks"
    if biggest.ranks > 1 and biggest.ranks_per_node is None:
        hint += f", or use fewer ranks: `--set {notes.problems.written(ranks_key)}=N`"
    if biggest.cores_per_rank > 1:
        cores_key = notes.problems.written(f"stages.{biggest.name}.place.cores_per_rank")
        hint += f", or fewer cores: `--set {cores_key}=N`"
    if at_once := _members_at_once(together, used, site):
        hint += f", or {fewer_at_once(at_once)}"
    if more_nodes is not None:
        nodes_key = notes.problems.written(f"stages.{together[-1].home}.place.nodes")
        hint += f", or {more_nodes} nodes: `--set {nodes_key}={more_nodes}`"
    notes.problems.add(ranks_key, f"{needed} needed at the same time, {has}: {shares}", hint)


def _members_at_once(together: list[Demand], used: Mapping[str, int], site: Site) -> int:
    """How many members of each ensemble fit on the one node of a site, beside the stages that are none; 0 where there
    are no members, or where no number of them fits."""
    of_one = {each.ensemble: used[each.name] for each in together if each.ensemble}
    others = sum(used[each.name] for each in together if not each.ensemble)
    fit = (len(site.usable_cores) - others) // sum(of_one.values()) if of_one and site.nodes == 1 else 0
    return max(0, fit)


def _nodes_that_fit(
    demands: list[Demand], host: str, overlap: Overlap, ranges: Mapping[str, Range], site: Site
) -> int | None:
    """The fewest nodes of the host on which all stages of its nodes fit, beside the nodes of the others; None where
    there are none, and where the number of ranks on a node is given.
    """
    group = [each for each in demands if each.home == host]
    own = next(each for each in group if each.name == host)
    if site.nodes == 1 or own.ranks_per_node is not None:
        return None

    def fits(nodes: int) -> bool:
        used = {each.name: _cores_on_a_node(each, own, nodes) for each in group}
        usable = len(site.usable_cores)
        return all(
            sum(used[other.name] for other in group if other is each or overlap[each.name] >> other.position & 1)
            <= usable
            for each in group
        )

    start, end = ranges[host]
    others = sum(ranges[each.name][1] - ranges[each.name][0] for each in demands if each.home == each.name != host)
    low, high = end - start + 1, min(own.ranks, largest_job(site) - others)
    if low > high or not fits(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low


def _note(demand: Demand, placement: Placement, bound: Bound, site: Site, notes: Notes) -> None:
    key = f"stages.{demand.name}"
    if placement.cores:
        ranks, cores = plural(placement.ranks_per_node, "rank"), plural(demand.cores_per_rank, "core")
        where = "" if site.nodes == 1 else " on each node"
        how = f"; {bound.why}" if bound.why else ""
        notes.why(f"{key}.cores", f"{ranks} × {cores}{where}, which no other stage uses meanwhile{how}")
    elif demand.cores_per_rank == 0:
        notes.why(f"{key}.cores", "cores_per_rank is 0: no core of its own, runs where there is room")
    else:
        notes.why(f"{key}.cores", "not bound: more ranks than cores on these nodes, as oversubscribe allows")
    if placement.gpus:
        gpus = f"{plural(placement.ranks_per_node, 'rank')} × {plural(demand.gpus_per_rank, 'GPU')}"
        notes.why(f"{key}.gpus", f"{gpus}: {', '.join(map(str, placement.gpus))}, which no other stage uses meanwhile")
    if site.nodes > 1:
        start, end = placement.nodes[0]
        where = "of its own" if demand.home == demand.name else f"shared with {demand.home}"
        notes.why(
            f"{key}.nodes", f"{plural(end - start, 'node')} {where}, {plural(placement.ranks_per_node, 'rank')} on each"
        )


def _cores_on_a_node(demand: Demand, host: Demand, nodes: int) -> int:
    """How many cores of a node a stage uses where its host is given so many nodes."""
    on = math.ceil(host.ranks / math.ceil(host.ranks / nodes))
    if demand.name != host.name:
        on = min(on, demand.nodes or demand.ranks)
        if demand.nodes is None and demand.ranks_per_node is not None:
            on = min(on, math.ceil(demand.ranks / demand.ranks_per_node))
    return math.ceil(demand.ranks / on) * demand.cores_per_rank
