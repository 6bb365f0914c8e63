"""Blocks of a length and of a grid: complete, disjoint, balanced."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest

from workflow import stage


@pytest.mark.parametrize("length", [0, 1, 2, 7, 100, 2**40])
@pytest.mark.parametrize("parts", [1, 2, 3, 7, 64])
def test_blocks_are_complete_disjoint_and_balanced(length: int, parts: int) -> None:
    blocks = [stage.block(length, parts, index) for index in range(parts)]
    assert blocks[0][0] == 0
    assert all(start + count == after for (start, count), (after, _) in pairwise(blocks))
    assert sum(blocks[-1]) == length
    counts = [count for _, count in blocks]
    assert max(counts) - min(counts) <= 1
    assert counts == sorted(counts, reverse=True)


def test_by_default_a_block_is_this_ranks_own() -> None:
    assert stage.block(10) == (0, 10)
    assert stage.rank() == 0
    assert stage.size() == 1
    assert stage.communicator() is None


@pytest.mark.parametrize(("length", "parts", "index"), [(5, 0, 0), (5, 2, 2), (5, 2, -1), (-1, 2, 0)])
def test_impossible_blocks_are_refused(length: int, parts: int, index: int) -> None:
    with pytest.raises(ValueError, match="no block"):
        stage.block(length, parts, index)


@pytest.mark.parametrize(
    ("shape", "ranks", "parts"),
    [
        ((64, 64, 64), 1, (1, 1, 1)),
        ((64, 64, 64), 8, (2, 2, 2)),
        ((64, 64, 64), 6, (3, 2, 1)),
        ((64, 64), 4, (2, 2)),
        ((100, 10), 4, (4, 1)),
        ((10, 100), 4, (1, 4)),
        ((10, 10, 1000), 4, (1, 1, 4)),
        ((2, 64, 64), 7, (1, 7, 1)),
        ((5,), 5, (5,)),
        ((), 1, ()),
    ],
)
def test_a_grid_is_cut_with_little_surface_and_slow_axes_first(
    shape: tuple[int, ...], ranks: int, parts: tuple[int, ...]
) -> None:
    assert stage.grid(shape, ranks) == parts


@pytest.mark.parametrize(("shape", "ranks"), [((4, 4), 17), ((3, 3), 5), ((0, 4), 2), ((), 2)])
def test_a_grid_that_leaves_ranks_without_cells_is_refused(shape: tuple[int, ...], ranks: int) -> None:
    with pytest.raises(ValueError, match="cannot be divided"):
        stage.grid(shape, ranks)


@pytest.mark.parametrize("shape", [(7,), (8, 5), (6, 5, 4)])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_blocks_tile_the_grid(shape: tuple[int, ...], ranks: int) -> None:
    parts = stage.grid(shape, ranks)
    assert math.prod(parts) == ranks
    seen = np.zeros(shape, int)
    for rank in range(ranks):
        start, count = stage.block_of(shape, parts, rank)
        seen[tuple(slice(s, s + n) for s, n in zip(start, count, strict=True))] += 1
    assert (seen == 1).all()


def test_blocks_are_numbered_with_the_last_axis_fastest() -> None:
    corners = [stage.block_of((4, 6), (2, 3), rank)[0] for rank in range(6)]
    assert corners == list(product((0, 2), (0, 2, 4)))


@pytest.mark.parametrize(("parts", "rank"), [((2, 2), 4), ((2, 2), -1), ((2,), 0)])
def test_impossible_blocks_of_a_grid_are_refused(parts: tuple[int, ...], rank: int) -> None:
    with pytest.raises(ValueError, match=r"no block|different dimensions"):
        stage.block_of((4, 4), parts, rank)
