"""Lengths and grids cut into parts."""

from __future__ import annotations

import pytest

from workflow.distribution import block, block_of, grid


@pytest.mark.parametrize(
    ("shape", "ranks", "parts"),
    [
        ((8, 8, 8), 2, (2, 1, 1)),  # all three cuts have the same surface: the slowest axis is cut
        ((8, 8, 8), 4, (2, 2, 1)),
        ((8, 8, 8), 8, (2, 2, 2)),
        ((4, 8), 2, (1, 2)),  # the shorter cross-section wins over the slower axis
        ((8, 4), 2, (2, 1)),
        ((6, 6), 6, (3, 2)),
        ((6, 9), 6, (2, 3)),
        ((2, 9), 6, (1, 6)),
        ((3, 100, 3), 5, (1, 5, 1)),
        ((7,), 7, (7,)),
        ((2, 2), 4, (2, 2)),
        ((), 1, ()),
    ],
)
def test_a_grid_is_cut_with_the_least_surface_and_of_equal_ones_along_the_slower_axis(
    shape: tuple[int, ...], ranks: int, parts: tuple[int, ...]
) -> None:
    assert grid(shape, ranks) == parts


@pytest.mark.parametrize(("shape", "ranks"), [((7,), 8), ((2, 2), 5), ((3, 3), 8), ((), 2), ((0, 4), 1)])
def test_a_grid_with_empty_blocks_is_refused(shape: tuple[int, ...], ranks: int) -> None:
    lengths = " x ".join(map(str, shape))
    with pytest.raises(ValueError, match=rf"^a grid of {lengths} cannot be divided into {ranks} non-empty blocks"):
        grid(shape, ranks)


@pytest.mark.parametrize(("length", "parts", "index"), [(5, 0, 0), (5, 2, 2), (5, 2, -1), (-1, 2, 0)])
def test_a_share_that_does_not_exist_is_refused(length: int, parts: int, index: int) -> None:
    with pytest.raises(ValueError, match=rf"^there is no block {index} of {length} elements in {parts} blocks$"):
        block(length, parts, index)


def test_the_larger_shares_come_first() -> None:
    assert [block(8, 3, index) for index in range(3)] == [(0, 3), (3, 3), (6, 2)]
    assert [block(1, 2, index) for index in range(2)] == [(0, 1), (1, 0)]
    assert block(0, 1, 0) == (0, 0)


def test_the_last_axis_is_the_fastest() -> None:
    assert [block_of((4, 9), (2, 3), rank) for rank in (0, 1, 2, 3, 5)] == [
        ((0, 0), (2, 3)), ((0, 3), (2, 3)), ((0, 6), (2, 3)), ((2, 0), (2, 3)), ((2, 6), (2, 3)),
    ]  # fmt: skip


@pytest.mark.parametrize("rank", [-1, 6])
def test_a_block_that_does_not_exist_is_refused(rank: int) -> None:
    with pytest.raises(ValueError, match=rf"^there is no block {rank} in a grid of 2 x 3 blocks$"):
        block_of((4, 9), (2, 3), rank)


def test_shape_and_parts_have_the_same_dimensions() -> None:
    with pytest.raises(ValueError, match=r"^shape \(4, 9\) and parts \(2,\) have different dimensions$"):
        block_of((4, 9), (2,), 0)
