"""Distribution strategies: from the blocks that the writer's ranks put to the parts that each reader rank gets. Pure.

| strategy | which reader gets what |
|---|---|
| `hostname`, `hostname:INNER` | blocks stay on a node where a reader runs there; INNER decides there, and for others |
| `binpacking` | whole blocks, the largest first, each to the reader with the least; very large ones are cut |
| `round-robin` | whole blocks in turn |
| `blocks` | contiguous groups of whole blocks, the same number to each reader |
| `hyperslab` | equal slabs along the slowest axis, independent of the blocks |
| `all` | everything to every reader |

Names and purposes are those of openPMD-api (https://openpmd-api.readthedocs.io, "Data Distribution"); the differences,
with reasons, are in docs/decisions/0010-who-reads-what.md.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from workflow.distribution.boxes import Block, Part, Shape, is_tiled, volume
from workflow.distribution.decomposition import block as slab

AUTO, HOSTNAME, HYPERSLAB, ALL = "auto", "hostname", "hyperslab", "all"
INNER = "binpacking"  # the inner strategy of plain `hostname`


class Ranks(NamedTuple):
    """The ranks of one side: how many, and how many `per_node` from `first_node` on; 0: all on one node."""

    number: int
    first_node: int = 0
    per_node: int = 0

    def node(self, rank: int) -> int:
        """Index of the node on which a rank runs."""
        return self.first_node + (rank // self.per_node if self.per_node else 0)

    @property
    def nodes(self) -> range:
        """Indices of all nodes on which these ranks run."""
        return range(self.first_node, self.node(self.number - 1) + 1)


Shares = list[list[Part]]  # the parts of each reader
# Adds the blocks with these indices to the shares, which may already contain parts. `cut`: blocks may be cut.
Dealer = Callable[[Sequence[Block], Sequence[int], Shares, bool], None]


def choose(writers: Ranks, readers: Ranks) -> tuple[str, str]:
    """(strategy, reason) where the pipeline gives none: by nodes and numbers of ranks, which are known in advance."""
    here, there = set(readers.nodes), set(writers.nodes)
    if readers.number == 1:
        return HYPERSLAB, "one rank reads everything"
    if len(here | there) == 1:
        return HYPERSLAB, "all ranks are on one node: equal slabs, which do not depend on the writer's ranks"
    if here & there:
        return f"{HOSTNAME}:{INNER}", f"writers and readers meet on {len(here & there)} of {len(here | there)} nodes"
    if writers.number % readers.number == 0:
        each = writers.number // readers.number
        return "blocks", f"no node in common, {writers.number} ranks for {readers.number}: whole blocks of {each} each"
    return HYPERSLAB, f"no node in common, and {writers.number} ranks for {readers.number} do not divide: equal slabs"


@lru_cache(maxsize=64)
def distribute(
    strategy: str, blocks: tuple[Block, ...], shape: Shape | None, writers: Ranks, readers: Ranks
) -> tuple[tuple[Part, ...], ...]:
    """The parts of every reader rank, for each reader in the order of the blocks. Empty blocks are left out.

    `shape`: of the global array; None for a local array, whose blocks are never cut or left out. Where blocks overlap
    or leave holes, so that whole blocks would duplicate or lose elements, the result is that of `hyperslab`.
    Raises ValueError for an unknown strategy.
    """
    name, _, inner = strategy.partition(":")
    dealer = DEALERS.get(inner or INNER) if name == HOSTNAME else None if inner else DEALERS.get(name)
    if dealer is None and strategy not in (HYPERSLAB, ALL):
        raise ValueError(f"there is no strategy {strategy!r}; there is {', '.join(STRATEGIES)}")
    full = [place for place, block in enumerate(blocks) if shape is None or volume(block.extent)]
    if strategy == ALL:
        everything = (Part((0,) * len(shape), shape),) if shape is not None else tuple(_whole(blocks, i) for i in full)
        return (everything,) * readers.number
    if shape is not None and (dealer is None or not is_tiled(blocks, shape)):
        return tuple(_slab(shape, readers.number, index) for index in range(readers.number))
    shares: Shares = [[] for _ in range(readers.number)]
    dealer = dealer or deal_groups
    if name == HOSTNAME:
        full = _deal_on_own_node(blocks, full, shares, writers, readers, dealer, shape is not None)
    dealer(blocks, full, shares, shape is not None)
    return tuple(tuple(sorted(share, key=lambda part: (part.block, part.start))) for share in shares)


def deal_in_turn(blocks: Sequence[Block], places: Sequence[int], shares: Shares, cut: bool) -> None:
    """Whole blocks in turn."""
    del cut
    for number, place in enumerate(places):
        shares[number % len(shares)].append(_whole(blocks, place))


def deal_groups(blocks: Sequence[Block], places: Sequence[int], shares: Shares, cut: bool) -> None:
    """Contiguous groups of whole blocks, the larger groups first."""
    del cut
    for index, share in enumerate(shares):
        first, number = slab(len(places), len(shares), index)
        share += [_whole(blocks, place) for place in places[first : first + number]]


def deal_by_size(blocks: Sequence[Block], places: Sequence[int], shares: Shares, cut: bool) -> None:
    """The largest first, each to the reader with the least: the largest share is at most 4/3 of the optimum.

    R. L. Graham, SIAM J. Appl. Math. 17 (1969) 416–429. Blocks above an even share are first cut into even shares and
    a rest; the bound is for the parts after that.
    """
    loads = [sum(volume(part.extent) for part in share) for share in shares]
    even = -(-(sum(loads) + sum(volume(blocks[place].extent) for place in places)) // len(shares))
    parts = [part for place in places for part in (_cut(blocks, place, even) if cut else [_whole(blocks, place)])]
    heap = [(load, index) for index, load in enumerate(loads)]
    heapq.heapify(heap)
    for part in sorted(parts, key=lambda part: -volume(part.extent)):
        load, index = heap[0]
        shares[index].append(part)
        heapq.heapreplace(heap, (load + volume(part.extent), index))


DEALERS: dict[str, Dealer] = {"binpacking": deal_by_size, "round-robin": deal_in_turn, "blocks": deal_groups}
STRATEGIES = [HOSTNAME, *(f"{HOSTNAME}:{inner}" for inner in DEALERS), *DEALERS, HYPERSLAB, ALL]


def _deal_on_own_node(
    blocks: Sequence[Block], places: Sequence[int], shares: Shares, writers: Ranks, readers: Ranks, deal: Dealer,
    cut: bool,
) -> list[int]:  # fmt: skip
    """Deal the blocks of each node to the readers on it. Returns the indices of the blocks on nodes without readers."""
    here: dict[int, Shares] = {}
    for index, share in enumerate(shares):
        here.setdefault(readers.node(index), []).append(share)
    written: dict[int, list[int]] = {}
    for place in places:
        written.setdefault(writers.node(blocks[place].rank), []).append(place)
    for node in sorted(written.keys() & here.keys()):
        deal(blocks, written[node], here[node], cut)
    return sorted(place for node, left in written.items() if node not in here for place in left)


def _whole(blocks: Sequence[Block], place: int) -> Part:
    return Part(blocks[place].start, blocks[place].extent, place)


def _slab(shape: Shape, readers: int, index: int) -> tuple[Part, ...]:
    if not shape:
        return (Part((), ()),)
    first, count = slab(shape[0], readers, index)
    part = Part((first, *(0 for _ in shape[1:])), (count, *shape[1:]))
    return (part,) if volume(part.extent) else ()


def _cut(blocks: Sequence[Block], place: int, limit: int) -> list[Part]:
    """A block in parts of at most `limit` elements if possible, cut across its slowest axis with more than one row."""
    whole = _whole(blocks, place)
    size = volume(whole.extent)
    if size <= limit:
        return [whole]
    axis = next(axis for axis, length in enumerate(whole.extent) if length > 1)
    rows = whole.extent[axis]
    most = max(1, limit * rows // size)
    parts = []
    for first in range(0, rows, most):
        start, extent = list(whole.start), list(whole.extent)
        start[axis], extent[axis] = whole.start[axis] + first, min(most, rows - first)
        parts.append(Part(tuple(start), tuple(extent), place))
    return parts
