"""Which reader rank gets which part of an array; and how arrays are divided over ranks. Plain arithmetic.

The plan uses it to show what a strategy costs, `workflow.stage` to read by it. All lengths, starts and extents are
numbers of elements. The strategies take the blocks that the writer's ranks put:

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
from itertools import product
from math import prod
from typing import Literal, NamedTuple, get_args


def block(length: int, parts: int, index: int) -> tuple[int, int]:
    """(start, count) of block `index` when `length` elements are divided into `parts` blocks.

    Counts differ by at most one, the larger ones first; with more parts than elements some blocks are empty.
    Raises ValueError when index is not in 0..parts-1 or length is negative.
    """
    if parts < 1 or not 0 <= index < parts or length < 0:
        raise ValueError(f"there is no block {index} of {length} elements in {parts} blocks")
    count, left = divmod(length, parts)
    return index * count + min(index, left), count + (index < left)


def grid(shape: Sequence[int], ranks: int) -> tuple[int, ...]:
    """Number of blocks along each axis, with product `ranks`, that divides a grid with the least surface.

    Among equal surfaces the one that cuts the slower (first) axes is chosen: such blocks are contiguous in memory and
    in files. Raises ValueError when no division gives every rank at least one element.
    """
    lengths = tuple(int(length) for length in shape)
    candidates = [parts for parts in _factors(ranks, len(lengths)) if _fits(parts, lengths)]
    if not candidates:
        raise ValueError(f"a grid of {' x '.join(map(str, lengths))} cannot be divided into {ranks} non-empty blocks")
    return min(candidates, key=lambda parts: (_surface(parts, lengths), tuple(-p for p in parts)))


def block_of(shape: Sequence[int], parts: Sequence[int], rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(start, count) per axis of the block of `rank` when `shape` is divided into `parts` blocks along each axis.

    Ranks count along the last axis first. Raises ValueError when rank is not in 0..product(parts)-1 or when `shape`
    and `parts` have different lengths.
    """
    if len(shape) != len(parts):
        raise ValueError(f"shape {tuple(shape)} and parts {tuple(parts)} have different dimensions")
    place, left = [], rank
    for n in reversed(parts):
        left, index = divmod(left, n)
        place.append(index)
    if left or rank < 0:
        raise ValueError(f"there is no block {rank} in a grid of {' x '.join(map(str, parts))} blocks")
    pairs = [block(length, n, index) for length, n, index in zip(shape, parts, reversed(place), strict=True)]
    return tuple(start for start, _ in pairs), tuple(count for _, count in pairs)


@lru_cache(maxsize=64)
def _factors(number: int, axes: int) -> tuple[tuple[int, ...], ...]:
    """All ordered ways to write `number` as a product of `axes` factors."""
    if axes == 0:
        return ((),) if number == 1 else ()
    return tuple(
        (first, *rest)
        for first in range(1, number + 1)
        if number % first == 0
        for rest in _factors(number // first, axes - 1)
    )


def _fits(parts: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return all(n <= length for n, length in zip(parts, shape, strict=True))


def _surface(parts: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Elements in all cross-sections, one for each block along each axis: less means less area of the cuts."""
    return sum(n * prod(shape[:axis] + shape[axis + 1 :]) for axis, n in enumerate(parts))


Shape = tuple[int, ...]

CELLS_PER_BOX = 8


class Block(NamedTuple):
    """What one writer rank put in one call: a box of a global array, or a local array (`start` is zeros)."""

    start: Shape
    extent: Shape
    rank: int = 0


class Part(NamedTuple):
    """A box that one reader gets. `block`: the index of the block that contains it; None: it spans several blocks.

    In a local array `start` is relative to that block.
    """

    start: Shape
    extent: Shape
    block: int | None = None


def volume(extent: Shape) -> int:
    """Number of elements of a box."""
    total = 1
    for length in extent:
        total *= length
    return total


@lru_cache(maxsize=64)
def is_tiled(blocks: tuple[Block, ...], shape: Shape) -> bool:
    """Whether the blocks contain every element of the array exactly once."""
    boxes = sorted(block for block in blocks if volume(block.extent))
    if sum(volume(box.extent) for box in boxes) != volume(shape):
        return False
    disjoint = _disjoint_by_cells(boxes, range(len(shape)))
    return _disjoint_by_sweep(boxes) if disjoint is None else disjoint


def _disjoint_by_cells(boxes: Sequence[Block], axes: range) -> bool | None:
    """Whether no two boxes overlap, by the cells between all their edges; None where there are too many cells.

    Fast for the blocks of a grid, which share their edges.
    """
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
    """The same, box by box in the order of their starts along the first axis."""
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
    return (start, extent) if all(length > 0 for length in extent) else None


def merged(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The same elements of a global array in fewer parts: neighbours that form a box together become one part."""
    found = list(parts)
    while True:
        joined: list[Part] = []
        for part in found:
            both = _union(joined[-1], part) if joined else None
            joined[-1:] = [both] if both is not None else [*joined[-1:], part]
        if len(joined) == len(found):
            return tuple(joined)
        found = joined


def _union(one: Part, other: Part) -> Part | None:
    """The box of two parts that follow each other along one axis; None where they do not form a box."""
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


# What `read: {strategy: …}` of a pipeline may be.
ReadStrategy = Literal[
    "auto", "hostname", "hostname:binpacking", "hostname:round-robin", "hostname:blocks",
    "binpacking", "round-robin", "blocks", "hyperslab", "all",
]  # fmt: skip
AUTO, HOSTNAME, HYPERSLAB, ALL = "auto", "hostname", "hyperslab", "all"
INNER = "binpacking"  # the inner strategy of plain `hostname`
STRATEGIES = [each for each in get_args(ReadStrategy) if each != AUTO]


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

    `shape`: of the global array; None for a local array, whose blocks are never cut. Where blocks overlap or leave
    holes, so that whole blocks would duplicate or lose elements, the result is that of `hyperslab`.
    Raises ValueError for an unknown strategy.
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
        first, number = block(len(places), len(shares), index)
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
    first, count = block(shape[0], readers, index)
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
