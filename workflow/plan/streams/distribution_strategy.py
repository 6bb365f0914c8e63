"""Which rank reads what of each stream: the strategy of every reading end, and what each strategy would cost.

The strategies are in `workflow.distribution`; blocks are known only when they are written, so `workflow.stage` deals
them out, from what is decided here. The reasons: docs/decisions/0010-who-reads-what.md.

Costs, for `wf plan --strategies`, are requests, partners, distance, balance and bytes. ADIOS2 (2.12.1) asks once for
every block that a box touches, and moves the bytes from the first to the last one needed in it
(toolkit/format/bp5/BP5Deserializer.cpp, GenerateReadRequests): a cut across the slowest axis moves what is needed, a
cut across a faster one nearly the whole block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workflow.distribution import (
    ALL,
    HOSTNAME,
    HYPERSLAB,
    STRATEGIES,
    Block,
    Part,
    Ranks,
    Shape,
    block_of,
    choose,
    distribute,
    grid,
    is_tiled,
    overlap,
    volume,
)
from workflow.errors import WfError
from workflow.plan.plan_model import Placement, RanksPlan, SharePlan
from workflow.plan.plan_notes import Notes
from workflow.plan.topology.declared_stages import DeclaredStage
from workflow.plan.topology.ports import JoinedStream, StagePort
from workflow.site.site_model import Site
from workflow.spec.origins import Origins


def decide_share(
    port: StagePort,
    joined: JoinedStream,
    stages: Mapping[str, DeclaredStage],
    placements: Mapping[str, Placement],
    site: Site,
    origins: Origins,
    notes: Notes,
) -> SharePlan | None:
    """The share of one reading end; None where there is nothing to share."""
    name, stream, engine = joined.name, joined.spec, joined.engine
    if not port.shares or not engine.traits.has_steps or joined.writer is None:
        return None
    writers, readers = (_ranks_of(stages[stage], placements) for stage in (joined.writer.stage, port.stage))
    if not engine.traits.records_blocks and stream.strategy not in (HYPERSLAB, ALL):
        strategy, why = HYPERSLAB, f"{engine.engine} files do not record which rank wrote which part: equal slabs"
    elif stream.strategy != "auto":
        strategy, why = stream.strategy, f"requested ({origins.of(f'streams.{name}.strategy')})"
    else:
        strategy, why = choose(writers, readers)
        if strategy != HYPERSLAB and site.parallel_adios2 is False:
            strategy, why = HYPERSLAB, "rank 0 moves the data of all ranks: this ADIOS2 is built without MPI"
    notes.why(f"streams.{name}.read.{port.stage}.strategy", why)
    return SharePlan(strategy=strategy, writers=_plan(writers), readers=_plan(readers))


def _ranks_of(stage: DeclaredStage, placements: Mapping[str, Placement]) -> Ranks:
    """Where the ranks of a stage are: as the launchers deal them out, node after node."""
    placement = placements[stage.name]
    return Ranks(stage.spec.ranks, placement.nodes[0][0], placement.ranks_per_node)


def _plan(ranks: Ranks) -> RanksPlan:
    return RanksPlan(**ranks._asdict())


def check_strategy(joined: JoinedStream, stages: Mapping[str, DeclaredStage], notes: Notes) -> None:
    """Notes a `strategy:` that no reader can follow: it would be ignored silently."""
    name, stream, engine = joined.name, joined.spec, joined.engine
    key = f"streams.{name}.strategy"
    if stream.strategy == "auto":
        return
    ignoring = [port for port in joined.readers if not port.shares]
    without_blocks = engine.traits.has_steps and stream.strategy in (HYPERSLAB, ALL)
    if not engine.traits.records_blocks and not without_blocks:
        notes.not_used(key, stream.via, "it is not recorded which rank wrote what")
    elif ignoring and len(ignoring) == len(joined.readers):
        whys = [_why_ignored(stages[port.stage], port) for port in ignoring]
        notes.problems.add(
            key,
            f"{' and '.join(whys)}: a strategy would have no effect",
            "remove it; only programs that read by `step.share` of workflow.stage follow a strategy",
        )
    # One rank alone gets everything once by any strategy.
    summing = [port.stage for port in joined.readers if port.shares == "once" and stages[port.stage].spec.ranks > 1]
    if stream.strategy == ALL and summing:
        notes.problems.add(
            key,
            f"every rank of {' and '.join(summing)} would get everything, and its component needs every element once",
            f"remove it, or `strategy: {HYPERSLAB}`",
        )
    for port in ignoring:
        notes.why(f"streams.{name}.read.{port.stage}.strategy", f"not used: {_why_ignored(stages[port.stage], port)}")


def _why_ignored(stage: DeclaredStage, port: StagePort) -> str:
    if stage.component is not None:
        return f"component {stage.spec.component} of stage {port.stage} does not share out what it reads there"
    return f"the program of stage {port.stage} does not read through workflow.stage"


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
