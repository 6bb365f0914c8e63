"""Domain decomposition: one block of a length or of a grid for each rank of this stage. Lengths are in elements."""

from __future__ import annotations

from collections.abc import Sequence

from workflow.distribution import decomposition
from workflow.stage.ranks.communicator import rank as this_rank
from workflow.stage.ranks.communicator import size as all_ranks


def block(length: int, parts: int | None = None, index: int | None = None) -> tuple[int, int]:
    """(start, count) of block `index` when `length` elements are divided into `parts` blocks.

    By default this rank's block of as many as there are ranks. Counts differ by at most one, the larger ones first;
    with more parts than elements some blocks are empty. Raises ValueError when index is not in 0..parts-1 or length is
    negative.
    """
    return decomposition.block(length, all_ranks() if parts is None else parts, this_rank() if index is None else index)


def grid(shape: Sequence[int], ranks: int | None = None) -> tuple[int, ...]:
    """Number of blocks along each axis, with product `ranks` (by default this stage's), with the least surface.

    Among equal surfaces the one that cuts the slower (first) axes is chosen: such blocks are contiguous in memory and
    in files. Raises ValueError when no division gives every rank at least one element.
    """
    return decomposition.grid(shape, all_ranks() if ranks is None else ranks)


def block_of(
    shape: Sequence[int], parts: Sequence[int], rank: int | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(start, count) per axis of the block of `rank` (by default this one), with `parts` blocks along each axis.

    Ranks count along the last axis first. Raises ValueError when rank is not in 0..product(parts)-1 or when `shape`
    and `parts` have different lengths.
    """
    return decomposition.block_of(shape, parts, this_rank() if rank is None else rank)
