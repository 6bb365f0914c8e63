"""Signals to the supervisor: Ctrl-C and termination requests stop the run in order; a killed one leaves nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.test_faults import stubborn_plan
from tests.support.chains import chain, make_plan, make_stage, write_run
from tests.support.waiting import wait_until
from workflow.plan.plan_model import Plan
from workflow.run.control.cancellation import stop_run
from workflow.run.processes.process_reaper import find_members

TELLS = """
import pathlib, time
try:
    pathlib.Path("held").touch()
    time.sleep(300)
except KeyboardInterrupt:
    pathlib.Path("asked").touch()
"""

Start = Callable[[Plan], tuple[subprocess.Popen[bytes], Path]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a supervisor of its own; ended with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(plan: Plan) -> tuple[subprocess.Popen[bytes], Path]:
        run_dir = write_run(plan, tmp_path)
        started.append(subprocess.Popen([sys.executable, "-m", "workflow.run.supervisor", str(run_dir)]))
        return started[-1], run_dir

    yield start
    for process in started:
        process.kill()
        process.wait()


def has_event(run_dir: Path, *words: str) -> bool:
    file = run_dir / "events.jsonl"
    return file.exists() and any(all(word in line for word in words) for line in file.read_text().splitlines())


def last_event(run_dir: Path) -> dict[str, object]:
    event = json.loads((run_dir / "events.jsonl").read_text().splitlines()[-1])
    assert isinstance(event, dict)
    return event


def assert_nothing_left(run_dir: Path) -> None:
    assert find_members(str(run_dir)) == set()
    assert not list((run_dir / "streams").glob("*.sst"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_the_run_in_order(number: signal.Signals, start: Start) -> None:
    process, run_dir = start(chain("sst", steps=100000))
    wait_until(lambda: has_event(run_dir, "stream_progress", '"keep"'), "steps arrive")
    process.send_signal(number)
    assert process.wait(60) == 130
    event = last_event(run_dir)
    assert (event["state"], event["reason"], event["stage"]) == ("interrupted", f"interrupted by {number.name}", "")
    assert has_event(run_dir, '"interrupted"', number.name)
    assert_nothing_left(run_dir)


def test_second_ctrl_c_kills_at_once(start: Start) -> None:
    plan = stubborn_plan()
    plan = plan.model_copy(update={"deadlines": plan.deadlines.model_copy(update={"stop": 600.0})})
    process, run_dir = start(plan)
    wait_until(lambda: (run_dir / "stages/deaf/work/held").exists(), "the stage runs")
    process.send_signal(signal.SIGINT)
    wait_until(lambda: has_event(run_dir, "stop_requested"), "the stop is requested")
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130, "sooner than the deadline of a stop"
    assert_nothing_left(run_dir)


@pytest.mark.parametrize("ranks", [1, 2])
def test_killed_supervisor_leaves_no_process(ranks: int, start: Start) -> None:
    process, run_dir = start(chain("sst", ranks=ranks, steps=100000))
    wait_until(lambda: has_event(run_dir, "stream_progress", '"keep"'), "steps arrive")
    assert len(find_members(str(run_dir))) >= 3
    process.kill()
    process.wait()
    wait_until(lambda: has_event(run_dir, "run_finished"), "the guard's verdict")
    event = last_event(run_dir)
    assert event["state"] == "failed"
    assert event["reason"] == "the supervisor was killed; its guard ended the stages"
    assert event["cause"] == "supervisor_killed"
    assert_nothing_left(run_dir)


def test_exit_codes_of_the_program(start: Start) -> None:
    process, run_dir = start(chain("sst", steps=5, step_s=0))
    assert process.wait(60) == 0
    again = [sys.executable, "-m", "workflow.run.supervisor", str(run_dir)]
    second = subprocess.run(again, capture_output=True, text=True, check=False)
    assert second.returncode == 2
    assert "has been started before" in second.stderr


def test_stages_are_asked_by_ctrl_c_where_it_was_ignored_before(tmp_path: Path) -> None:
    """As `wf run pipeline.yaml &` in a shell script: Ctrl-C is not for the run, but still the first word to a stage."""
    plan = make_plan([make_stage("tells", [sys.executable, "-c", TELLS])])
    run_dir = write_run(plan, tmp_path)
    script = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-m", "workflow.run.supervisor", str(run_dir)]
    process = subprocess.Popen(script)
    work = run_dir / "stages/tells/work"
    try:
        wait_until(lambda: (work / "held").exists(), "the stage runs")
        process.send_signal(signal.SIGINT)
        stop_run(run_dir, plan, "stop")
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
    assert (work / "asked").exists(), "it was ended by a later signal"
    assert "interrupted by `wf cancel`" in str(last_event(run_dir)["reason"])
    assert_nothing_left(run_dir)


def test_hangup_is_ignored_where_it_was_ignored_before(tmp_path: Path) -> None:
    run_dir = write_run(chain("sst", steps=300), tmp_path)
    nohup = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", sys.executable, "-m", "workflow.run.supervisor", str(run_dir)]
    process = subprocess.Popen(nohup)
    try:
        wait_until(lambda: has_event(run_dir, "stream_progress", '"keep"'), "steps arrive")
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
