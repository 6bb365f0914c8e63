"""Which free cores the ranks of a stage get on a node: inside one domain (L3, NUMA, a GPU's neighbours) each, if they
fit. Pure arithmetic: all functions return the cores of rank 0, then those of rank 1, …; None where they do not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

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
