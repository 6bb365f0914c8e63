"""What the plan decides about who reads what, and what it says that each strategy would cost."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.planner import CHAIN, SITE, Planner, end_of
from workflow.cli.main import wf
from workflow.distribution.boxes import Block
from workflow.distribution.strategies import Ranks
from workflow.errors import WfError
from workflow.plan.plan_model import SharePlan
from workflow.plan.streams.redistribution_cost import BlockLayout, blocks_of_rows, blocks_of_shape, read_cost, span
from workflow.report.show.strategy_table import read_blocks, strategies_tables

FOUR_NODES = SITE.model_copy(update={"nodes": 4})
APART = ("stages.walk.ranks=8", "stages.walk.place.nodes=2", "stages.count.ranks=4", "stages.count.place.nodes=2")
MEET = ("stages.walk.ranks=4", "stages.walk.place.nodes=2", "stages.count.ranks=2", "stages.count.place.share=walk")
OWN = """
stages:
  walk: {component: walker, ranks: 2}
  mine: {command: [./mine], ranks: 2, reads: {positions: {}}}
streams:
  positions: {from: walk, to: mine, strategy: all}
"""


def share_of(plan_of: Planner, *sets: str, via: str | None = None) -> tuple[SharePlan, str]:
    plan = plan_of(sets=sets, via=via, site=FOUR_NODES)
    share = end_of(plan, "count", "positions").share
    assert share is not None
    return share, plan.reasons["streams.positions.read.count.strategy"]


@pytest.mark.parametrize(
    ("sets", "strategy", "because"),
    [
        ((), "hyperslab", "one rank reads everything"),
        (("stages.walk.ranks=2", "stages.count.ranks=2"), "blocks", "whole blocks of 1 each"),
        (APART, "blocks", "whole blocks of 2 each"),
        (MEET, "hostname:binpacking", "meet on 2 of 2 nodes"),
        ((*APART, "streams.positions.strategy=round-robin"), "round-robin", "requested (--set"),
    ],
)
def test_the_strategy_and_its_reason(plan_of: Planner, sets: tuple[str, ...], strategy: str, because: str) -> None:
    share, why = share_of(plan_of, *sets)
    assert share.strategy == strategy
    assert because in why


def test_both_sides_are_told_by_node(plan_of: Planner) -> None:
    share, _ = share_of(plan_of, *APART)
    assert share.writers.model_dump() == {"number": 8, "first_node": 0, "per_node": 4}
    assert share.readers.model_dump() == {"number": 4, "first_node": 2, "per_node": 2}
    plan = plan_of(sets=APART, site=FOUR_NODES)
    assert end_of(plan, "walk", "positions").share is None
    assert end_of(plan, "keep", "counts").share is None  # its component does not share out what it reads


def test_the_size_of_the_plan_does_not_depend_on_the_ranks(plan_of: Planner) -> None:
    few, many = ([f"stages.{stage}.ranks={n}" for stage in ("walk", "count")] for n in (2, 4000))
    sizes = [len(plan_of(sets=(*sets, "oversubscribe=true")).to_json()) for sets in (few, many)]
    assert sizes[1] - sizes[0] < 1000  # larger numbers, and an advice or two


def test_hdf5_knows_no_blocks(plan_of: Planner) -> None:
    share, why = share_of(plan_of, *MEET, via="hdf5")
    assert share.strategy == "hyperslab"
    assert "do not record which rank wrote which part" in why
    plan = plan_of(CHAIN.replace("to: count}", "to: count, strategy: blocks}"), via="hdf5")
    assert "not used with `via: hdf5`" in plan.reasons["streams.positions.strategy"]


def test_a_program_of_ones_own_may_take_everything(plan_of: Planner) -> None:
    share = end_of(plan_of(OWN), "mine", "positions").share
    assert share is not None
    assert share.strategy == "all"


def test_nothing_is_near_where_rank_0_moves_the_data_of_all(plan_of: Planner) -> None:
    plan = plan_of(sets=MEET, site=FOUR_NODES.model_copy(update={"parallel_adios2": False}))
    share = end_of(plan, "count", "positions").share
    assert share is not None
    assert share.strategy == "hyperslab"
    assert "rank 0 moves the data" in plan.reasons["streams.positions.read.count.strategy"]


def test_one_rank_gets_everything_once_by_any_strategy(plan_of: Planner) -> None:
    """As the relay of a tap, which nobody can tell another strategy."""
    both = CHAIN.replace("to: count}", "to: count, strategy: all}")
    share = end_of(plan_of(both), "count", "positions").share
    assert share is not None
    assert share.strategy == "all"
    with pytest.raises(WfError, match="every rank of count would get everything"):
        plan_of(both, sets=("stages.count.ranks=2",))


# --- figures ---

SQUARE = tuple(Block((2 * (rank // 2), 2 * (rank % 2)), (2, 2), rank) for rank in range(4))  # 4 x 4 in four quarters


def test_a_span_goes_from_the_first_to_the_last_needed() -> None:
    block = Block((10, 20), (4, 5))
    assert span(block, (10, 20), (4, 5)) == 20
    assert span(block, (11, 20), (2, 5)) == 10  # whole rows: nothing more
    assert span(block, (10, 22), (4, 1)) == 16  # one column: all rows between
    assert span(block, (13, 24), (1, 1)) == 1


def test_figures_by_hand() -> None:
    given = BlockLayout(SQUARE, (4, 4), "")
    writers, readers = Ranks(4, 0, 2), Ranks(2, 0, 1)
    found = read_cost("hyperslab", given, writers, readers)  # two slabs of two quarters each, one quarter high
    assert (found.requests, found.requests_most, found.partners_most, found.partners_mean) == (4, 2, 2, 2.0)
    assert (found.needed, found.moved, found.remote, found.imbalance) == (16, 16, 0, 1.0)
    found = read_cost("hyperslab", given, writers, Ranks(2, 1, 1))  # the second reader is on a node without a writer
    assert found.remote == 16
    found = read_cost("all", given, writers, readers)
    assert (found.requests, found.needed, found.remote_share) == (8, 32, 0.5)
    found = read_cost("round-robin", given, writers, readers)  # 0 and 2, 1 and 3
    assert (found.requests, found.partners_mean, found.remote_share) == (4, 2.0, 0.5)
    assert read_cost("hostname", given, writers, readers).remote == 0
    uneven = blocks_of_rows([6, 1, 1], (), 3)
    found = read_cost("blocks", uneven, Ranks(3), Ranks(3))
    assert (found.imbalance, found.partners_most) == (6 * 3 / 8, 1)
    assert read_cost("binpacking", uneven, Ranks(3), Ranks(3)).imbalance == 3 * 3 / 8
    assert read_cost("hyperslab", BlockLayout((), (0, 3), ""), Ranks(1), Ranks(2)).amplification == 1.0


def test_a_cut_across_a_fast_axis_moves_more_than_is_needed() -> None:
    # one block behind the other along the fast axis, and three planes of it: the slabs are whole planes
    flat = BlockLayout((Block((0, 0, 0), (1, 4, 6)),), (1, 4, 6), "")
    found = read_cost("binpacking", flat, Ranks(1), Ranks(2))
    assert (found.moved, found.needed) == (24, 24)  # cut across the slowest axis that can be cut
    tall = BlockLayout((Block((0, 0), (2, 8)), Block((2, 0), (2, 8), 1)), (4, 8), "")
    assert read_cost("hyperslab", tall, Ranks(2), Ranks(3)).amplification == 1.0


# --- the table ---


def test_the_table_has_a_row_per_strategy(plan_of: Planner) -> None:
    ((lines, table),) = strategies_tables(plan_of(sets=MEET, site=FOUR_NODES), "positions", None, "40x3")
    assert lines[:2] == [
        "positions: 40 x 3 elements, cut into 4 x 1 blocks",
        "count: 4 writing ranks on 2 nodes, 2 reading ranks on 2 nodes",
    ]
    assert "meet on 2 of 2 nodes" in lines[2]
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["hostname:binpacking *"] == ["4", "2", "2", "2.0", "0 %", "1.00", "1.00"]
    assert rows["round-robin"] == ["4", "2", "2", "2.0", "50 %", "1.00", "1.00"]
    assert rows["all"] == ["8", "4", "4", "4.0", "50 %", "1.00", "1.00"]


def test_blocks_are_understood(tmp_path: Path) -> None:
    assert read_blocks("4,0,2", None, 3).shape == (6,)
    assert read_blocks("4,0,2", "6x3", 3).blocks[2] == Block((4, 0), (2, 3), 2)
    assert read_blocks(None, "8x8", 4) == blocks_of_shape((8, 8), 4)
    told = [{"BlockID": "0", "Count": "2,4", "Start": "0,0", "WriterID": "0"}, {"Count": [1, 4], "Start": [2, 0]}]
    (tmp_path / "blocks.json").write_text(json.dumps(told))
    found = read_blocks(str(tmp_path / "blocks.json"), None, 2)
    assert (found.shape, found.blocks[1]) == ((3, 4), Block((2, 0), (1, 4), 0))
    assert found.tiled
    assert not read_blocks(str(tmp_path / "blocks.json"), "4x4", 2).tiled


@pytest.mark.parametrize(
    ("blocks", "shape", "message"),
    [
        (None, "8by8", "--shape 8by8 is not a shape"),
        (None, "1x1", "cannot be divided into 3 non-empty blocks"),
        ("1,2", None, "has 2 numbers, the stream has 3 writing ranks"),
        ("1,2,3", "7", "--blocks has 6 rows, --shape has 7"),
        ("nothing.json", None, "nothing.json: No such file"),
        ("bad.json", None, "bad.json is not a list of blocks"),
        ("mixed.json", None, "of different dimensions"),
        ("none.json", None, "no blocks"),
    ],
)
def test_blocks_that_mean_nothing(
    blocks: str | None, shape: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text('[{"Start": "0,0", "Count": "2"}]')
    Path("mixed.json").write_text('[{"Start": "0", "Count": "2"}, {"Start": "0,0", "Count": "2,1"}]')
    Path("none.json").write_text("[]")
    with pytest.raises(WfError, match=re.escape(message)) as caught:
        read_blocks(blocks, shape, 3)
    assert caught.value.hint


def test_streams_that_have_no_table(plan_of: Planner) -> None:
    with pytest.raises(WfError, match="did you mean `positions`"):
        strategies_tables(plan_of(), "position", None, None)
    with pytest.raises(WfError, match="nothing to distribute"):
        strategies_tables(plan_of(), "counts", None, None)


def test_the_command_prints_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "pipeline.yaml").write_text(
        "wf: 1\nname: sharing\noversubscribe: true\nstages:\n"
        '  make: {component: synthetic, ranks: 4}\n  drop: {component: "null", ranks: 3}\n'
        "streams:\n  data: {from: make, to: drop}\n"
    )
    result = CliRunner().invoke(wf, ["plan", str(tmp_path / "pipeline.yaml"), "--strategies", "data", "--shape", "90"])
    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines())) <= 110
    assert "moved: bytes moved ÷ bytes needed" in result.output


def test_slabs_that_do_not_tile_say_so(plan_of: Planner, tmp_path: Path) -> None:
    told = [{"Start": "0", "Count": "4", "WriterID": 0}, {"Start": "3", "Count": "4", "WriterID": 1}]
    (tmp_path / "b.json").write_text(json.dumps(told))
    plan = plan_of(sets=("stages.walk.ranks=2", "stages.count.ranks=2"))
    ((lines, table),) = strategies_tables(plan, "positions", str(tmp_path / "b.json"), None)
    assert any("overlap or leave holes" in line for line in lines)
    assert len({tuple(row[1:]) for row in table.rows if row[0] != "all"}) == 1  # slabs, all of them


def test_without_mpi_all_blocks_are_rank_0s(plan_of: Planner) -> None:
    serial = SITE.model_copy(update={"parallel_adios2": False})
    sets = ("stages.walk.ranks=2", "stages.count.ranks=1")
    ((lines, _),) = strategies_tables(plan_of(via="sst", sets=sets, site=serial), "positions", None, "40x3")
    assert any("here all blocks are rank 0's, which writes for all 2" in line for line in lines)
    ((lines, _),) = strategies_tables(plan_of(sets=sets), "positions", None, "40x3")
    assert not any("rank 0" in line for line in lines)


def test_the_size_is_taken_from_where_it_is_known(plan_of: Planner) -> None:
    def said(sets: tuple[str, ...]) -> str:
        return strategies_tables(plan_of(sets=sets), "positions", None, None)[0][0][0]

    assert said(()) == "positions: assumed: 1048576 elements of each writing rank, side by side; give --shape"
    assert said(("streams.positions.step_size=8 kB", "stages.walk.ranks=2")) == (
        "positions: 4000 bytes of each writing rank, side by side"
    )
    shaped = said(("streams.positions.variables={position: {shape: [40, 3]}}",))
    assert shaped.startswith("positions: position: 40 x 3 elements")


def test_a_box_is_not_taken_for_atoms_of_unknown_number() -> None:
    example = Path(__file__).parents[2] / "examples/01-shock-diffraction/pipeline.yaml"
    result = CliRunner().invoke(wf, ["plan", str(example), "--strategies", "atoms"])
    assert "atoms: assumed: " in result.output and "box" not in result.output, result.output


def test_strategies_as_json_and_shape_without_them(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text("""wf: 1
name: t
stages:
  make: {component: synthetic, with: {steps: 1}}
  drop: {component: "null"}
streams: {data: {from: make, to: drop}}
""")
    result = CliRunner().invoke(wf, ["plan", str(file), "--strategies", "data", "--shape", "90", "--json"])
    assert result.exit_code == 0, result.output
    (stage,) = json.loads(result.output)
    assert stage["stage"] == "drop" and sum(each["planned"] for each in stage["strategies"]) == 1
    assert {each["requests"] for each in stage["strategies"]} == {1}
    for option in ("--shape", "--blocks"):
        alone = CliRunner().invoke(wf, ["plan", str(file), option, "90"])
        assert alone.exit_code == 2
        assert f"{option} has no effect without --strategies: add `--strategies STREAM`" in alone.output
