"""Lengths and grids divided into one block per rank. Pure arithmetic. All lengths are numbers of elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod


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
