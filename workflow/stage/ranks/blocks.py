"""Who works on what: shares of a length and of a grid, one per rank of this stage."""

from __future__ import annotations

from collections.abc import Sequence

from workflow import decomposition
from workflow.stage.ranks.communicator import rank as this_rank
from workflow.stage.ranks.communicator import size as all_ranks


def block(length: int, parts: int | None = None, index: int | None = None) -> tuple[int, int]:
    """(start, count) of share `index` of `length` elements cut into `parts`: by default, this rank's.

    Shares differ by at most one element, the larger ones first; with more parts than elements some
    are empty. Raises ValueError when index is not in 0..parts-1.
    """
    return decomposition.block(length, all_ranks() if parts is None else parts, this_rank() if index is None else index)


def grid(shape: Sequence[int], ranks: int | None = None) -> tuple[int, ...]:
    """Number of parts per axis, their product being `ranks`, that cuts a grid with the least surface.

    Equal surfaces are decided for cuts of the slower (first) axes: such blocks lie contiguously in
    memory and in files. Raises ValueError when some rank would get nothing.
    """
    return decomposition.grid(shape, all_ranks() if ranks is None else ranks)


def block_of(
    shape: Sequence[int], parts: Sequence[int], rank: int | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(start, count) of the block of `rank` when `shape` is cut into `parts` per axis, last axis fastest.

    Raises ValueError when rank is not in 0..product(parts)-1 or the dimensions differ.
    """
    return decomposition.block_of(shape, parts, this_rank() if rank is None else rank)
