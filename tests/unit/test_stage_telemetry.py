"""The clock that splits a stage's time, and the lines that it writes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from workflow import stage
from workflow.stage import telemetry


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time: set its only element."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(time, "time", lambda: 1000.0 + now[0])
    return now


def test_what_lies_between_two_calls_is_computing(tmp_path: Path, clock: list[float]) -> None:
    file = tmp_path / "m.jsonl"
    noted = telemetry.Metrics(str(file))
    for begin, end in ((103.0, 104.0), (104.5, 109.0)):
        clock[0] = begin
        assert noted.enter() == begin
        clock[0] = end
        assert noted.leave() == end
    noted.step("a", "read", 10, wait_s=1.0, io_s=4.5)
    noted.step("b", "write", 20, wait_s=0.0, io_s=0.0)
    clock[0] = 111.0
    noted.enter()
    assert noted.take_computing() == 2.0
    first, second = map(json.loads, file.read_text().splitlines())
    assert first == {
        "kind": "step", "t": 1109.0, "stream": "a", "side": "read", "step": 0, "bytes": 10,
        "wait_s": 1.0, "io_s": 4.5, "compute_s": 3.5,
    }  # fmt: skip
    # Computing is counted once, with the step that is noted first.
    assert second["compute_s"] == 0.0


def test_lines_are_in_the_file_at_once_and_appended(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    file.write_text('{"kind": "old"}\n')
    noted = telemetry.Metrics(str(file))
    noted.write("error", stream='with "quotes"', error="two\nlines, µ")
    lines = file.read_text().splitlines()
    assert len(lines) == 2
    assert json.loads(lines[1])["error"] == "two\nlines, µ"


def test_without_a_run_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    noted = telemetry.Metrics(None)
    noted.write("start")
    noted.step("a", "read", 0, 0.0, 0.0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("leaves", [True, False])
def test_a_reader_says_whether_it_saw_the_end(leaves: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "_metrics", telemetry.Metrics(str(tmp_path / "m.jsonl")))
    with stage.open_writer(path=tmp_path / "a.bp") as out:
        for number in range(2):
            with out.step():
                out.write("x", number)
    with stage.open_reader(path=tmp_path / "a.bp") as data:
        for _ in data:
            if leaves:
                break
    wrote, read = [
        line for line in map(json.loads, (tmp_path / "m.jsonl").read_text().splitlines()) if line["kind"] == "close"
    ]
    assert "ended" not in wrote
    assert {key: read[key] for key in ("side", "steps", "complete", "ended", "error")} == {
        "side": "read", "steps": 1 if leaves else 2, "complete": True, "ended": not leaves, "error": "",
    }  # fmt: skip
