"""Which boxes of a variable this rank reads: the stream's strategy, applied to the blocks that the writer put."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from workflow.distribution import ALL, HYPERSLAB, STRATEGIES, Ranks, Shape, distribute, merged
from workflow.formats.stage_file import StreamEnd
from workflow.stage.data.contract_check import near
from workflow.stage.data.variables import Array, BlockTable, Info, Selection
from workflow.stage.ranks.communicator import rank as this_rank
from workflow.stage.ranks.communicator import size as all_ranks
from workflow.stage.stage_errors import StageError
from workflow.stage.stream_engines import ReadEngine

BLOCKS_UNUSED = (HYPERSLAB, ALL)  # strategies that do not depend on the writer's blocks


class Piece(NamedTuple):
    """One box of a variable: `values` is an array of shape [n, m, …], `start` is where it begins in the global array.

    Of an array in local blocks, which has no global shape, `start` is zeros and `block` the number of the block.
    """

    values: Array
    start: Shape
    block: int | None = None


class Sharing(NamedTuple):
    """How the reader's ranks share a variable: a strategy, and the ranks of both sides by node, as far as known."""

    strategy: str
    writers: Ranks
    readers: Ranks


def select_boxes(
    engine: ReadEngine, wanted: Mapping[str, Info], end: StreamEnd, strategy: str | None, like: str | None
) -> dict[str, list[Selection]]:
    """The boxes of this rank by variable; the same number of boxes on every rank. See `Step.shares`."""
    sharing = _sharing(end, strategy)
    if like is not None and like not in wanted:
        raise StageError(f"stream {end.stream}: like={like!r} is none of the variables {', '.join(wanted)}")
    leaders = {name: info.shape for name, info in wanted.items() if like in (None, name)}
    # A query takes time. Where the strategy does not need blocks, it only tells local arrays, without a shape, from
    # scalars.
    queried = [name for name, shape in leaders.items() if not shape or sharing.strategy not in BLOCKS_UNUSED]
    known = engine.blocks(queried) if queried else {}
    own = {name: _own_boxes(name, shape, known.get(name), sharing) for name, shape in leaders.items()}
    if like is None:
        return own
    shape = leaders[like]
    return own | {name: _same_rows(name, info.shape, own[like], shape) for name, info in wanted.items() if name != like}


def _sharing(end: StreamEnd, strategy: str | None) -> Sharing:
    """The plan's strategy for this end, or slabs; `strategy` instead where it is given."""
    if strategy is not None and strategy not in STRATEGIES:
        raise StageError(f"stream {end.stream}: there is no strategy {strategy!r}{near(strategy, STRATEGIES)}")
    planned = end.share or {}
    writers, readers = (Ranks(**planned[side]) if side in planned else Ranks(1) for side in ("writers", "readers"))
    # By hand the number of ranks may be another one than the plan's: every rank that exists gets its share.
    return Sharing(strategy or planned.get("strategy", HYPERSLAB), writers, readers._replace(number=all_ranks()))


def _own_boxes(name: str, shape: Shape, found: BlockTable | None, sharing: Sharing) -> list[Selection]:
    """This rank's boxes of one variable, filled up with empty ones to the largest number that any rank has."""
    blocks, local = found or BlockTable()
    strategy = sharing.strategy if found or sharing.strategy in BLOCKS_UNUSED else HYPERSLAB
    dealt = distribute(strategy, blocks, None if local else shape, sharing.writers, sharing.readers)
    shares = [share if local else merged(share) for share in dealt]
    boxes = [Selection(name, part.start, part.extent, part.block if local else None) for part in shares[this_rank()]]
    rest = blocks[0].extent[1:] if local and blocks else shape[1:]
    empty = Selection(name, (0,) * (len(rest) + 1), (0, *rest), 0 if local else None)
    return boxes + [empty] * (max(1, *map(len, shares)) - len(boxes))


def _same_rows(name: str, shape: Shape, leading: Sequence[Selection], like: Shape) -> list[Selection]:
    """The boxes of variable `name` that have the same indices along the first axis as the boxes `leading`."""
    leader = leading[0].name
    if not like or not shape or like[0] != shape[0]:
        raise StageError(f"{name} has shape {shape}, {leader} has {like}: they do not have the same rows")
    if any(box.extent[0] and box.extent[1:] != like[1:] for box in leading):
        raise StageError(
            f"the blocks of {leader} hold only parts of rows, so the matching rows of {name} are not defined; "
            "use the strategy `hyperslab`"
        )
    rest = shape[1:]
    return [Selection(name, (box.start[0], *(0 for _ in rest)), (box.extent[0], *rest)) for box in leading]
