"""Lengths and grids cut into parts. Pure arithmetic, for both sides of the house."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache


def block(length: int, parts: int, index: int) -> tuple[int, int]:
    """(start, count) of share `index` of `length` elements cut into `parts`.

    Shares differ by at most one element, the larger ones first; with more parts than elements some
    are empty. Raises ValueError when index is not in 0..parts-1.
    """
    if parts < 1 or not 0 <= index < parts or length < 0:
        raise ValueError(f"no share {index} of {length} elements in {parts} parts")
    count, left = divmod(length, parts)
    return index * count + min(index, left), count + (index < left)


def grid(shape: Sequence[int], ranks: int) -> tuple[int, ...]:
    """Number of parts per axis, their product being `ranks`, that cuts a grid with the least surface.

    Equal surfaces are decided for cuts of the slower (first) axes: such blocks lie contiguously in
    memory and in files. Raises ValueError when some rank would get nothing.
    """
    lengths = tuple(int(length) for length in shape)
    candidates = [parts for parts in _factors(ranks, len(lengths)) if _fits(parts, lengths)]
    if not candidates:
        raise ValueError(
            f"a grid of {' x '.join(map(str, lengths))} cannot be cut into {ranks} blocks that are not empty"
        )
    return min(candidates, key=lambda parts: (_surface(parts, lengths), tuple(-p for p in parts)))


def block_of(shape: Sequence[int], parts: Sequence[int], rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(start, count) of the block of `rank` when `shape` is cut into `parts` per axis, last axis fastest.

    Raises ValueError when rank is not in 0..product(parts)-1 or the dimensions differ.
    """
    if len(shape) != len(parts):
        raise ValueError(f"shape {tuple(shape)} and parts {tuple(parts)} have different dimensions")
    place, left = [], rank
    for n in reversed(parts):
        left, index = divmod(left, n)
        place.append(index)
    if left or rank < 0:
        raise ValueError(f"no block {rank} in a grid of {' x '.join(map(str, parts))} blocks")
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


def _surface(parts: tuple[int, ...], shape: tuple[int, ...]) -> float:
    """Area of all cuts, in elements: along an axis cut into n parts there are n-1 cross-sections."""
    volume = 1.0
    for length in shape:
        volume *= length
    return sum((n - 1) * volume / length for n, length in zip(parts, shape, strict=True) if length)
