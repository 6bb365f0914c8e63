"""Which nodes each stage gets: the site's only one, nodes of its own, or those of the stage it shares with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from workflow.formatting import plural
from workflow.plan.plan_model import NodePlan, Placement
from workflow.plan.plan_notes import Notes, Problems
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.site.site_model import Site

# The nodes that a plan needs, and what it keeps of one of them.


def nodes_needed(placements: Iterable[Placement]) -> int:
    """How many nodes the stages use, counted from the first."""
    return max((end for placement in placements for _, end in placement.nodes), default=1)


def node_plan(site: Site) -> NodePlan:
    """What placement, launchers and the node map take of a site."""
    return NodePlan(
        cores=site.cores_per_node,
        threads_per_core=site.threads_per_core,
        reserved=list(site.reserved_cores),
        others=list(site.others),
        numa=[list(cores) for cores in site.numa],
        gpus=site.gpus_per_node,
        gpu_variable=site.gpu_variable or "",
        memory=site.memory_per_node,
        price=site.cost.per_node_hour if site.cost else 0.0,
        price_unit=site.cost.unit if site.cost else "",
    )


OVERSUBSCRIBE = "`--set oversubscribe=true`"


def fewer_at_once(count: int | str) -> str:
    """What to type so that fewer members of an ensemble run at the same time."""
    return f"run fewer members at the same time, `members: {{…, at_once: {count}}}`"


Overlap = Mapping[str, int]  # stage → bit set of the positions of stages that may run at the same time
Range = tuple[int, int]  # half open


class Demand(NamedTuple):
    """What one stage asks for. `home` is the stage whose nodes it uses: its own name, or that of its host. `ensemble`:
    of which it is a member; "" of none."""

    name: str
    position: int
    ranks: int
    cores_per_rank: int
    nodes: int | None
    home: str
    ranks_per_node: int | None = None
    gpus_per_rank: int = 0
    ensemble: str = ""

    def nodes_on(self, site: Site) -> int:
        """How many nodes: as written, or the fewest that fit."""
        if self.nodes is not None:
            # Nodes are filled one after the other: 9 ranks on 4 nodes are 3 on each of 3.
            return math.ceil(self.ranks / math.ceil(self.ranks / self.nodes))
        return math.ceil(self.ranks / (self.ranks_per_node or self.ranks_that_fit(site)))

    def ranks_that_fit(self, site: Site) -> int:
        """On a node that the stage has for itself, by cores and GPUs; at least one."""
        by_gpus = site.gpus_per_node // self.gpus_per_rank if self.gpus_per_rank else self.ranks
        return max(1, min(len(site.usable_cores) // max(1, self.cores_per_rank), by_gpus))

    def ranks_with_gpus(self, site: Site) -> int:
        """How many ranks the site has GPUs for, where each has some: those of a rank are on one node."""
        return site.nodes * (site.gpus_per_node // self.gpus_per_rank)


def find_homes(
    stages: Mapping[str, DeclaredStage],
    cores_per_rank: Mapping[str, int],
    feeders: Mapping[str, str],
    site: Site,
    problems: Problems,
) -> dict[str, str]:
    """Stage → the stage whose nodes it uses.

    A stage without cores of its own (a sink) sits beside the stage that it reads from (`feeders`). Members of an
    ensemble share a node, as many as fit.
    """
    beside = _packed_members(stages, cores_per_rank, site)
    for name, stage in stages.items():
        share = stage.spec.place.share
        if name in beside:
            continue
        if share is not None:
            beside[name] = share
        elif cores_per_rank[name] == 0 and stage.spec.place.nodes is None and name in feeders:
            beside[name] = feeders[name]
    homes = {name: _end_of_chain(name, beside, problems) for name in stages}
    return homes if site.nodes > 1 else {name: name for name in stages}


def _packed_members(
    stages: Mapping[str, DeclaredStage], cores_per_rank: Mapping[str, int], site: Site
) -> dict[str, str]:
    """Member of an ensemble → the first one on its node, of those that have a node together."""
    members: dict[str, list[str]] = {}
    for name, stage in stages.items():
        place = stage.spec.place
        if stage.member is not None and (place.share, place.nodes, place.ranks_per_node) == (None, None, None):
            members.setdefault(stage.member.ensemble, []).append(name)
    found: dict[str, str] = {}
    for names in members.values():
        stage = stages[names[0]]
        ranks, gpus = stage.spec.ranks, stage.spec.ranks * stage.spec.place.gpus_per_rank
        fit = len(site.usable_cores) // max(1, ranks * cores_per_rank[names[0]])
        fit = min(fit, site.gpus_per_node // gpus) if gpus else fit
        places: dict[str, int] = {}
        first: list[str] = []  # of each place
        for name in names:
            member = stages[name].member
            before = [each for each in (member.after if member is not None else ()) if each in places]
            # It takes the place, and so the node and the cores, of the one that has ended.
            places[name] = places[before[0]] if before else len(first)
            first += [] if before else [name]
        heads = {name: first[place - place % max(1, fit)] for name, place in places.items()}
        found |= {name: head for name, head in heads.items() if name != head}
    return found


def _end_of_chain(name: str, beside: Mapping[str, str], problems: Problems) -> str:
    chain = [name]
    while chain[-1] in beside:
        if beside[chain[-1]] in chain:
            circle = chain[chain.index(beside[chain[-1]]) :]
            if name == min(circle, key=list(beside).index):  # one message for all of them
                arrows = " → ".join([*chain, beside[chain[-1]]])
                problems.add(
                    f"stages.{name}.place.share",
                    f"{arrows}: none of these stages has nodes of its own",
                    "remove one `share`",
                )
            return name
        chain.append(beside[chain[-1]])
    return chain[-1]


def place_nodes(
    demands: list[Demand], overlap: Overlap, site: Site, oversubscribe: bool, notes: Notes
) -> tuple[dict[str, Range], set[str]]:
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
        _check_count(demand, site, oversubscribe, notes)
        if site.nodes == 1:
            ranges[demand.name] = 0, 1
        elif demand.home == demand.name:
            count = min(demand.nodes_on(site), site.nodes)
            taken = {other: used for other, used in ranges.items() if overlaps[demand.name] & bits[other]}
            gap = _first_gap(count, list(taken.values()), site)
            if gap is None:
                squeezed |= {demand.name, *taken}
                _no_gap(demand, count, list(taken.values()), site, oversubscribe, notes)
            ranges[demand.name] = gap or (0, count)
    for demand in demands:
        if demand.name not in ranges:
            ranges[demand.name] = _guest(demand, ranges[demand.home], notes.problems)
    return ranges, squeezed


def _check_count(demand: Demand, site: Site, oversubscribe: bool, notes: Notes) -> None:
    count, problems, usable = demand.nodes_on(site), notes.problems, len(site.usable_cores)
    key = f"stages.{demand.name}"
    if demand.nodes is not None and demand.nodes > demand.ranks:
        problems.add(
            f"{key}.place.nodes",
            f"{plural(demand.nodes, 'node')} for {plural(demand.ranks, 'rank')}",
            "give at least one rank per node",
        )
    elif demand.nodes is not None and demand.ranks_per_node is not None:
        fits = math.ceil(demand.ranks / demand.ranks_per_node)
        if fits != demand.nodes:
            each = f"{plural(demand.ranks, 'rank')}, {demand.ranks_per_node} on each node,"
            message = f"{each} are on {plural(fits, 'node')}, not on {demand.nodes}"
            problems.add(f"{key}.place.ranks_per_node", message, f"remove it, or `nodes: {fits}`")
    elif demand.nodes is not None and count < demand.nodes:
        notes.advise(
            f"stage {demand.name}: {plural(demand.ranks, 'rank')}, {math.ceil(demand.ranks / demand.nodes)} on each "
            f"node, use {count} of {demand.nodes} nodes"
        )
    if demand.nodes is not None and demand.nodes > site.nodes:
        problems.add(
            f"{key}.place.nodes",
            f"site {site.site} has {plural(site.nodes, 'node')}, not {demand.nodes}",
            f"give at most {site.nodes}, or another `site:`",
        )
    elif count > site.nodes and demand.ranks_per_node is not None:
        problems.add(
            f"{key}.place.ranks_per_node",
            f"{plural(demand.ranks, 'rank')}, {demand.ranks_per_node} on each node, need {plural(count, 'node')}, and "
            f"site {site.site} has {site.nodes}",
            "more on each node, fewer ranks, or another `site:`",
        )
    elif 0 < demand.gpus_per_rank <= site.gpus_per_node and demand.ranks > demand.ranks_with_gpus(site):
        whole, left_over = divmod(site.gpus_per_node, demand.gpus_per_rank)
        problems.add(
            f"{key}.place.gpus_per_rank",
            f"{plural(demand.ranks, 'rank')} × {plural(demand.gpus_per_rank, 'GPU')} = "
            f"{demand.ranks * demand.gpus_per_rank} GPUs, site {site.site} has {plural(site.nodes, 'node')} × "
            f"{plural(site.gpus_per_node, 'GPU')} = {site.nodes * site.gpus_per_node}"
            + (f", enough for {plural(whole, 'rank')} on each" if left_over else ""),
            f"use at most {plural(demand.ranks_with_gpus(site), 'rank')}",
        )
    elif count > site.nodes > 1 and not oversubscribe:
        total = demand.ranks * demand.cores_per_rank
        problems.add(
            f"{key}.ranks",
            f"{plural(demand.ranks, 'rank')} × {plural(demand.cores_per_rank, 'core')} = {total} cores, "
            f"site {site.site} has {site.nodes} nodes × {usable} cores = {site.nodes * usable}",
            f"use fewer ranks, or {OVERSUBSCRIBE}",
        )


def _first_gap(count: int, taken: list[Range], site: Site) -> Range | None:
    start = 0
    for first, end in sorted(taken):
        if start + count <= first:
            break
        start = max(start, end)
    return (start, start + count) if start + count <= site.nodes else None


def _no_gap(demand: Demand, count: int, taken: list[Range], site: Site, oversubscribe: bool, notes: Notes) -> None:
    used = sum(end - first for first, end in taken)
    if oversubscribe:
        notes.advise(
            f"stage {demand.name} is on nodes that other stages use at the same time: they slow each other down"
        )
        return
    fewer = f", or {fewer_at_once('N')}" if demand.ensemble else ""
    notes.problems.add(
        f"stages.{demand.name}.place",
        f"needs {plural(count, 'node')} of its own, but stages that run at the same time have {used} "
        f"of the {site.nodes} nodes of site {site.site}",
        f"use fewer ranks, `place: {{share: STAGE}}`, or {OVERSUBSCRIBE}{fewer}",
    )


def _guest(demand: Demand, host: Range, problems: Problems) -> Range:
    start, end = host
    key, hint = "nodes", f"give at most {end - start}"
    if demand.nodes is None and demand.ranks_per_node is not None:
        wanted = math.ceil(demand.ranks / demand.ranks_per_node)
        key, hint = "ranks_per_node", "more on each node, or fewer ranks"
    else:
        wanted = demand.nodes or min(end - start, demand.ranks)
    if wanted > end - start:
        message = f"{demand.home} has {plural(end - start, 'node')} to share, not {wanted}"
        problems.add(f"stages.{demand.name}.place.{key}", message, hint)
    used = min(end - start, wanted)
    return start, start + math.ceil(demand.ranks / math.ceil(demand.ranks / used))


def node_count(placement: Placement) -> int:
    """Nodes of a stage."""
    return sum(end - start for start, end in placement.nodes)


def share_one_node(placements: Iterable[Placement]) -> bool:
    """Whether all ranks of these stages are on one node."""
    nodes = {node for placement in placements for node in placement.nodes}
    return len(nodes) == 1 and all(end - start == 1 for start, end in nodes)


def nodes_text(nodes: Sequence[tuple[int, int]]) -> str:
    """`node 0`, or `nodes 0-3`."""
    spans = [str(first) if end - first == 1 else f"{first}-{end - 1}" for first, end in nodes]
    many = len(spans) > 1 or nodes[0][1] - nodes[0][0] > 1
    return f"node{'s' if many else ''} {', '.join(spans)}"
