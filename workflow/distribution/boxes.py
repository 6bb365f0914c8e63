"""Boxes of arrays: blocks as they were written, and the parts that readers get. Starts and extents are in elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from operator import sub
from typing import NamedTuple

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


def is_covered(box: Block | Part, blocks: tuple[Block, ...]) -> bool:
    """Whether the blocks contain every element of a box. False also where they overlap and that is not clear."""
    common = [Block(*each) for block in blocks if (each := overlap(box, block)) is not None]
    if any(each.extent == tuple(box.extent) for each in common):
        return True
    origin = [Block(tuple(map(sub, each.start, box.start)), each.extent) for each in common]
    return is_tiled(tuple(origin), tuple(box.extent))


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
