"""The cores and GPUs of each rank of a stage on a node, out of the free ones, as `place:` and the topology say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from workflow.formatting import plural
from workflow.plan.placement.devices import cores_near, nearest_gpus
from workflow.plan.placement.nodes import Demand
from workflow.site.site_model import Site
from workflow.spec.models.pipeline import StagePlace

_NAMES = {"l3": "L3 cache", "numa": "NUMA domain"}


@dataclass(frozen=True)
class Bound:
    """What the ranks of a node have, those of rank 0 first; `why` says what its cores have in common."""

    cores: list[int] = field(default_factory=list)
    gpus: list[int] = field(default_factory=list)
    why: str = ""


def bind_ranks(
    demand: Demand, ranks: int, wish: StagePlace, free: Sequence[int], gpus: Sequence[int], site: Site
) -> Bound:
    """Cores and GPUs of so many ranks. Where cores or GPUs do not suffice there are fewer: the caller has noted it."""
    each = demand.gpus_per_rank
    near = wish.near or ("gpu" if each and cores_near(range(site.gpus_per_node), site) else None)
    if demand.cores_per_rank == 0:
        return Bound(gpus=list(gpus[: ranks * each]))
    if near == "gpu" and each and ranks * each <= len(gpus):
        own = [gpus[rank * each : (rank + 1) * each] for rank in range(ranks)]
        domains = [cores_near(devices, site) for devices in own]
        known = [cores for cores in domains if cores is not None]
        found = beside_devices(free, demand.cores_per_rank, known, site.numa) if len(known) == ranks else None
        if found is not None:
            return Bound(found, list(gpus[: ranks * each]), "nearest to the rank's GPUs")
    cores, why = _cores(demand, ranks, wish, near, free, site)
    if not each:
        return Bound(cores, why=why)
    size = demand.cores_per_rank
    own_cores = [cores[rank * size : (rank + 1) * size] for rank in range(ranks)]
    return Bound(cores, nearest_gpus(gpus, own_cores, each, site), why)


def _cores(
    demand: Demand, ranks: int, wish: StagePlace, near: str | None, free: Sequence[int], site: Site
) -> tuple[list[int], str]:
    """(cores, what those of a rank have in common)."""
    spread, size = wish.order == "spread", demand.cores_per_rank
    described = {"l3": site.l3, "numa": site.numa}
    asked = [near] if near in described else [] if near == "none" else ["l3", "numa"]
    for kind in asked:
        if described[kind] and (found := inside_domains(free, ranks, size, described[kind], spread)) is not None:
            return found, f"those of a rank are in one {_NAMES[kind]}" if size > 1 else ""
    plain = side_by_side(free, ranks, size, spread)
    if plain is None:
        return list(free[: ranks * size]), ""
    if wish.near in (None, "none"):
        return plain, ""
    lacks = wish.near in described and not described[wish.near]
    why = (
        f"the site does not describe its {_NAMES.get(wish.near, 'GPUs')}s"
        if lacks
        else (f"{plural(ranks, 'rank')} of {plural(size, 'core')} do not fit as `near: {wish.near}` asks")
    )
    return plain, why


Domain = Sequence[int]


def side_by_side(free: Sequence[int], ranks: int, size: int, spread: bool) -> list[int] | None:
    """The lowest cores; with `spread` every rank begins at an equal distance from the one before."""
    if ranks * size > len(free):
        return None
    step = len(free) // ranks if spread else size
    return [core for rank in range(ranks) for core in free[rank * step : rank * step + size]]


def inside_domains(
    free: Sequence[int], ranks: int, size: int, domains: Sequence[Domain], spread: bool
) -> list[int] | None:
    """No rank is in two domains: domains are filled one after the other, or evenly with `spread`."""
    here = set(free)
    available = [[core for core in sorted(domain) if core in here] for domain in domains]
    room = [len(cores) // size for cores in available]
    if sum(room) < ranks:
        return None
    counts = _spread(ranks, room) if spread else _packed(ranks, room)
    return list(chain.from_iterable(cores[: count * size] for cores, count in zip(available, counts, strict=True)))


def beside_devices(free: Sequence[int], size: int, near: Iterable[Domain], wider: Sequence[Domain]) -> list[int] | None:
    """The cores of each rank near its devices, `near` has those of each; where these do not suffice from the domains
    of `wider` that they are in."""
    left = set(free)
    chosen: list[int] = []
    for cores in near:
        around = [core for domain in wider if set(domain) & set(cores) for core in sorted(domain)]
        mine = [core for core in dict.fromkeys([*sorted(cores), *around]) if core in left][:size]
        if len(mine) < size:
            return None
        left -= set(mine)
        chosen += sorted(mine)
    return chosen


def _packed(ranks: int, room: Sequence[int]) -> list[int]:
    counts = []
    for most in room:
        counts.append(min(ranks, most))
        ranks -= counts[-1]
    return counts


def _spread(ranks: int, room: Sequence[int]) -> list[int]:
    """Fewer ranks than domains leave equal gaps; else each domain gets one in turn."""
    counts = [0] * len(room)
    if ranks < len(room):
        wanted = [rank * len(room) // ranks for rank in range(ranks)]
        if all(room[index] for index in wanted):
            return [int(index in wanted) for index in range(len(room))]
    while ranks:
        for index, most in enumerate(room):
            if ranks and counts[index] < most:
                counts[index] += 1
                ranks -= 1
    return counts
