"""Who reads what: the blocks that the writer's ranks put → the parts that each reader rank gets. Pure.

Both sides of the house use it: the plan to show what a strategy costs, `workflow.stage` to read by it.

| strategy | who gets what |
|---|---|
| `hostname`, `hostname:INNER` | blocks stay on their node where a reader is; INNER deals them out there, and the rest |
| `binpacking` | whole blocks, the biggest first, each to the reader with the least; those above an even share are cut |
| `round-robin` | whole blocks in turn |
| `blocks` | contiguous groups of whole blocks, equally many each |
| `hyperslab` | equal slabs along the slowest axis, whatever the blocks |
| `all` | everything to every reader |

The same names and aims as in openPMD-api (https://openpmd-api.readthedocs.io, "Data Distribution"); what differs, and
why, is in docs/decisions/0010-who-reads-what.md.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from workflow.decomposition import block as slab

Shape = tuple[int, ...]

AUTO, HOSTNAME, HYPERSLAB, ALL = "auto", "hostname", "hyperslab", "all"
INNER = "binpacking"  # of `hostname` alone
CELLS_PER_BOX = 8


class Block(NamedTuple):
    """What one writer rank put in one go: a box of a global array, or a local array (`start` is zeros)."""

    start: Shape
    extent: Shape
    rank: int = 0


class Part(NamedTuple):
    """A box that one reader gets. `block`: it lies inside this block (its place in the list); None: inside several.

    Of a local array `start` counts inside that block.
    """

    start: Shape
    extent: Shape
    block: int | None = None


class Ranks(NamedTuple):
    """The ranks of one side: how many, and `per_node` of them on each node from `first_node` on; 0 is all on one."""

    number: int
    first_node: int = 0
    per_node: int = 0

    def node(self, rank: int) -> int:
        """Index of the node on which a rank runs."""
        return self.first_node + (rank // self.per_node if self.per_node else 0)

    @property
    def nodes(self) -> range:
        """All nodes."""
        return range(self.first_node, self.node(self.number - 1) + 1)


Shares = list[list[Part]]  # of each reader
# What deals out the blocks at these places. Shares may hold something already; `cut`: blocks may be cut.
Dealer = Callable[[Sequence[Block], Sequence[int], Shares, bool], None]


def choose(writers: Ranks, readers: Ranks) -> tuple[str, str]:
    """(strategy, why) where nobody asked for one: by nodes and numbers of ranks, which are known before any data."""
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
    """The parts of every reader rank, each reader's in the order of the blocks. Empty blocks are nobody's.

    `shape` is that of the global array, None for a local array, whose blocks are not cut. Where the blocks overlap
    or leave holes, so that dealing them out would double or lose elements, the slabs of `hyperslab` are dealt instead.
    Raises ValueError for a strategy that there is not.
    """
    name, _, inner = strategy.partition(":")
    dealer = DEALERS.get(inner or INNER) if name == HOSTNAME else None if inner else DEALERS.get(name)
    if dealer is None and strategy not in (HYPERSLAB, ALL):
        raise ValueError(f"there is no strategy {strategy!r}; there is {', '.join(STRATEGIES)}")
    full = [place for place, block in enumerate(blocks) if volume(block.extent)]
    if strategy == ALL:
        everything = (Part((0,) * len(shape), shape),) if shape is not None else tuple(_whole(blocks, i) for i in full)
        return (everything,) * readers.number
    if shape is not None and (dealer is None or not is_tiled(blocks, shape)):
        return tuple(_slab(shape, readers.number, index) for index in range(readers.number))
    shares: Shares = [[] for _ in range(readers.number)]
    dealer = dealer or deal_groups
    if name == HOSTNAME:
        full = _deal_at_home(blocks, full, shares, writers, readers, dealer, shape is not None)
    dealer(blocks, full, shares, shape is not None)
    return tuple(tuple(sorted(share, key=lambda part: (part.block, part.start))) for share in shares)


def merged(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The same elements of a global array in fewer parts: neighbours that make a box together are one."""
    found = list(parts)
    while True:
        joined: list[Part] = []
        for part in found:
            both = _union(joined[-1], part) if joined else None
            joined[-1:] = [both] if both is not None else [*joined[-1:], part]
        if len(joined) == len(found):
            return tuple(joined)
        found = joined


@lru_cache(maxsize=64)
def is_tiled(blocks: tuple[Block, ...], shape: Shape) -> bool:
    """Whether the blocks hold every element of the array exactly once."""
    boxes = sorted(block for block in blocks if volume(block.extent))
    if sum(volume(box.extent) for box in boxes) != volume(shape):
        return False
    disjoint = _disjoint_by_cells(boxes)
    return _disjoint_by_sweep(boxes) if disjoint is None else disjoint


def _disjoint_by_cells(boxes: Sequence[Block]) -> bool | None:
    """Whether no two boxes overlap, by the cells between all their edges; None where these are too many to look at.

    Fast where blocks are those of a grid, which share their edges.
    """
    axes = range(len(boxes[0].start) if boxes else 0)
    edges = [sorted({edge for box in boxes for edge in (box.start[axis], _end(box, axis))}) for axis in axes]
    places = [{edge: index for index, edge in enumerate(each)} for each in edges]
    seen: set[Shape] = set()
    for box in boxes:
        spans = [range(places[axis][box.start[axis]], places[axis][_end(box, axis)]) for axis in axes]
        if volume(tuple(map(len, spans))) + len(seen) > CELLS_PER_BOX * len(boxes):
            return None
        for cell in product(*spans):
            if cell in seen:
                return False
            seen.add(cell)
    return True


def _disjoint_by_sweep(boxes: Sequence[Block]) -> bool:
    """The same, box by box in the order of their first edges."""
    reached: list[Block] = []
    for box in boxes:
        reached = [other for other in reached if _end(other, 0) > box.start[0]]
        if any(overlap(box, other) is not None for other in reached):
            return False
        reached.append(box)
    return True


def _end(box: Block, axis: int) -> int:
    return box.start[axis] + box.extent[axis]


def overlap(one: Block | Part, other: Block | Part) -> tuple[Shape, Shape] | None:
    """(start, extent) of what two boxes of a global array have in common; None for nothing."""
    start = tuple(map(max, one.start, other.start))
    ends = ((a + n, b + m) for a, n, b, m in zip(one.start, one.extent, other.start, other.extent, strict=True))
    extent = tuple(min(end) - first for end, first in zip(ends, start, strict=True))
    return (start, extent) if min(extent, default=1) > 0 else None


def volume(extent: Shape) -> int:
    """Number of elements of a box."""
    total = 1
    for length in extent:
        total *= length
    return total


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
    """The biggest first, each to the reader that has least: at most 4/3 of the best for these parts.

    R. L. Graham, SIAM J. Appl. Math. 17 (1969) 416–429. Blocks above an even share are first cut into even shares and
    a rest.
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


def _deal_at_home(
    blocks: Sequence[Block], places: Sequence[int], shares: Shares, writers: Ranks, readers: Ranks, deal: Dealer,
    cut: bool,
) -> list[int]:  # fmt: skip
    """Deals the blocks of each node to the readers there. Returns the places of those left, where no reader is."""
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
    """A block in parts of `limit` elements and a rest, as far as cuts across its slowest axis can."""
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


def _union(one: Part, other: Part) -> Part | None:
    """The box of two that lie one behind the other along one axis; None where there is none."""
    different = [
        axis
        for axis in range(len(one.start))
        if (one.start[axis], one.extent[axis]) != (other.start[axis], other.extent[axis])
    ]
    if len(different) != 1 or one.start[different[0]] + one.extent[different[0]] != other.start[different[0]]:
        return None
    axis = different[0]
    extent = (*one.extent[:axis], one.extent[axis] + other.extent[axis], *one.extent[axis + 1 :])
    return Part(one.start, extent, one.block if one.block == other.block else None)
