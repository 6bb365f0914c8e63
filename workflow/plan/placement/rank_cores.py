"""Which cores, GPUs and network adapter each rank of a stage gets on a node, as `place:` and the topology say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from workflow.errors import did_you_mean, listing
from workflow.formatting import plural
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.placement.nodes import Demand
from workflow.plan.plan_notes import Problems
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


# Which GPUs and which network adapter each rank of a stage gets on a node.

AUTO, NONE = "auto", "none"


def nearest_gpus(free: Sequence[int], cores: Sequence[Sequence[int]], each: int, site: Site) -> list[int]:
    """GPUs of every rank, by the cores that the ranks have: those with most of these cores nearby, else the next."""
    left, chosen = list(free), list[int]()
    for own in cores:
        left.sort(key=lambda gpu: (-_shared(gpu, own, site), gpu))
        chosen += sorted(left[:each])
        left = sorted(left[each:])
    return chosen


def _shared(gpu: int, cores: Sequence[int], site: Site) -> int:
    near = site.gpus[gpu].cores if site.gpus else None
    return len(set(near or ()) & set(cores))


def cores_near(gpus: Sequence[int], site: Site) -> list[int] | None:
    """The cores nearest to these GPUs; None where the site does not say."""
    near = [site.gpus[gpu].cores if site.gpus else None for gpu in gpus]
    return None if None in near or not near else sorted({core for cores in near for core in cores or ()})


def choose_nics(
    wanted: str, ranks: int, cores: Sequence[Sequence[int]], gpus: Sequence[Sequence[int]], site: Site
) -> list[str]:
    """The network adapter of every rank of a node: that of its GPU, else the one nearest to its cores; [] is any.
    `cores` and `gpus` are those of each rank, or empty."""
    if wanted == NONE or (wanted == AUTO and not site.nics):
        return []
    if wanted != AUTO:
        return [wanted] * ranks
    names = []
    for rank in range(ranks):
        devices = [site.gpus[gpu].nic for gpu in gpus[rank]] if gpus and site.gpus else []
        own = set(cores[rank][:1]) if cores else set()
        beside = (nic.name for nic in site.nics if own & set(nic.cores or ()))
        names.append(next((name for name in devices if name), None) or next(beside, ""))
    return names if any(names) else []


def check_devices(demand: Demand, nic: str, site: Site, problems: Problems) -> None:
    """Notes GPUs that the site has not, or cannot give to single ranks, and an adapter that it does not have."""
    key = f"stages.{demand.name}.place"
    if demand.gpus_per_rank and not site.gpus_per_node:
        problems.add(f"{key}.gpus_per_rank", f"site {site.site} has no GPUs", "remove it, or use a site with GPUs")
    elif demand.gpus_per_rank > site.gpus_per_node:
        message = (
            f"{plural(demand.gpus_per_rank, 'GPU')} for one rank, site {site.site} has {site.gpus_per_node} on a node"
        )
        problems.add(f"{key}.gpus_per_rank", message, f"give at most {site.gpus_per_node}")
    elif demand.gpus_per_rank and not site.gpu_variable and not LAUNCHERS[site.launcher].selects_gpus:
        problems.add(
            f"{key}.gpus_per_rank",
            f"site {site.site} does not say how a rank is restricted to its GPUs, and {site.launcher} cannot do it",
            "add `gpu_variable: CUDA_VISIBLE_DEVICES`, or what its GPUs need, to the site's file",
        )
    names = [each.name for each in site.nics]
    if nic not in (AUTO, NONE) and names and nic not in names:
        hint = did_you_mean(nic, names) or f"adapters: {listing(names)}; or `auto`"
        problems.add(f"{key}.nic", f"site {site.site} has no network adapter `{nic}`", hint)
