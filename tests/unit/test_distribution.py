"""Who reads what: complete, disjoint, near, balanced; and the same as openPMD-api where that means the same."""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain, product
from typing import Any

import openpmd_api as io
import pytest

from workflow.distribution import boxes
from workflow.distribution.boxes import Block, Part, is_tiled, merged, overlap, volume
from workflow.distribution.decomposition import block_of, grid
from workflow.distribution.strategies import ALL, DEALERS, STRATEGIES, Ranks, choose, distribute

GRIDS = [((23,), 4), ((11, 7), 6), ((6, 5, 4), 8), ((1, 9, 8), 4), ((4, 6), 1)]
ROWS = [[10, 3, 7, 5], [0, 4, 0, 9, 1], [1], [100, 1, 1, 1], [7] * 8]


def of_grid(shape: tuple[int, ...], ranks: int) -> tuple[Block, ...]:
    parts = grid(shape, ranks)
    return tuple(Block(*block_of(shape, parts, rank), rank) for rank in range(ranks))


def of_rows(rows: list[int], columns: int = 3) -> tuple[Block, ...]:
    return tuple(Block((sum(rows[:i]), 0), (n, columns), i) for i, n in enumerate(rows))


CASES = [(shape, of_grid(shape, ranks)) for shape, ranks in GRIDS] + [((sum(r), 3), of_rows(r)) for r in ROWS]


def elements(part: Part) -> Counter[tuple[int, ...]]:
    return Counter(product(*(range(s, s + n) for s, n in zip(part.start, part.extent, strict=True))))


def counted(shares: tuple[tuple[Part, ...], ...]) -> Counter[tuple[int, ...]]:
    return sum((elements(part) for share in shares for part in share), Counter())


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("readers", [1, 2, 3, 5])
@pytest.mark.parametrize("per_node", [0, 1, 2])
@pytest.mark.parametrize(("shape", "blocks"), CASES)
def test_every_element_is_read_once(
    strategy: str, readers: int, per_node: int, shape: tuple[int, ...], blocks: tuple[Block, ...]
) -> None:
    shares = distribute(strategy, blocks, shape, Ranks(len(blocks), 0, 2), Ranks(readers, 1, per_node))
    assert len(shares) == readers
    every = counted(((Part((0,) * len(shape), shape),),))
    times = readers if strategy == ALL else 1
    assert counted(shares) == Counter(dict.fromkeys(every, times))
    assert all(volume(part.extent) for share in shares for part in share)
    for share in shares:
        for part in share:
            if part.block is not None:
                assert overlap(part, blocks[part.block]) == (part.start, part.extent)
    # fewer parts, same elements
    assert counted(tuple(merged(share) for share in shares)) == counted(shares)
    assert all(len(merged(share)) <= len(share) for share in shares)


@pytest.mark.parametrize("strategy", ["round-robin", "blocks", "hostname:blocks", "hostname:round-robin"])
def test_whole_blocks_are_not_cut(strategy: str) -> None:
    for shape, blocks in CASES:
        shares = distribute(strategy, blocks, shape, Ranks(len(blocks)), Ranks(3))
        found = sorted(part.block for share in shares for part in share if part.block is not None)
        assert found == [place for place, block in enumerate(blocks) if volume(block.extent)]


@pytest.mark.parametrize("inner", DEALERS)
def test_blocks_stay_on_their_node_where_a_reader_is(inner: str) -> None:
    blocks = of_rows([4, 9, 1, 3, 8, 2])
    writers, readers = Ranks(6, 0, 2), Ranks(2, 1, 1)  # writers on nodes 0, 0, 1, 1, 2, 2; readers on 1, 2
    shares = distribute(f"hostname:{inner}", blocks, (27, 3), writers, readers)
    at = {part.block: reader for reader, share in enumerate(shares) for part in share if part.block is not None}
    assert [at[place] for place in (2, 3, 4, 5)] == [0, 0, 1, 1]
    assert distribute("hostname", blocks, (27, 3), writers, readers) == distribute(
        "hostname:binpacking", blocks, (27, 3), writers, readers
    )


def test_what_is_left_goes_to_those_who_have_least() -> None:
    blocks = of_rows([6, 6, 6, 6])
    shares = distribute("hostname:binpacking", blocks, (24, 3), Ranks(4, 0, 1), Ranks(4, 3, 1))
    # the reader beside writer 3 has its block already; the three others are elsewhere and get one each
    assert [[part.block for part in share] for share in shares] == [[3], [0], [1], [2]]


def test_bin_packing_is_balanced() -> None:
    random.seed(4)
    for _ in range(200):
        rows = [random.randint(0, 60) for _ in range(random.randint(1, 12))]
        readers = random.randint(1, 6)
        shares = distribute("binpacking", of_rows(rows, 1), (sum(rows), 1), Ranks(len(rows)), Ranks(readers))
        loads = [sum(volume(part.extent) for part in share) for share in shares]
        assert max(loads) <= 2 * -(-sum(rows) // readers)
        assert sum(loads) == sum(rows)


@pytest.mark.parametrize("cells", [0, 8])
def test_both_ways_to_find_overlaps_agree(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By cells where they are few, by a sweep otherwise."""
    monkeypatch.setattr(boxes, "CELLS_PER_BOX", cells)
    random.seed(1)
    for shape, blocks in CASES:
        boxes.is_tiled.cache_clear()
        assert is_tiled(blocks, shape)
        full = [place for place, block in enumerate(blocks) if volume(block.extent)]
        if len(full) < 2:
            continue
        # one block is taken for another of the same size
        one, other = random.sample([p for p in full if blocks[p].extent == blocks[full[0]].extent] * 2, 2)
        if one != other:
            moved = tuple(blocks[other] if place == one else block for place, block in enumerate(blocks))
            assert not is_tiled(moved, shape)
    boxes.is_tiled.cache_clear()


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Block((0, 0), (4, 4)), Part((2, 3), (4, 4)), ((2, 3), (2, 1))),
        (Block((2, 0), (4, 9)), Part((3, 1), (1, 2)), ((3, 1), (1, 2))),
        (Block((0, 0), (2, 4)), Part((2, 0), (2, 4)), None),  # neighbours
        (Block((0, 0), (2, 4)), Part((1, 5), (2, 4)), None),
        (Block((0,), (4,)), Part((2,), (0,)), None),  # nothing of it
        (Block((), ()), Part((), ()), ((), ())),  # a scalar is one element
    ],
)
def test_what_two_boxes_have_in_common(one: Block, other: Part, both: tuple[Any, Any] | None) -> None:
    assert overlap(one, other) == overlap(other, one) == both


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([Part((0, 0), (2, 3), 0), Part((2, 0), (1, 3), 1)], [Part((0, 0), (3, 3))]),
        ([Part((0, 0), (2, 3), 4), Part((0, 3), (2, 5), 4)], [Part((0, 0), (2, 8), 4)]),  # of the same block
        ([Part((0,), (2,), 0), Part((2,), (2,)), Part((4,), (1,), 0)], [Part((0,), (5,))]),
        (  # first the halves of each row, then the rows
            [Part((row, column), (1, 2)) for row in (0, 1) for column in (0, 2)],
            [Part((0, 0), (2, 4))],
        ),
        *(
            (parts, parts)
            for parts in (
                [Part((0, 0), (2, 3)), Part((3, 0), (1, 3))],  # a hole
                [Part((2, 0), (1, 3)), Part((0, 0), (2, 3))],  # the other order
                [Part((0, 0), (2, 3)), Part((2, 0), (1, 2))],  # not as wide
                [Part((0, 0), (2, 3)), Part((2, 1), (1, 3))],  # moved
                [Part((0, 0), (2, 3)), Part((2, 3), (2, 3))],  # corner to corner
                [Part((4,), (1,))],
                [],
            )
        ),
    ],
)
def test_parts_that_form_a_box_one_after_the_other_become_one(parts: list[Part], expected: list[Part]) -> None:
    assert merged(parts) == tuple(expected)


@pytest.mark.parametrize(
    "blocks",
    [
        (Block((0,), (4,), 0), Block((3,), (3,), 1)),  # overlap
        (Block((0,), (2,), 0), Block((4,), (2,), 1)),  # a hole
        (Block((0,), (4,), 0), Block((3,), (2,), 1)),  # both, and the sum is right
        (),
    ],
)
@pytest.mark.parametrize("strategy", [strategy for strategy in STRATEGIES if strategy != ALL])
def test_blocks_that_do_not_tile_the_array_are_not_dealt_out(blocks: tuple[Block, ...], strategy: str) -> None:
    assert not is_tiled(blocks, (6,))
    assert distribute(strategy, blocks, (6,), Ranks(2), Ranks(2)) == ((Part((0,), (3,)),), (Part((3,), (3,)),))


def test_an_array_without_elements_is_tiled_by_nothing() -> None:
    assert is_tiled((), (0, 4))
    assert is_tiled((Block((0, 0), (0, 4)),), (0, 4))
    assert not is_tiled((), ())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_local_arrays_are_never_cut_or_left_out(strategy: str) -> None:
    blocks = (Block((0,), (9,), 0), Block((0,), (0,), 1), Block((0,), (1,), 2))
    shares = distribute(strategy, blocks, None, Ranks(3), Ranks(2))
    parts = [part for share in shares for part in share]
    assert {part.block for part in parts} == {0, 1, 2}  # a block without elements is one, too
    assert len(parts) == (6 if strategy == ALL else 3)
    assert {part.extent for part in parts} == {(9,), (0,), (1,)}


def test_scalars_are_everybodys_concern_but_the_slab_of_one() -> None:
    assert distribute("hyperslab", (), (), Ranks(1), Ranks(2)) == ((Part((), ()),), (Part((), ()),))


@pytest.mark.parametrize("name", ["hostnames", "hostname:hyperslab", "binpacking:blocks", "", "auto"])
def test_there_are_no_other_strategies(name: str) -> None:
    with pytest.raises(ValueError, match="there is no strategy"):
        distribute(name, (), (4,), Ranks(1), Ranks(1))


@pytest.mark.parametrize(
    ("writers", "readers", "strategy", "because"),
    [
        (Ranks(8), Ranks(1), "hyperslab", "one rank"),
        (Ranks(8, 0, 2), Ranks(1, 3), "hyperslab", "one rank"),
        (Ranks(4), Ranks(2), "hyperslab", "one node"),
        (Ranks(4, 0, 2), Ranks(2, 0, 1), "hostname:binpacking", "meet on 2 of 2 nodes"),
        (Ranks(4, 0, 2), Ranks(4, 1, 2), "hostname:binpacking", "meet on 1 of 3 nodes"),
        (Ranks(8, 0, 4), Ranks(4, 2, 2), "blocks", "whole blocks of 2 each"),
        (Ranks(6, 0, 4), Ranks(4, 2, 2), "hyperslab", "do not divide"),
    ],
)
def test_auto_goes_by_nodes_and_ranks(writers: Ranks, readers: Ranks, strategy: str, because: str) -> None:
    chosen, why = choose(writers, readers)
    assert chosen == strategy
    assert because in why


# --- openPMD-api's own strategies, on the same blocks ---

Boxes = list[tuple[tuple[int, ...], tuple[int, ...]]]


def openpmd(strategy: Any, blocks: tuple[Block, ...], writers: Ranks, readers: Ranks) -> list[Boxes]:
    """What its strategy gives to every reader; some of them tell each reader only its own."""
    table = io.ChunkTable()
    for block in blocks:
        table.append(io.WrittenChunkInfo(list(block.start), list(block.extent), block.rank))
    hosts_in = {rank: str(writers.node(rank)) for rank in range(writers.number)}
    hosts_out = {rank: str(readers.node(rank)) for rank in range(readers.number)}
    found = []
    for me in range(readers.number):
        chunks = dict(strategy.assign(table, hosts_in, hosts_out, me, readers.number)).get(me, [])
        found.append(sorted((tuple(chunk.offset), tuple(chunk.extent)) for chunk in chunks))
    return found


def ours(strategy: str, blocks: tuple[Block, ...], shape: tuple[int, ...], writers: Ranks, readers: Ranks) -> Any:
    """The same form; slabs in the pieces that lie in one block each, as openPMD-api has them."""
    found: list[Boxes] = []
    for share in distribute(strategy, blocks, shape, writers, readers):
        pieces = [
            (part.start, part.extent) if part.block is not None else overlap(part, block)
            for part in share
            for block in (blocks if part.block is None else blocks[:1])
        ]
        found.append(sorted(piece for piece in pieces if piece is not None))
    return found


# openPMD-api deals out empty chunks too, which moves all that come after: compared where there are none.
FULL = [case for case in CASES if all(volume(block.extent) for block in case[1])]


@pytest.mark.parametrize("readers", [1, 2, 3, 5])
@pytest.mark.parametrize(("shape", "blocks"), FULL)
def test_as_openpmd_where_it_means_the_same(shape: tuple[int, ...], blocks: tuple[Block, ...], readers: int) -> None:
    slices = io.ByCuboidSlice(io.OneDimensionalBlockSlicer(0), list(shape))
    sides = Ranks(len(blocks)), Ranks(readers)
    assert ours("round-robin", blocks, shape, *sides) == openpmd(io.RoundRobin(), blocks, *sides)
    for name, strategy, length in (("blocks", io.Blocks(), len(blocks)), ("hyperslab", slices, shape[0])):
        mine, theirs = ours(name, blocks, shape, *sides), openpmd(strategy, blocks, *sides)
        if length % readers < 2:
            assert mine == theirs, name
        elif name == "blocks":  # numbers that differ by one: here the larger ones come first, there they are spread
            assert sorted(map(len, mine)) == sorted(map(len, theirs))
        else:
            assert amounts(mine) == amounts(theirs)


def amounts(shares: list[Boxes]) -> list[int]:
    """Elements of each reader, without saying which."""
    return sorted(sum(volume(extent) for _, extent in share) for share in shares)


@pytest.mark.parametrize(("inner", "dealer"), [("round-robin", io.RoundRobin), ("binpacking", io.BinPacking)])
def test_hostname_as_openpmd_when_every_writer_has_a_reader_beside_it(inner: str, dealer: Any) -> None:
    """openPMD-api needs a second strategy for chunks without a reader on their node; ours uses the inner one again."""
    blocks, writers, readers = of_rows([6] * 8), Ranks(8, 0, 4), Ranks(4, 0, 2)
    strategy = io.FromPartialStrategy(io.ByHostname(dealer()), io.FailingStrategy())
    mine, theirs = (
        ours(f"hostname:{inner}", blocks, (48, 3), writers, readers),
        openpmd(strategy, blocks, writers, readers),
    )
    for node in (0, 1):  # the same chunks on each node; equal ones are dealt out in another order by binpacking
        here = slice(2 * node, 2 * node + 2)
        assert sorted(chain(*mine[here])) == sorted(chain(*theirs[here]))
    assert amounts(mine) == amounts(theirs)
    if inner == "round-robin":
        assert mine == theirs


@pytest.mark.parametrize("readers", [1, 2, 3, 5])
@pytest.mark.parametrize(("shape", "blocks"), FULL)
def test_bin_packing_is_no_worse_than_openpmds(shape: tuple[int, ...], blocks: tuple[Block, ...], readers: int) -> None:
    """Not the same pieces: both cut big chunks into even shares and a rest; openPMD-api then fills the bins twice, one
    after the other (at most twice the best), ours gives the biggest to the emptiest (4/3)."""
    sides = Ranks(len(blocks)), Ranks(readers)
    theirs = openpmd(io.BinPacking(), blocks, *sides)
    mine = ours("binpacking", blocks, shape, *sides)
    assert sum(amounts(mine)) == sum(amounts(theirs)) == volume(shape)
    assert max(amounts(mine)) <= max(amounts(theirs))
