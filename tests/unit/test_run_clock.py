"""The time of a run."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from workflow.formats.run_clock import run_time, this_boot
from workflow.formats.stage_file import StageSettings
from workflow.report.read.stage_metrics import read_metrics
from workflow.run.state.events import Clock, StreamOpened, StreamProgress, bring_between
from workflow.stage import settings, telemetry


@pytest.mark.parametrize("jump", [1e5, -1e5])
def test_clock_goes_on_when_the_wall_clock_is_set(jump: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    monkeypatch.setattr(time, "monotonic", lambda: 20.0)
    clock = Clock()
    assert clock.now() == 1000.0
    monkeypatch.setattr(time, "time", lambda: 1000.0 + jump)
    monkeypatch.setattr(time, "monotonic", lambda: 21.5)
    assert clock.now() == 1001.5
    assert clock.offset_s == 980.0


def test_times_of_other_clocks_are_moved_to_when_their_records_were_seen() -> None:
    def seen(t: float) -> float:
        return bring_between([StreamOpened(t, "atoms", "md", "write")], 10.0, 11.0)[0].t

    assert [seen(t) for t in (-5000.0, 9.99, 10.0, 10.5, 11.0, 11.1, 1e9)] == [10.0, 10.0, 10.0, 10.5, 11.0, 11.0, 11.0]
    progress = StreamProgress(10.5, "atoms", "md", "write", 3, 8)
    assert bring_between([progress], 10.0, 11.0)[0] is progress


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_records_of_a_stage_go_on_when_the_wall_clock_is_set(
    jump: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one attempt, and of the next, which begins after the jump: throughput is computed from these times."""
    clock = Clock()
    begun = {"host": os.uname().nodename, "boot": this_boot(), "clock_offset_s": clock.offset_s}
    (tmp_path / "events.jsonl").write_text(f"{json.dumps(begun)}\n")
    monkeypatch.setattr("workflow.formats.run_clock._offset_s", jump)  # of a process that starts after the jump
    monkeypatch.setattr(telemetry, "_metrics", None)
    file = tmp_path / "metrics.jsonl"
    made = StageSettings(run_dir=str(tmp_path), metrics=str(file))
    monkeypatch.setattr(settings, "_current", made)
    metrics = telemetry.process_metrics()
    metrics.opening("field", "write")
    metrics.step("field", "write", 8, 0.0, 0.0)
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + jump)
    metrics.step("field", "write", 8, 0.0, 0.0)
    metrics.close("field", "write", steps=2, error="")
    metrics.finish()
    read = read_metrics(file)
    times = [*(step.t for step in read.steps), read.closed["field", "write"].t, run_time(tmp_path)]
    assert all(abs(t - clock.now()) < 60 for t in times), times


@pytest.mark.parametrize(
    "begun", [{"host": "elsewhere", "boot": this_boot()}, {"host": os.uname().nodename, "boot": "before"}]
)
def test_the_time_of_a_run_of_another_machine_or_boot_is_that_of_the_clock(
    begun: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "events.jsonl").write_text(f"{json.dumps({**begun, 'clock_offset_s': 5.0})}\n")
    assert abs(run_time(tmp_path) - time.time()) < 60
    assert abs(run_time(tmp_path / "none") - time.time()) < 60
