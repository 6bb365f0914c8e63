"""Files that grow, as events."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import adios2
import numpy as np
import pytest

from tests.support.chains import chain, make_end, make_stage
from tests.unit.test_run_directory import bp5
from workflow.formats.json_lines import Tail
from workflow.report.read.stage_metrics import read_metrics
from workflow.run.observe.followed_stages import VISIBILITY_S, Follower, mounted, visibility_s
from workflow.run.observe.metrics_follower import trouble_of
from workflow.run.observe.stream_evidence import size_on_disk
from workflow.run.records.run_directory import fill_plan
from workflow.run.state.events import (
    Event,
    RecordsLost,
    StreamClosed,
    StreamOffered,
    StreamOpened,
    StreamOpening,
    StreamProgress,
    StreamTrouble,
    StreamWaiting,
)
from workflow.run.state.reducer import apply, fold
from workflow.run.state.run_state import RunState, initial_state


def append(path: Path, *records: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def step(number: int, t: float, side: str = "read") -> dict[str, Any]:
    return {"kind": "step", "t": t, "stream": "atoms", "side": side, "step": number, "bytes": 8, "wait_s": 0}


def test_metrics(tmp_path: Path) -> None:
    stage = chain("sst").stages[1]
    follower, file = Follower(stage, tmp_path), tmp_path / "metrics.jsonl"
    assert follower.poll(1) == []
    opened = {"kind": "open", "t": 1.5, "stream": "atoms", "side": "read", "engine": "SST", "seconds": 1}
    begins = {"kind": "opening", "t": 1.2, "stream": "atoms", "side": "read"}
    append(file, {"kind": "start", "t": 1.0, "metrics_version": 2}, begins, opened, step(0, 2), step(1, 3))
    with file.open("a") as half:
        half.write('{"kind": "step", ')
    assert follower.poll(4) == [
        StreamOpening(1.2, "atoms", "saxs", "read"), StreamOpened(1.5, "atoms", "saxs", "read"),
        StreamProgress(3, "atoms", "saxs", "read", 2, 16),
    ]  # fmt: skip
    with file.open("a") as half:
        half.write('"t": "broken"}\n')
    error = {"kind": "error", "t": 5, "stream": "atoms", "type": "StreamFailed", "error": "gone"}
    closed = {"kind": "close", "t": 6, "stream": "atoms", "side": "read", "steps": 3, "complete": False, "error": "x"}
    append(file, step(2, 5), error, closed, {"kind": "end", "t": 7}, {"kind": "later version"})
    assert follower.poll(7) == [
        StreamProgress(5, "atoms", "saxs", "read", 3, 24), StreamTrouble(5, "atoms", "saxs", "failed", "gone"),
        StreamClosed(6, "atoms", "saxs", "read", 3, False, 24),
    ]  # fmt: skip
    assert follower.poll(8) == []


def test_bytes_of_all_ranks_come_in_the_end(tmp_path: Path) -> None:
    follower = Follower(chain("sst", plain=True).stages[1], tmp_path)
    closed = {"kind": "close", "t": 6, "stream": "atoms", "side": "read", "steps": 1, "complete": True, "bytes": [20]}
    append(tmp_path / "metrics.jsonl", {**step(0, 2), "bytes": None}, closed, {**step(0, 8), "bytes": None}, closed)
    assert follower.poll(9)[-1] == StreamClosed(6, "atoms", "saxs", "read", 1, True, 40)


def total(steps: int, complete: bool | None = None, side: str = "read") -> dict[str, Any]:
    return {
        "kind": "total", "steps": steps, "steps_before": 0, "stream": "atoms", "side": side, "t": 7.0,
        "bytes": 8 * steps, "wait_s": 0.0, "io_s": 0.0, "compute_s": 0.0, "complete": complete, "check": steps,
    }  # fmt: skip


def test_steps_without_a_line_of_their_own(tmp_path: Path) -> None:
    follower = Follower(chain("sst").stages[1], tmp_path)
    append(tmp_path / "metrics.jsonl", {"kind": "opening", "t": 1, "stream": "atoms", "side": "read"}, step(0, 2))
    totals = tmp_path / "progress.jsonl"
    append(totals, total(7))
    assert follower.poll(8)[1:] == [
        StreamProgress(2, "atoms", "saxs", "read", 1, 8), StreamProgress(7, "atoms", "saxs", "read", 7, 56),
    ]  # fmt: skip
    assert follower.poll(9) == []
    totals.write_text(json.dumps(total(9) | {"check": 8}) + "\n")
    assert follower.poll(10) == [], "a line that is half written"
    summed = {**step(8, 9), "kind": "steps", "count": 8, "since": 2, "bytes": 64}
    append(tmp_path / "metrics.jsonl", summed)
    assert follower.poll(11) == [StreamProgress(9, "atoms", "saxs", "read", 9, 72)]


DAMAGED: list[dict[str, Any]] = [
    {"kind": "total", "steps": 1, "check": 1},
    total(1, side="other"),
    total(1) | {"t": "x"},
    total(1) | {"bytes": []},
    {key: value for key, value in total(1).items() if key != "complete"},
    total(1) | {"steps": math.inf, "check": math.inf},
]


@pytest.mark.parametrize("damaged", DAMAGED)
def test_a_damaged_line_of_totals_is_left_out(damaged: dict[str, Any], tmp_path: Path) -> None:
    follower = Follower(chain("sst").stages[1], tmp_path)
    append(tmp_path / "progress.jsonl", damaged, total(7, side="write"))
    assert follower.poll(8) == [
        StreamOpening(7, "atoms", "saxs", "write"), StreamProgress(7, "atoms", "saxs", "write", 7, 56),
    ]  # fmt: skip
    (last,) = read_metrics(tmp_path / "metrics.jsonl").of("atoms", "write")
    assert last.count == 7


def test_a_stage_on_a_full_disk_still_closes_its_stream(tmp_path: Path) -> None:
    """Its lines cannot be written, its totals can: they need no new space."""
    follower = Follower(make_stage("saxs", ["saxs"], [make_end("atoms", "read")]), tmp_path)
    append(tmp_path / "progress.jsonl", total(12, complete=True))
    assert follower.last(9, succeeded=True) == [
        StreamOpening(7, "atoms", "saxs", "read"), StreamProgress(7, "atoms", "saxs", "read", 12, 96),
        StreamClosed(7, "atoms", "saxs", "read", 12, True, 96),
    ]  # fmt: skip
    assert follower.is_settled


def test_a_stage_that_can_write_nothing_says_so_by_an_empty_file(tmp_path: Path) -> None:
    follower = Follower(make_stage("saxs", ["saxs"], [make_end("atoms", "read")]), tmp_path)
    (tmp_path / "progress.jsonl").touch()
    assert follower.poll(1) == [], "it may only just have been made"
    assert follower.poll(2) == [RecordsLost(2, "saxs", "its metrics cannot be written")]
    assert follower.poll(3) == []
    assert follower.is_settled, "nothing more is to come"


def test_records_of_a_newer_version_are_left_alone(tmp_path: Path) -> None:
    follower = Follower(make_stage("saxs", ["saxs"], [make_end("atoms", "read")]), tmp_path)
    append(tmp_path / "metrics.jsonl", {"kind": "start", "t": 1, "metrics_version": 3}, step(0, 2))
    (lost,) = follower.poll(3)
    assert isinstance(lost, RecordsLost)
    assert "metrics_version is 3, and this wf reads version 2" in lost.text
    append(tmp_path / "metrics.jsonl", step(1, 4))
    assert follower.poll(5) == []


class Delayed(Tail):
    """A file layer that shows a file as it was some reads ago: what NFS does with the files of another node."""

    def __init__(self, path: Path, reads: int) -> None:
        super().__init__(path)
        self.left = reads

    def read(self, *, fresh: bool = False) -> str:
        if self.left:
            self.left -= 1
            return ""
        return super().read(fresh=fresh)


def test_records_that_are_not_visible_yet_can_be_asked_for_again(tmp_path: Path) -> None:
    follower = Follower(make_stage("saxs", ["saxs"], [make_end("atoms", "read")]), tmp_path)
    follower._metrics.tail = Delayed(tmp_path / "metrics.jsonl", reads=3)
    begins = {"kind": "opening", "t": 1, "stream": "atoms", "side": "read"}
    closed = {"kind": "close", "t": 6, "stream": "atoms", "side": "read", "steps": 1, "complete": True, "error": ""}
    append(tmp_path / "metrics.jsonl", begins, step(0, 2), closed)
    for now in (7, 8, 9):
        assert follower.last(now, succeeded=True, final=False) == []
        assert not follower.is_settled
    assert StreamClosed(6, "atoms", "saxs", "read", 1, True, 8) in follower.last(10, succeeded=True, final=False)
    assert follower.is_settled


def test_a_file_that_is_handed_over_may_become_visible_later(tmp_path: Path) -> None:
    stage = make_stage("md", ["md"], [make_end("a", "write", "after", engine="file", path=f"{tmp_path}/a.dat")])
    follower = Follower(stage, tmp_path)
    assert follower.last(5, succeeded=True, final=False) == []
    assert not follower.is_settled
    (tmp_path / "a.dat").touch()
    assert follower.last(6, succeeded=True, final=False) == [StreamClosed(6, "a", "md", "write", 0, True)]
    assert follower.is_settled


def test_records_of_this_machine_are_visible_at_once(tmp_path: Path) -> None:
    assert visibility_s(tmp_path) == 0.0
    assert visibility_s(tmp_path / "not" / "there", frozenset()) == VISIBILITY_S


def test_types_of_file_systems_by_mount_point() -> None:
    table = b"""/dev/a / ext4 rw 0 0
host:/my\\040data /my\\040data\\134x nfs4 rw 0 0
a /home autofs rw 0 0
b /home/\xc3\xa4\x85 lustre rw 0 0
c /home nfs rw 0 0
"""
    assert mounted(table) == {
        Path("/"): "ext4",
        Path("/my data\\x"): "nfs4",
        Path("/home"): "nfs",
        Path(os.fsdecode(b"/home/\xc3\xa4\x85")): "lustre",
    }


def test_log_is_not_asked_about_what_a_program_reports_itself(tmp_path: Path) -> None:
    follower = Follower(chain("sst", plain=True).stages[1], tmp_path)
    append(tmp_path / "metrics.jsonl", {"kind": "opening", "t": 1, "stream": "atoms", "side": "read"}, step(0, 2))
    log = "Reader (0x1): SstAdvanceStep returning Success on timestep 0\n"
    (tmp_path / "stderr.log").write_text(log * 3 + "Writer (0x2): Sending TimestepMetadata for timestep 0 (ref\n")
    assert follower.poll(3) == [
        StreamOpening(1, "atoms", "saxs", "read"), StreamProgress(2, "atoms", "saxs", "read", 1, 8),
        StreamProgress(3, "pattern", "saxs", "write", 1, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "trouble"),
    [("StreamTimeout", "timeout"), ("StreamFailed", "failed"), ("ContractError", "other"), ("", "other")],
)
def test_kinds_of_trouble(error: str, trouble: str) -> None:
    assert trouble_of(error) == trouble


def test_contact_file_is_an_offer(tmp_path: Path) -> None:
    stage = make_stage("md", ["md"], [make_end("atoms", "write", path=str(tmp_path / "atoms"))])
    follower = Follower(stage, tmp_path)
    assert follower.poll(1) == []
    (tmp_path / "atoms.sst").touch()
    assert follower.poll(2) == [StreamOffered(2, "atoms", "md")]
    assert follower.poll(3) == []


def test_log_of_a_program_with_two_streams_of_one_side(tmp_path: Path) -> None:
    ends = [make_end(name, "write", path=f"{tmp_path}/{name}") for name in ("one", "two")]
    stage = make_stage("sim", ["sim"], ends, observed="evidence", env={"SstVerbose": "3"})
    (tmp_path / "stderr.log").write_text(
        'Writer (0xa): Opening Stream "one"\nWriter (0xb): Opening Stream "streams/two.sst"\n'
        "Writer (0xb): Sending TimestepMetadata for timestep 4 (ref count 1), one to each reader\n"
    )
    assert Follower(stage, tmp_path).poll(9) == [
        StreamOffered(9, "one", "sim"), StreamOffered(9, "two", "sim"), StreamProgress(9, "two", "sim", "write", 5, 0),
    ]  # fmt: skip


def test_file_of_a_program_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "a.bp").mkdir()
    stage = make_stage("sim", ["sim"], [make_end("a", "write", "after", path=f"{tmp_path}/a.bp")], observed="evidence")
    follower, index = Follower(stage, tmp_path), tmp_path / "a.bp" / "md.idx"
    assert follower.poll(1) == []
    index.write_bytes(bp5(2, True))
    (tmp_path / "a.bp" / "data.0").write_bytes(bytes(100))
    assert follower.poll(2) == [StreamOpened(2, "a", "sim", "write"), StreamProgress(2, "a", "sim", "write", 2, 100)]
    index.write_bytes(bp5(2, False))
    assert follower.poll(3) == [StreamClosed(3, "a", "sim", "write", 2, True, 100)]
    assert follower.poll(4) == []


@pytest.mark.parametrize("holds", ["nothing", "scalar", "attribute", "two steps of nothing"])
def test_file_closed_without_a_step_has_none(holds: str, tmp_path: Path) -> None:
    adios = adios2.bindings.ADIOS()
    io = adios.DeclareIO("out")
    io.SetEngine("BP5")
    engine = io.Open(f"{tmp_path}/a.bp", adios2.bindings.Mode.Write)
    if holds == "attribute":
        io.DefineAttribute("a", "b")
    for _ in range({"scalar": 1, "two steps of nothing": 2}.get(holds, 0)):
        engine.BeginStep()
        if holds == "scalar":
            engine.Put(io.DefineVariable("x", np.array(1.0)), np.array(1.0), adios2.bindings.Mode.Sync)
        engine.EndStep()
    engine.Close()
    stage = make_stage("sim", ["sim"], [make_end("a", "write", "after", path=f"{tmp_path}/a.bp")], observed="evidence")
    opened, *progress, closed = Follower(stage, tmp_path).poll(1)
    assert isinstance(opened, StreamOpened)
    assert isinstance(closed, StreamClosed)
    assert closed.steps == {"nothing": 0, "two steps of nothing": 2}.get(holds, 1)
    assert len(progress) == (closed.steps > 0)


@pytest.mark.parametrize("exists", [True, False])
def test_file_that_is_only_handed_over(exists: bool, tmp_path: Path) -> None:
    stage = make_stage("sim", ["sim"], [make_end("a", "write", "after", engine="file", path=f"{tmp_path}/a.dat")])
    if exists:
        (tmp_path / "a.dat").write_bytes(b"12345")
    follower = Follower(stage, tmp_path)
    assert follower.last(5, succeeded=False) == []
    assert follower.last(5, succeeded=True) == [StreamClosed(5, "a", "sim", "write", 0, exists, 5 * exists)]


def test_the_size_of_what_is_handed_over_may_be_that_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.bp/deep").mkdir(parents=True)
    (tmp_path / "a.bp/data.0").write_bytes(b"1234567")
    (tmp_path / "a.bp/deep/data.1").write_bytes(b"123")
    assert size_on_disk(tmp_path / "a.bp") == 10
    assert size_on_disk(tmp_path / "none") == 0


def state(*events: Event) -> RunState:
    return fold(initial_state(fill_plan(chain("sst"), Path("/run"))), events)


def test_exit_code_is_believed_of_a_stage_that_can_record_nothing() -> None:
    now = state(RecordsLost(5, "saxs", "its metrics cannot be written"))
    assert not any(end.counted or end.live for end in now.ends_of("saxs"))
    assert all(end.counted for end in now.ends_of("md"))
    assert len(now.warnings) == 1
    later = state(StreamOpening(4, "atoms", "saxs", "read"), RecordsLost(5, "saxs", "3 lines could not be written"))
    assert later.ends["atoms", "saxs", "read"].counted, "its totals are exact"


def test_what_a_display_needs() -> None:
    now = state(
        StreamOpened(10, "atoms", "md", "write"), StreamOpened(10, "atoms", "saxs", "read"),
        *(StreamProgress(10 + 0.25 * n, "atoms", "md", "write", n, 100 * n) for n in range(1, 41)),
        StreamProgress(20, "atoms", "saxs", "read", 39, 3900),
    )  # fmt: skip
    assert now.steps("atoms") == (40, {"saxs": 39})
    assert now.queue("atoms") == 1
    assert now.writer("atoms").last_moved == 20
    closed = apply(now, StreamClosed(23, "atoms", "md", "write", 40, True, 4000)).writer("atoms")
    assert closed.last_moved == 23
    assert now.writer("atoms").last_step == 20
    assert now.dropped("atoms", "saxs") is None


def call(steps: int, waits: bool = True) -> dict[str, Any]:
    return {**total(steps), "waits": waits}


def rewrite(folder: Path, t: int, *records: dict[str, Any]) -> None:
    """The file of totals, anew; its time changes even if the clock of the file system does not."""
    path = folder / "progress.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    os.utime(path, (t, t))


def calls(follower: Follower, t: float) -> list[tuple[int, bool]]:
    return [(event.steps, event.waits) for event in follower.poll(t) if isinstance(event, StreamWaiting)]


def test_a_call_that_lasts_is_reported_once_and_its_end_too(tmp_path: Path) -> None:
    follower = Follower(chain("sst").stages[1], tmp_path)
    rewrite(tmp_path, 1, call(2))
    assert [calls(follower, t) for t in (10.0, 10.9, 11.0, 15.0)] == [[], [], [(2, True)], []]
    rewrite(tmp_path, 2, call(2, waits=False))
    assert calls(follower, 16.0) == [(2, False)]
    assert calls(follower, 30.0) == []


def test_a_call_for_the_next_step_begins_anew(tmp_path: Path) -> None:
    follower = Follower(chain("sst").stages[1], tmp_path)
    rewrite(tmp_path, 1, call(2))
    assert calls(follower, 10.0) == []
    rewrite(tmp_path, 2, call(3))
    assert [calls(follower, t) for t in (10.9, 11.5, 11.9)] == [[], [], [(3, True)]]


def test_a_call_that_the_lines_show_to_have_returned_is_not_reported(tmp_path: Path) -> None:
    follower, file = Follower(chain("sst").stages[1], tmp_path), tmp_path / "metrics.jsonl"
    append(file, {"kind": "opening", "t": 1, "stream": "atoms", "side": "read"})
    rewrite(tmp_path, 1, call(0))
    assert calls(follower, 10.0) == []
    append(file, {"kind": "open", "t": 2, "stream": "atoms", "side": "read"})
    assert calls(follower, 12.0) == []
    append(file, step(0, 13))
    rewrite(tmp_path, 2, call(0))
    assert [calls(follower, t) for t in (13.0, 15.0)] == [[], []]


def test_records_that_may_be_old_must_show_a_call_for_longer(tmp_path: Path) -> None:
    follower = Follower(chain("sst").stages[1], tmp_path, visibility_s=35.0)
    rewrite(tmp_path, 1, call(2))
    assert [calls(follower, t) for t in (10.0, 45.9, 46.0)] == [[], [], [(2, True)]]


def test_records_without_that_field_report_no_call(tmp_path: Path) -> None:
    follower = Follower(chain("sst").stages[1], tmp_path)
    rewrite(tmp_path, 1, total(2))
    assert [calls(follower, t) for t in (10.0, 20.0)] == [[], []]
