"""The clock that splits a stage's time, and the lines that it writes."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path

import pytest

from workflow import stage
from workflow.report.read.stage_metrics import read_metrics
from workflow.stage import telemetry


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time: set its only element."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr("workflow.stage.telemetry.steady_time", lambda: 1000.0 + now[0])
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


def make_steps(noted: telemetry.Metrics, count: int, clock: list[float], step_s: float) -> None:
    """Steps of 10 bytes: a quarter of the time computing, a quarter I/O, half waiting."""
    for _ in range(count):
        clock[0] += step_s / 4
        noted.enter()
        clock[0] += step_s * 3 / 4
        noted.leave()
        noted.step("a", "write", 10, wait_s=step_s / 2, io_s=step_s / 4)


@pytest.mark.parametrize("step_s", [1e-3, 1.0, 60.0])
def test_files_of_long_runs_stay_small_and_their_totals_exact(
    step_s: float, tmp_path: Path, clock: list[float]
) -> None:
    file = tmp_path / "metrics.jsonl"
    noted = telemetry.Metrics(str(file))
    noted.opening("a", "write")
    sizes = []
    for count in (1000, 9000, 90_000):
        make_steps(noted, count, clock, step_s)
        sizes.append(file.stat().st_size)
        before_close = read_metrics(file)  # as if the stage were killed now
        steps = before_close.of("a", "write")
        made = round(sum(step.count for step in steps))
        assert made == (1000, 10_000, 100_000)[len(sizes) - 1]
        assert sum(step.bytes or 0 for step in steps) == 10 * made
        assert sum(step.wait_s for step in steps) == pytest.approx(made * step_s / 2, rel=1e-6)
        assert sum(step.io_s for step in steps) == pytest.approx(made * step_s / 4, rel=1e-6)
        assert sum(step.compute_s for step in steps) == pytest.approx(made * step_s / 4, rel=1e-4)
    noted.close("a", "write", steps=100_000, error="")
    noted.finish()
    # Each of 1000 steps has a line; then the interval is 1/200 of the time, and at least half a second.
    assert len(file.read_text().splitlines()) < 1000 + 200 * math.log(100) + 250
    assert sizes[2] - sizes[0] < 250_000, "99,000 steps took more than a quarter of a megabyte"
    assert (tmp_path / "progress.jsonl").stat().st_size < 1000
    assert read_metrics(file).closed["a", "write"].steps == 100_000
    assert sum(step.count for step in read_metrics(file).steps) == 100_000


def test_copies_to_a_device_are_in_lines_and_totals(tmp_path: Path, clock: list[float]) -> None:
    file = tmp_path / "metrics.jsonl"
    noted = telemetry.Metrics(str(file))
    noted.opening("a", "read")
    for count in (999, 1, 500):
        for _ in range(count):
            clock[0] += 0.01
            noted.step("a", "read", 10, 0.0, 0.001, 0.002)
        found = read_metrics(file).of("a", "read")
        made = sum(step.count for step in found)
        assert sum(step.device_s for step in found) == pytest.approx(0.002 * made, rel=1e-6)
    assert made == 1500
    assert found[0].device_s == 0.002
    moving, copying, _ = noted.spent("a", "read")
    assert (round(moving, 6), round(copying, 6)) == (1.5, 3.0)


def test_the_line_of_totals_has_room_for_the_largest_numbers() -> None:
    names = '"stream": "a", "side": "write"'
    end = telemetry.EndRecord(names, 0, telemetry._TOTALS_SIZE + len(names))
    end.total = telemetry.Sums(10**15, 10**18, 1e11, 1e11, 1e11, 1e11)
    end.steps_before, end.complete = 10**15, False
    line = end.to_totals(1e11)
    assert len(line) == end.size
    assert json.loads(line)["check"] == 10**15


def test_bytes_that_are_known_in_the_end_are_added_up_by_line(tmp_path: Path, clock: list[float]) -> None:
    file = tmp_path / "metrics.jsonl"
    noted = telemetry.Metrics(str(file))
    for opening in range(2):
        noted.opening("a", "read")
        for _ in range(1500):
            clock[0] += 0.01
            noted.step("a", "read", None, 0.0, 0.0)
        assert read_metrics(file).of("a", "read")[-1].bytes is None
        noted.close("a", "read", steps=1500, error="", nbytes=list(range(1500)))
        steps = read_metrics(file).of("a", "read")
        assert sum(step.count for step in steps) == 1500 * (opening + 1)
        assert sum(step.bytes or 0 for step in steps) == 1499 * 750 * (opening + 1)
    assert [step.bytes for step in steps[:1000]] == list(range(1000))


def test_a_full_disk_ends_no_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The counts are in the file of totals, which needs no new space."""
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    noted = telemetry.Metrics(str(tmp_path / "metrics.jsonl"))
    noted.start(stage="md")
    noted.opening("a", "write")
    for _ in range(1500):
        noted.step("a", "write", 10, 0.0, 0.0)
    noted.close("a", "write", steps=1500, error="")
    noted.finish()
    said = capfd.readouterr().err
    assert said.count("No space left on device") == 1
    assert "the program continues" in said
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl").touch()
    found = read_metrics(tmp_path / "metrics.jsonl")
    assert found.closed["a", "write"].complete
    assert [(step.count, step.bytes) for step in found.steps] == [(1500, 15_000)]


def test_records_whose_folder_is_missing_end_no_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    noted = telemetry.Metrics(str(tmp_path / "none" / "metrics.jsonl"))
    noted.opening("a", "write")
    noted.step("a", "write", 10, 0.0, 0.0)
    noted.finish()
    assert capfd.readouterr().err.count("No such file or directory") == 1


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


def waiting(file: Path) -> dict[tuple[str, str], bool]:
    """Which ends are waited for, by the file of totals."""
    records = [json.loads(line) for line in file.with_name("progress.jsonl").read_text().splitlines()]
    return {(record["stream"], record["side"]): record["waits"] for record in records}


def test_the_call_in_which_a_program_waits_is_in_the_totals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Threads that other tests have left in this process are not those of a program.
    monkeypatch.setattr("threading.active_count", lambda: 1)
    file = tmp_path / "metrics.jsonl"
    noted = telemetry.Metrics(str(file))
    noted.opening("a", "write", waits=True)
    noted.opening("b", "read")
    assert waiting(file) == {("a", "write"): True, ("b", "read"): False}
    noted.returns("a", "write")
    assert waiting(file) == {("a", "write"): False, ("b", "read"): False}
    noted.blocks("b", "read")
    assert waiting(file)["b", "read"]
    noted.error("b", ValueError("x"))
    assert not waiting(file)["b", "read"]
    noted.blocks("a", "write")
    noted.step("a", "write", 1, 0.0, 0.0)
    noted.close("a", "write", steps=1, error="")
    assert waiting(file) == {("a", "write"): False, ("b", "read"): False}


def test_with_other_threads_a_wait_is_not_reported(tmp_path: Path) -> None:
    """Another thread may act on another stream meanwhile."""
    file = tmp_path / "metrics.jsonl"
    noted = telemetry.Metrics(str(file))
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    thread.start()
    try:
        noted.opening("a", "write", waits=True)
        noted.blocks("a", "write")
    finally:
        leave.set()
        thread.join()
    assert waiting(file) == {("a", "write"): False}
