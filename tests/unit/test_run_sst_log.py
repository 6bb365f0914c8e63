"""SST's log, as real runs of ADIOS2 2.12.1 printed it (tests/unit/sst_logs)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.chains import make_end, make_stage
from workflow.formats.json_lines import Tail
from workflow.plan.plan_model import StagePlan
from workflow.run.observe.sst_log import Fact, SstLog, is_chatter, last_lines
from workflow.run.observe.stream_evidence import SstFollower
from workflow.run.state.events import StreamOpened, StreamProgress, StreamTrouble

LOGS = Path(__file__).parent / "sst_logs"


def facts(name: str) -> list[Fact]:
    # Which plane was taken has tests of its own.
    return [fact for fact in SstLog().feed((LOGS / f"{name}.txt").read_text()) if fact.kind not in ("plane", "awaits")]


def kinds(name: str) -> list[str]:
    return [fact.kind for fact in facts(name) if fact.kind != "steps"]


def steps(name: str) -> list[int]:
    return [fact.steps for fact in facts(name) if fact.kind == "steps"]


def test_writer_goes_on_when_its_reader_dies() -> None:
    assert kinds("writer_lost_reader") == ["offered", "opened", "closed"]
    assert steps("writer_lost_reader") == [1, 2, 3, 4, 5, 6]
    assert facts("writer_lost_reader")[-1] == Fact("closed", "write", "kr/a", 6)


def test_reader_whose_writer_dies_is_not_complete() -> None:
    assert kinds("reader_lost_writer") == ["opened", "failed", "failed", "closed"]
    assert facts("reader_lost_writer")[-1] == Fact("closed", "read", "kw/a", 2, 160, complete=False)


def test_killed_writer_prints_no_totals() -> None:
    assert kinds("writer_killed") == ["offered", "opened"]
    assert steps("writer_killed")[-1] == 2


def test_discarded_steps_count_as_written() -> None:
    assert steps("writer_discards") == [1, 2, 3, 4, 5, 6]
    assert facts("reader_of_discards")[-1] == Fact("closed", "read", "di/a", 2, 160)


def test_step_in_which_a_writer_blocks_counts() -> None:
    assert steps("writer_blocks") == [1, 2, 2, 3, 3, 4, 4, 5, 5]


@pytest.mark.parametrize(("name", "side"), [("writer_two_ranks", "write"), ("reader_two_ranks", "read")])
def test_ranks_that_print_over_each_other(name: str, side: str) -> None:
    found = facts(name)
    assert {fact.name for fact in found} == {"mm/a"}
    assert max(steps(name)) == 2
    assert found[-1].kind == "closed"
    assert (found[-1].side, found[-1].steps) == (side, 2)


def test_level_2_tells_open_and_totals() -> None:
    assert [(fact.kind, fact.side, fact.steps) for fact in facts("writer_level_2")] == [
        ("opened", "write", 0), ("closed", "write", 4),
    ]  # fmt: skip
    assert [(fact.kind, fact.side, fact.steps, fact.bytes) for fact in facts("reader_level_2")] == [
        ("opened", "read", 0, 0), ("closed", "read", 4, 320),
    ]  # fmt: skip


@pytest.mark.parametrize("name", [path.stem for path in sorted(LOGS.glob("*.txt"))])
def test_portions_do_not_matter(name: str) -> None:
    log, found = SstLog(), []
    for line in (LOGS / f"{name}.txt").read_text().splitlines(keepends=True):
        found += list(log.feed(line))
    assert [fact for fact in found if fact.kind not in ("plane", "awaits")] == facts(name)


# Two ranks that read /r/streams/t and write /r/streams/d: each prefix and each text arrives whole, in any order.
MIXED = """Reader (0x1): Reader (0x2): Finish opening Stream "/r/streams/t", starting with Step number 0
Finish opening Stream "/r/streams/t", starting with Step number 0
Writer (0xa): Writer (0xb): Sst set to use sockets as a Control Transport
Sst set to use sockets as a Control Transport
Writer (0xa): Opening Stream "/r/streams/d"
Writer (0xa): Reader (0x2): Stream "/r/streams/d" waiting for 1 readers
SstAdvanceStep returning Success on timestep 0
Reader (0x1): SstAdvanceStep returning Success on timestep 0
Writer (0xa): Reader (0x2): Finish opening Stream "/r/streams/d"
SstAdvanceStep returning Success on timestep 1
Writer (0xb): Reader (0x1): SstAdvanceStep returning Success on timestep 1
Finish opening Stream "/r/streams/d"
Reader (0x1): Writer (0xb): Sending TimestepMetadata for timestep 0 (ref count 1), one to each reader
SstAdvanceStep returning Success on timestep 2
"""


def analysis(*reads: str) -> StagePlan:
    ends = [make_end(name, "read", path=f"/r/streams/{name}", config=None) for name in reads]
    written = make_end("d", "write", path="/r/streams/d", config=None)
    return make_stage("analysis", ["x"], [*ends, written], observed="evidence")


def test_a_line_of_another_rank_is_attributed_to_no_wrong_stream(tmp_path: Path) -> None:
    for number in range(len(MIXED.splitlines()) + 1):
        (tmp_path / "log").write_text("".join(MIXED.splitlines(keepends=True)[:number]))
        found = list(SstFollower(analysis("t"), Tail(tmp_path / "log")).poll(1.0))
        assert not [event for event in found if isinstance(event, StreamTrouble)], MIXED.splitlines()[number - 1]
    assert {(event.stream, event.side) for event in found if isinstance(event, StreamOpened)} == {
        ("t", "read"), ("d", "write"),
    }  # fmt: skip
    # Each step is told twice, and counts once.
    assert {(event.stream, event.side, event.steps) for event in found if isinstance(event, StreamProgress)} == {
        ("t", "read", 3), ("d", "write", 1),
    }  # fmt: skip


def test_a_line_that_may_be_of_two_streams_is_of_none(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(MIXED)
    found = list(SstFollower(analysis("t", "s"), Tail(tmp_path / "log")).poll(1.0))
    assert {(event.stream, event.side, event.steps) for event in found if isinstance(event, StreamProgress)} == {
        ("d", "write", 1),
    }  # fmt: skip


SUMMARIES = """Reader (0x1): Finish opening Stream "/r/streams/t", starting with Step number 0
Reader (0x2): Finish opening Stream "/r/streams/s", starting with Step number 0
Stream "/r/streams/t" (0x1) summary info:
Reader (0x1): \tTimesteps Consumed = 3
Stream "/r/streams/s" (0x2) summary info:
Reader (0x2): \tTimesteps Consumed = 5
Reader (0x1): \tDataBytesReceived = 30 (30 bytes)
Reader (0x2): \tDataBytesReceived = 50 (50 bytes)
"""


def test_summaries_that_are_printed_over_each_other() -> None:
    """As by two threads, or two ranks, that close streams at the same time. Without prefixes it is not known whose."""
    closed = [fact for fact in SstLog().feed(SUMMARIES) if fact.kind == "closed"]
    assert [(each.name, each.steps, each.bytes) for each in closed] == [
        ("/r/streams/t", 3, 30),
        ("/r/streams/s", 5, 50),
    ]
    bare = re.sub(r"Reader \(0x.\): ", "", SUMMARIES)
    assert [fact.name for fact in SstLog().feed(bare) if fact.kind == "closed"] == ["", ""]


def test_a_stream_of_another_name_is_one_where_its_contact_file_is(tmp_path: Path) -> None:
    log = MIXED.replace("/r/streams/d", "other")
    (tmp_path / "log").write_text(log)
    follower = SstFollower(analysis("t").model_copy(update={"cwd": str(tmp_path)}), Tail(tmp_path / "log"))
    assert not [event for event in follower.poll(1.0) if isinstance(event, StreamTrouble)]
    (tmp_path / "other.sst").touch()
    (trouble,) = follower.poll(2.0)
    assert isinstance(trouble, StreamTrouble)
    assert trouble.text.startswith("analysis opened the stream other, which nobody reads, and not streams/d")


def test_a_stream_that_is_opened_anew_has_no_copies(tmp_path: Path) -> None:
    """Whichever name its totals got, when two streams were closed at the same time."""
    opens = 'Opening Stream "/r/streams/{}"\n'
    totals = 'Stream "/r/streams/{}" (0x1) summary info:\n'
    log = opens.format("d") + opens.format("e") + totals.format("d") + totals.format("e")
    log += "\tTimesteps Created = 3\n" * 2 + opens.format("d") + opens.format("e")
    (tmp_path / "log").write_text(log)
    plan = analysis("t").model_copy(update={"ranks": 2})
    plan.ends.append(make_end("e", "write", path="/r/streams/e", config=None))
    follower = SstFollower(plan, Tail(tmp_path / "log"))
    assert not [event for event in follower.poll(1.0) if isinstance(event, StreamTrouble)]
    (tmp_path / "log").write_text(log + opens.format("d"))
    assert [event.trouble for event in follower.poll(2.0) if isinstance(event, StreamTrouble)] == ["copies"]


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.txt")), ids=lambda path: path.stem)
def test_all_of_it_is_chatter(path: Path) -> None:
    left = [line for line in path.read_text().splitlines() if line.strip() and not is_chatter(line)]
    # A line that two ranks began at the same time has lost its mark.
    assert len(left) <= ("two_ranks" in path.stem) * 2, left


def test_last_lines_are_the_programs_own(tmp_path: Path) -> None:
    file = tmp_path / "stderr.log"
    chatter = (LOGS / "writer_killed.txt").read_bytes()
    end = b'SST Writer "/a b/atoms" Destroyed without a prior Close().\n'
    end += b"This may result in loss of data and/or disconnect warnings for a connected SST Reader.\n"
    end += b'BP5 Writer "x.bp" Destroyed without a prior Close().\nThis may result in corrupt output.\n'
    end += b"ADIOS2 caught SigInt, exiting with error\n"
    file.write_bytes(b"one\n\n" + chatter + b"Traceback\nValueError: \xcc\n" + end)
    assert last_lines(file, 2) == ["Traceback", "ValueError: �"]
    assert last_lines(file, 9) == ["one", "Traceback", "ValueError: �"]
    assert last_lines(tmp_path / "none.log", 3) == []
