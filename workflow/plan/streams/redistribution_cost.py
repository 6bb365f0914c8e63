"""What each strategy costs on given blocks, before anything runs: requests, partners, distance, balance, bytes. Pure.

ADIOS2 (2.12.1) asks once for every block that a box touches, and moves the bytes from the first to the last one needed
in it (toolkit/format/bp5/BP5Deserializer.cpp, GenerateReadRequests): a cut across the slowest axis moves what is
needed, a cut across a faster one nearly the whole block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workflow.distribution import (
    HOSTNAME,
    STRATEGIES,
    Block,
    Part,
    Ranks,
    Shape,
    block_of,
    distribute,
    grid,
    is_tiled,
    overlap,
    volume,
)
from workflow.errors import WfError

# Plain `hostname` is the one of these that names its default for other nodes.
COMPARED = [each for each in STRATEGIES if each != HOSTNAME]
LINE = 2**20  # elements of each writer rank where nothing is known of the data


@dataclass(frozen=True)
class BlockLayout:
    """The blocks to judge by: as given, or assumed; `said` describes them."""

    blocks: tuple[Block, ...]
    shape: Shape
    said: str

    @property
    def tiled(self) -> bool:
        """Whether whole blocks can be dealt out."""
        return is_tiled(self.blocks, self.shape)


@dataclass(frozen=True)
class ReadCost:
    """One strategy on one set of blocks. Elements are those that the readers get, summed over them."""

    strategy: str
    requests: int
    requests_most: int
    partners_most: int
    partners_mean: float
    needed: int
    most: int
    moved: int
    remote: int
    readers: int

    @property
    def imbalance(self) -> float:
        """Elements of the reader with most ÷ mean of all readers."""
        return self.most * self.readers / self.needed if self.needed else 1.0

    @property
    def amplification(self) -> float:
        """Elements moved ÷ elements needed."""
        return self.moved / self.needed if self.needed else 1.0

    @property
    def remote_share(self) -> float:
        """Part of the moved elements that comes from another node, 0 to 1."""
        return self.remote / self.moved if self.moved else 0.0


def read_cost(strategy: str, given: BlockLayout, writers: Ranks, readers: Ranks) -> ReadCost:
    """The figures of one strategy. Time grows with readers × blocks for slabs."""
    shares = distribute(strategy, given.blocks, given.shape, writers, readers)
    # Readers that get the same, as all do of `all`, are counted once.
    touched = {parts: _touched(parts, given.blocks) for parts in dict.fromkeys(shares)}
    nodes = {(parts, readers.node(reader)) for reader, parts in enumerate(shares)}
    far = {
        (parts, node): sum(size for block, size in touched[parts] if writers.node(block.rank) != node)
        for parts, node in nodes
    }
    requests = {parts: len(found) for parts, found in touched.items()}
    partners = {parts: len({block.rank for block, _ in found}) for parts, found in touched.items()}
    needed = {parts: sum(volume(part.extent) for part in parts) for parts in touched}
    moved = {parts: sum(size for _, size in found) for parts, found in touched.items()}
    return ReadCost(
        strategy,
        requests=sum(requests[parts] for parts in shares),
        requests_most=max(requests.values()),
        partners_most=max(partners.values()),
        partners_mean=sum(partners[parts] for parts in shares) / len(shares),
        needed=sum(needed[parts] for parts in shares),
        most=max(needed.values()),
        moved=sum(moved[parts] for parts in shares),
        remote=sum(far[parts, readers.node(reader)] for reader, parts in enumerate(shares)),
        readers=len(shares),
    )


def span(block: Block, start: Shape, extent: Shape) -> int:
    """Elements from the first to the last of a box inside a block, as they lie in memory (last axis fastest)."""
    first, last, stride = 0, 0, 1
    for axis in reversed(range(len(extent))):
        inside = start[axis] - block.start[axis]
        first += inside * stride
        last += (inside + extent[axis] - 1) * stride
        stride *= block.extent[axis]
    return last - first + 1


def blocks_of_shape(shape: Shape, writers: int) -> BlockLayout:
    """A grid cut into one block per writer rank with the least surface. Raises WfError when it is too small."""
    try:
        parts = grid(shape, writers)
    except ValueError as error:
        raise WfError(str(error), "give a larger --shape, or the blocks themselves: --blocks") from None
    blocks = tuple(Block(*block_of(shape, parts, rank), rank) for rank in range(writers))
    sizes, cuts = " x ".join(map(str, shape)), " x ".join(map(str, parts))
    return BlockLayout(blocks, shape, f"{sizes} elements, cut into {cuts} blocks")


def blocks_of_rows(rows: Sequence[int], rest: Shape, writers: int) -> BlockLayout:
    """Rows of a table, so many of each writer rank, as of particles. Raises WfError for another number of ranks."""
    if len(rows) != writers:
        raise WfError(f"--blocks has {len(rows)} numbers, the stream has {writers} writing ranks", "one for each rank")
    starts = [sum(rows[:rank]) for rank in range(len(rows))]
    zeros = (0,) * len(rest)
    pairs = enumerate(zip(starts, rows, strict=True))
    blocks = tuple(Block((first, *zeros), (number, *rest), rank) for rank, (first, number) in pairs)
    return BlockLayout(blocks, (sum(rows), *rest), f"{sum(rows)} rows, {min(rows)} to {max(rows)} of each writing rank")


def blocks_of_line(writers: int) -> BlockLayout:
    """Equal blocks along one axis, where nothing else is known."""
    made = blocks_of_rows([LINE] * writers, (), writers)
    return BlockLayout(
        made.blocks, made.shape, f"assumed: {LINE} elements of each writing rank, side by side; give --shape"
    )


def _touched(parts: Sequence[Part], blocks: Sequence[Block]) -> list[tuple[Block, int]]:
    """(block, elements moved of it) for every request."""
    found = []
    for part in parts:
        if part.block is not None:
            found.append((blocks[part.block], span(blocks[part.block], part.start, part.extent)))
            continue
        first, end = part.start[0], part.start[0] + part.extent[0]
        for block in blocks:
            # most of them end here
            if block.start[0] < end and first < block.start[0] + block.extent[0] and (box := overlap(part, block)):
                found.append((block, span(block, *box)))
    return found
