"""This rank's share of a variable: which boxes, by the strategy of its stream, from the blocks that the writer put."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from workflow.distribution import ALL, HYPERSLAB, STRATEGIES, Block, Ranks, distribute, merged
from workflow.formats.stage_file import StreamEnd
from workflow.stage.data.contract_check import near
from workflow.stage.data.variables import Array, Info, Selection, Shape
from workflow.stage.ranks.communicator import rank as this_rank
from workflow.stage.ranks.communicator import size as all_ranks
from workflow.stage.stage_errors import StageError

BLIND = (HYPERSLAB, ALL)  # what needs to know nothing of the blocks


class Piece(NamedTuple):
    """One box of a variable: its values, and where it begins in the global array.

    Of an array in local blocks, which has no global shape, `start` is zeros and `block` the block's number.
    """

    values: Array
    start: Shape
    block: int | None = None


class Blocks(NamedTuple):
    """The blocks of one variable in one step, in ADIOS2's order; `local`: of an array without a global shape."""

    blocks: tuple[Block, ...] = ()
    local: bool = False


class KnowsBlocks(Protocol):
    """As much of a source as is needed here."""

    def blocks(self, names: Sequence[str]) -> dict[str, Blocks]:
        """How the writer's ranks put these variables, as far as it is known."""


class Sharing(NamedTuple):
    """How a stage shares what it reads: a strategy, and the ranks of both sides as far as they are known."""

    strategy: str
    writers: Ranks
    readers: Ranks


def share_out(
    source: KnowsBlocks, wanted: Mapping[str, Info], end: StreamEnd, strategy: str | None, like: str | None
) -> dict[str, list[Selection]]:
    """The boxes of this rank, equally many on every rank, by variable. See `Step.shares`."""
    sharing = _sharing(end, strategy)
    if like is not None and like not in wanted:
        raise StageError(f"stream {end.stream}: like={like!r} is none of the variables {', '.join(wanted)}")
    leaders = {name: info.shape for name, info in wanted.items() if like in (None, name)}
    # Asking costs time, and where no blocks are needed it only tells local arrays, which have no shape, from scalars.
    asked = [name for name, shape in leaders.items() if not shape or sharing.strategy not in BLIND]
    known = source.blocks(asked) if asked else {}
    own = {name: _own(name, shape, known.get(name), sharing) for name, shape in leaders.items()}
    if like is None:
        return own
    shape = leaders[like]
    rows = {name: _rows(name, info.shape, own[like], shape) for name, info in wanted.items() if name != like}
    return own | rows


def told_blocks(told: Sequence[Mapping[str, str]], local: bool) -> tuple[Block, ...]:
    """What ADIOS2's `BlocksInfo` says, in numbers."""
    found = []
    for each in told:
        extent = _numbers(each["Count"])
        start = (0,) * len(extent) if local else _numbers(each["Start"])
        found.append(Block(start, extent, int(each.get("WriterID", 0))))
    return tuple(found)


def _sharing(end: StreamEnd, strategy: str | None) -> Sharing:
    """What the plan gave to this end, or slabs; `strategy` instead where it is given."""
    if strategy is not None and strategy not in STRATEGIES:
        raise StageError(f"stream {end.stream}: there is no strategy {strategy!r}{near(strategy, STRATEGIES)}")
    told = end.share or {}
    writers, readers = (Ranks(**told[side]) if side in told else Ranks(1) for side in ("writers", "readers"))
    # Each rank that is there must get its share, whatever was planned.
    return Sharing(strategy or told.get("strategy", HYPERSLAB), writers, readers._replace(number=all_ranks()))


def _own(name: str, shape: Shape, found: Blocks | None, sharing: Sharing) -> list[Selection]:
    """This rank's boxes of one variable, with empty ones up to the number that the rank with most of them has."""
    blocks, local = found or Blocks()
    strategy = sharing.strategy if found or sharing.strategy in BLIND else HYPERSLAB
    dealt = distribute(strategy, blocks, None if local else shape, sharing.writers, sharing.readers)
    shares = [share if local else merged(share) for share in dealt]
    boxes = [Selection(name, part.start, part.extent, part.block if local else None) for part in shares[this_rank()]]
    rest = blocks[0].extent[1:] if local and blocks else shape[1:]
    empty = Selection(name, (0,) * (len(rest) + 1), (0, *rest), 0 if local else None)
    return boxes + [empty] * (max(1, *map(len, shares)) - len(boxes))


def _rows(name: str, shape: Shape, leading: Sequence[Selection], like: Shape) -> list[Selection]:
    """The boxes with the same indices along the first axis."""
    leader = leading[0].name
    if not like or not shape or like[0] != shape[0]:
        raise StageError(f"{name} has shape {shape}, {leader} has {like}: they have not the same rows")
    if any(box.extent[0] and box.extent[1:] != like[1:] for box in leading):
        raise StageError(f"{leader} comes in blocks of parts of rows, so {name} has no rows like them; use `hyperslab`")
    rest = shape[1:]
    return [Selection(name, (box.start[0], *(0 for _ in rest)), (box.extent[0], *rest)) for box in leading]


def _numbers(text: str) -> Shape:
    return tuple(int(word) for word in text.split(",") if word)
