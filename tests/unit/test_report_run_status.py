"""Is anybody still working on this run?"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.sample_run import make_plan, write_run, write_sample
from workflow.report.read.run_status import is_alive, is_over
from workflow.report.report_files import compute_report


def write_started(run_dir: Path, pid: int, t: float, host: str, stage_pid: int = 0) -> Path:
    events = [{"event": "run_started", "t": t, "run": "sample", "plan_version": 1, "pid": pid, "host": host}]
    if stage_pid:
        events.append({"event": "stage_started", "t": t, "stage": "md", "pid": stage_pid})
    return write_run(run_dir, make_plan(), events, {})


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_run_with_a_living_supervisor_runs(tmp_path: Path) -> None:
    report = compute_report(write_started(tmp_path / "run", os.getpid(), time.time(), socket.gethostname()))
    assert (report.run.state, report.run.reason) == ("running", "")


def test_a_run_whose_supervisor_is_gone_died(tmp_path: Path, dead_pid: int) -> None:
    run_dir = write_started(tmp_path / "run", dead_pid, time.time(), socket.gethostname(), stage_pid=dead_pid)
    report = compute_report(run_dir)
    assert report.run.state == "died"
    assert report.run.reason == f"the supervisor (process {dead_pid}) is gone and left no verdict"
    assert [stage.state for stage in report.stages] == ["ended", "waiting", "waiting"]


def test_after_its_guard_ended_a_run_no_stage_runs(tmp_path: Path, dead_pid: int) -> None:
    t = time.time()
    run_dir = write_started(tmp_path / "run", dead_pid, t, socket.gethostname(), stage_pid=dead_pid)
    opened = {"event": "stage_open", "t": t + 1, "stage": "md"}
    over = {"event": "run_finished", "t": t + 2, "state": "failed", "exit_code": 1, "reason": "killed", "stage": ""}
    with (run_dir / "events.jsonl").open("a") as file:
        file.write(json.dumps(opened) + '\n{"event": "stage_exi\n' + json.dumps(over) + "\n")
    report = compute_report(run_dir)
    assert report.run.state == "failed"
    assert [stage.state for stage in report.stages] == ["stopped", "stopped", "stopped"]
    assert report.stage("md").ended == pytest.approx(t + 2)
    assert report.stage("saxs").ended is None


def test_who_works_on_a_run_is_told_by_its_first_and_last_event(tmp_path: Path, dead_pid: int) -> None:
    here, now = socket.gethostname(), time.time()
    assert is_over(tmp_path), "never started"
    run_dir = write_started(tmp_path / "living", os.getpid(), now, here)
    assert not is_over(run_dir)
    with (run_dir / "events.jsonl").open("a") as file:
        file.write('{"event": "run_finished", "t"')
        file.flush()
        assert not is_over(run_dir), "half a verdict is none"
        file.write(": 1}\n")
    assert is_over(run_dir)
    assert is_over(write_started(tmp_path / "dead", dead_pid, now, here))
    assert not is_over(write_started(tmp_path / "away", dead_pid, now, "elsewhere"))


def test_stages_that_outlive_their_supervisor_are_named(tmp_path: Path, dead_pid: int) -> None:
    run_dir = write_started(tmp_path / "run", dead_pid, time.time(), socket.gethostname(), stage_pid=os.getpid())
    report = compute_report(run_dir)
    assert report.stage("md").state == "running"
    assert report.run.reason.endswith(f"still running: md (process {os.getpid()})")


def test_a_younger_process_of_the_same_number_is_another_one(tmp_path: Path) -> None:
    run_dir = write_started(tmp_path / "run", os.getpid(), time.time() - 86400, socket.gethostname())
    assert compute_report(run_dir).run.state == "died"


def test_of_another_host_nothing_is_claimed(tmp_path: Path, dead_pid: int) -> None:
    report = compute_report(write_started(tmp_path / "run", dead_pid, time.time(), "elsewhere"))
    assert report.run.state == "unfinished"
    assert "on elsewhere" in report.run.reason


def test_a_finished_run_keeps_its_verdict(tmp_path: Path) -> None:
    assert compute_report(write_sample(tmp_path / "run")).run.state == "succeeded"


def test_a_zombie_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()  # until it has closed its end, i.e. is about to exit; it is not waited for yet
    deadline = time.monotonic() + 10
    while is_alive(process.pid, time.time()):
        assert time.monotonic() < deadline, "the child never became a zombie"
    process.wait()
    process.stdout.close()
