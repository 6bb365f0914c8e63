"""Damaged records: refused where they are read, and never by an error that nobody expects."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.sample_run import make_plan
from workflow.campaign.ledger import LEDGER_FILE, Ledger, OpenAttempt, Repetition, read_history
from workflow.errors import RunError
from workflow.formats.json_lines import Tail, read_json_lines
from workflow.formats.lease_file import LEASE_FILE
from workflow.formats.read_json import read_json
from workflow.formats.typed_fields import from_fields
from workflow.plan.read_plan import read_plan
from workflow.report.read.stage_metrics import read_metrics
from workflow.report_figures import to_figure_name
from workflow.run.control import follow
from workflow.run.control.lease import Lease, read_lease
from workflow.run.records.events_file import from_record
from workflow.run.state.events import StageExited, StreamProgress

PROGRESS = {"event": "stream_progress", "t": 1.0, "stream": "a", "stage": "md", "side": "write", "steps": 4, "bytes": 9}


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 300 + "1" + "}" * 300,
        "[NaN]",
        "[-Infinity]",
        "[1e999]",
        "9" * 20_000,
        "[" + "9" * 30 + "]",
        '"\\ud800"',
        '"a\\u0000b"',
        b'"\xff"',
        "{",
    ],
    ids=range(11),
)
def test_what_is_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        read_json(text)


def test_what_is_json_is_read() -> None:
    text = '{"a": [0.123456789012345678901234, 18446744073709551615, "\\ud83e\\udd88", 1e300, null, true]}'
    assert read_json(text) == {"a": [0.12345678901234568, 2**64 - 1, "🦈", 1e300, None, True]}
    assert read_json("[1, Infinity]", infinity=True) == [1, float("inf")]
    assert read_json(json.dumps([[1]] * 1000)) == [[1]] * 1000


def test_lines_end_at_a_newline_only(tmp_path: Path) -> None:
    """U+0085 and U+2028 are part of a text: an error that has one hid the verdict from `wf watch`."""
    record = {"kind": "error", "text": "a\x85b\u2028c\x0bd"}
    path = tmp_path / "events.jsonl"
    path.write_text(json.dumps(record, ensure_ascii=False) + "\n" + json.dumps(PROGRESS) + "\n", encoding="utf-8")
    assert list(Tail(path).records()) == [record, PROGRESS]
    assert read_json_lines(path).records == [record, PROGRESS]


@pytest.mark.parametrize(
    "change",
    [
        {"steps": "4"}, {"steps": 4.5}, {"steps": None}, {"steps": True}, {"bytes": [9]}, {"side": "both"}, {"t": "1"},
        {"t": 1e18}, {"t": None}, {"stage": {}}, {"stream": 5}, {"steps": 10**30},
    ],
    ids=str,
)  # fmt: skip
def test_an_event_with_a_field_of_another_type_is_left_out(change: dict[str, object]) -> None:
    assert isinstance(from_record(PROGRESS), StreamProgress)
    assert from_record(PROGRESS | change) is None


def test_numbers_may_be_whole_and_fields_of_later_versions_are_ignored() -> None:
    record = {"event": "stage_exited", "t": 5, "stage": "md", "code": None, "signal": 9, "later": [1]}
    assert from_record(record) == StageExited(5, "md", None, 9)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "5", "null", '{"host": 5, "pid": 1, "beat": 1}', '{"host": "n", "pid": "1", "beat": 1}', ""]
)
def test_a_lease_that_is_damaged_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / LEASE_FILE).write_text(text)
    assert read_lease(tmp_path) is None


def test_a_plan_that_is_nested_too_deeply_is_no_plan() -> None:
    with pytest.raises(RunError, match=r"plan.json cannot be read: it is not JSON: it is nested too deeply"):
        read_plan('{"stages":' + "[" * 100_000, "plan.json")


@pytest.mark.parametrize("record", [None, [], "x", 3])
def test_what_is_no_record_is_a_type_error(record: Any) -> None:
    with pytest.raises(TypeError, match="no record"):
        from_fields(Lease, record)


def test_fields_are_checked_by_their_types() -> None:
    assert from_fields(Lease, {"host": "n", "pid": 1, "beat": 2, "more": 3}) == Lease("n", 1, 2)
    for record in ({"host": "n", "pid": 1}, {"host": "n", "pid": 1.0, "beat": 2}, {"host": None, "pid": 1, "beat": 2}):
        with pytest.raises(TypeError):
            from_fields(Lease, record)


def started(number: object = 1) -> str:
    record = {"event": "started", "key": "k", "number": number, "warmup": False, "run": "k-r01", "attempt": 1, "t": 1.0}
    return json.dumps(record) + "\n"


def ended(**changes: object) -> str:
    record = {
        "event": "ended", "key": "k", "number": 1, "warmup": False, "state": "succeeded", "attempt": 1, "run": "k-r01",
        "started": 1.0, "wall_s": 2.0, "figures": {"run.wall_s": 2.0}, **changes,
    }  # fmt: skip
    return json.dumps(record) + "\n"


@pytest.mark.parametrize(
    "line",
    [
        started([1]), started("1"), ended(wall_s="2"), ended(wall_s=float("nan")), ended(state="good"),
        ended(figures={"run.wall_s": "2"}), ended(figures={"run.wall_s": float("inf")}), ended(figures=[1]),
        ended(nodes=None), "[" * 100_000 + "\n", '{"event": "ended"}\n', "5\n",
    ],
)  # fmt: skip
def test_a_damaged_line_of_a_ledger_is_counted(tmp_path: Path, line: str) -> None:
    (tmp_path / LEDGER_FILE).write_text(started() + line + ended())
    history = read_history(tmp_path)
    assert history.unreadable == 1
    assert history.ended[Repetition("k", 1)].figures == {"run.wall_s": 2.0}


def test_a_ledger_of_a_newer_version_is_left_as_it_is_and_keeps_no_lock(tmp_path: Path) -> None:
    path = tmp_path / LEDGER_FILE
    newer = '{"event": "campaign", "ledger_version": 99}\nhalf a line'
    path.write_text(newer)
    for _ in range(2):
        with pytest.raises(RunError, match="has version 99"):
            Ledger(tmp_path)
    assert path.read_text() == newer
    path.write_text("")
    with Ledger(tmp_path):
        pass


def test_a_full_disk_under_the_ledger_is_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(tmp_path) as ledger:

        def full(*_: object) -> int:
            raise OSError(28, os.strerror(28))

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(RunError, match=r"cannot write .*ledger.jsonl: No space left on device\n  make room there"):
            ledger.begin(Repetition("k", 1), OpenAttempt("k-r01", 1, 1.0))
        monkeypatch.undo()


@pytest.mark.parametrize("time", [float("nan"), float("inf"), 1e308])
@pytest.mark.parametrize("key", ["t", "wait_s", "io_s"])
def test_a_time_that_is_no_number_is_counted(key: str, time: float, tmp_path: Path) -> None:
    step = {"kind": "step", "stream": "a", "side": "read", "step": 0, "t": 1.0, "bytes": 8} | dict.fromkeys(
        ("wait_s", "io_s", "compute_s"), 0.1
    )
    (tmp_path / "metrics.jsonl").write_text(json.dumps(step) + "\n" + json.dumps(step | {key: time}) + "\n")
    metrics = read_metrics(tmp_path / "metrics.jsonl")
    assert (len(metrics.steps), metrics.unreadable) == (1, 1)


@pytest.mark.parametrize("nodes", [[], [[0, 2**31]], [[-1, 1]]])
def test_a_stage_on_nodes_that_there_are_not_is_no_plan(nodes: list[list[int]]) -> None:
    data = make_plan().model_dump(mode="json")
    data["stages"][0]["placement"]["nodes"] = nodes
    with pytest.raises(RunError, match=r"placement\.nodes"):
        read_plan(json.dumps(data), "plan.json")


def test_a_run_whose_lease_cannot_be_read_is_not_followed_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "GUARD_S", 0.0)
    monkeypatch.setattr(follow, "SILENCE_S", 0.0)
    (tmp_path / LEASE_FILE).write_text("{}\n{}\n")
    assert len(list(follow.follow(tmp_path, make_plan()))) == 1


def test_a_figure_that_there_is_not_is_known_as_that() -> None:
    known, unknown = (to_figure_name(f"run.{field}") for field in ("wall_s", "wall\x7fs"))
    assert known is not None and unknown is not None
    assert (known.is_known, unknown.is_known) == (True, False)
