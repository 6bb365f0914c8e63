"""The file of a run's events: what is kept, how often, and what is left out when it is read."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from workflow.errors import RunError
from workflow.run.records.events_file import KINDS, EventLog, from_record, read_events, to_line
from workflow.run.records.run_directory import has_started
from workflow.run.state.events import (
    EVENTS_VERSION,
    RunStarted,
    StageExited,
    StreamClosed,
    StreamProgress,
    Tick,
)
from workflow.run.state.lifecycle_events import RunFinished, StageFailed


def test_every_event_survives_its_file(tmp_path: Path) -> None:
    events = [
        StageExited(1.5, "md", None, 9, "note", ["saxs"], cpu_s=0.25),
        StageFailed(2.0, "md", "was killed »here«"),
        RunFinished(3.0, "failed", 1, "why", "md"),
    ]
    log = EventLog(tmp_path)
    for event in (*events, Tick(4.0)):
        log.write(event)
    log.close()
    assert has_started(tmp_path)
    assert list(read_events(tmp_path)) == events
    assert json.loads(to_line(events[0])) == {
        "event": "stage_exited", "t": 1.5, "stage": "md", "code": None, "signal": 9, "note": "note",
        "alive": ["saxs"], "dying": [], "cpu_s": 0.25,
    }  # fmt: skip
    assert {"run_started", "stage_open", "stream_progress", "deadline_passed", "cleaned"} < set(KINDS)


def test_events_of_a_long_run_stay_few_and_end_exactly(tmp_path: Path) -> None:
    """A day of two reports a second."""
    log = EventLog(tmp_path)
    log.write(RunStarted(0.0, "run", 1, 1, "here"))
    for half in range(2 * 86_400):
        log.write(StreamProgress(half / 2, "atoms", "md", "write", half, 8 * half))
    assert (tmp_path / "events.jsonl").stat().st_size < 300_000
    log.write(StreamClosed(86_400.0, "atoms", "md", "write", 172_800, True, 1_382_400))
    log.close()
    (started, *progress, closed) = read_events(tmp_path)
    assert isinstance(started, RunStarted)
    assert started.events_version == EVENTS_VERSION
    assert closed == StreamClosed(86_400.0, "atoms", "md", "write", 172_800, True, 1_382_400)
    assert [event.t for event in progress[:3]] == [0.0, 0.5, 1.0], "the beginning is as fine as before"


def test_progress_in_the_file_is_150_s_old_at_most_however_long_the_run(tmp_path: Path) -> None:
    """After ten days; a step comes each second, then one more, then none."""
    log, day = EventLog(tmp_path), 86_400
    log.write(RunStarted(1.0, "run", 1, 1, "here"))
    for t in range(10 * day, 10 * day + 1000):
        log.write(StreamProgress(t, "atoms", "md", "write", t, t))
    times = [event.t for event in read_events(tmp_path) if isinstance(event, StreamProgress)]
    gaps = [after - before for before, after in itertools.pairwise([*times, 10 * day + 1000])]
    assert 140 < max(gaps) <= 151
    for t in range(10 * day + 1000, 10 * day + 1152):
        log.write(Tick(t))
    assert list(read_events(tmp_path))[-1] == StreamProgress(
        10 * day + 999, "atoms", "md", "write", *[10 * day + 999] * 2
    )
    size = log.path.stat().st_size
    log.write(Tick(11 * day))
    assert log.path.stat().st_size == size, "each count is written once"
    log.close()


def test_the_last_progress_of_a_stream_that_never_closed_is_in_the_file(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    for t in range(10_000, 10_010):
        log.write(StreamProgress(t, "atoms", "md", "write", t, t))
    log.write(RunFinished(10_011.0, "failed", 1, "why", "md"))
    log.close()
    assert list(read_events(tmp_path))[-2] == StreamProgress(10_009, "atoms", "md", "write", 10_009, 10_009)


def test_events_that_cannot_be_written_are_reported_once(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    log = EventLog(tmp_path)
    assert log.take_problem() is None
    log.write(StageFailed(1.0, "md", "x"))
    problem = log.take_problem()
    assert problem is not None
    assert "events.jsonl cannot be written: No space left on device" in problem.text
    log.write(problem)
    log.close()
    assert log.take_problem() is None


def test_events_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    started = RunStarted(0.0, "run", 1, 1, "here", events_version=EVENTS_VERSION + 1)
    (tmp_path / "events.jsonl").write_text(to_line(started))
    with pytest.raises(RunError, match=r"events.jsonl: events_version is 4, and this wf reads version 3"):
        list(read_events(tmp_path))


def test_torn_and_unknown_lines_are_left_out(tmp_path: Path) -> None:
    good = to_line(StageFailed(2.0, "md", "x"))
    later = '{"event": "from_the_future", "t": 1}'
    (tmp_path / "events.jsonl").write_text(f'{{"event": "st\n[1]\n\n{good}{later}\n{good[:-1]}')
    assert list(read_events(tmp_path)) == [StageFailed(2.0, "md", "x")]
    assert from_record({"event": "stage_failed", "t": 1.0, "stage": "md", "reason": "x", "more": 1}) is not None
    assert from_record({"event": "stage_failed", "t": 1.0}) is None
    with pytest.raises(RunError, match="no events"):
        list(read_events(tmp_path / "none"))
