"""Runs that nobody holds: started with --detach, watched, listed and cancelled by other processes."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.chains import ROOT
from tests.support.waiting import wait_until
from tests.support.watching import guards
from workflow.errors import RunError
from workflow.run.control import detached
from workflow.run.control.detached import start_detached
from workflow.run.control.lease import Lease, read_lease
from workflow.run.processes.process_reaper import end_members, find_members

PIPELINE = """
wf: 1
name: held
oversubscribe: true
deadlines: {start: 60 s, stop: 3 s}
stages:
  sim: {component: gray_scott, with: {steps: 10000000, write_every: 20, size: [16]}}
  sink: {component: "null"}
streams:
  field: {from: sim, to: sink}
"""
SHORT = PIPELINE.replace("10000000", "200")
WITHIN_S = 120.0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A directory with a pipeline that goes on for ever; nothing of its runs is left."""
    (tmp_path / "p.yaml").write_text(PIPELINE)
    yield tmp_path
    for run in (tmp_path / "runs").glob("*"):
        lease = read_lease(run)
        if lease is not None and not run.is_symlink():
            left = find_members(str(run))
            end_members(str(run))
            assert not left, f"processes {left} of {run.name} were left"


def start(home: Path, *argv: str, **more: Any) -> subprocess.Popen[str]:
    env = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "workflow.cli", *argv]
    given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} | more
    return subprocess.Popen(command, cwd=home, env=env, text=True, **given)


def wf(home: Path, *argv: str, code: int = 0) -> str:
    process = start(home, *argv)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == code, f"{argv}: {process.returncode}\n{said}"
    assert "Traceback" not in said
    return said


def latest(home: Path) -> Path:
    return (home / "runs/latest").resolve()


def moves(run: Path) -> bool:
    file = run / "events.jsonl"
    return file.exists() and "stream_progress" in file.read_text()


def last_event(run: Path) -> dict[str, Any]:
    event = json.loads((run / "events.jsonl").read_text().splitlines()[-1])
    assert isinstance(event, dict)
    return event


def test_a_detached_run_goes_on_and_is_watched_and_cancelled_by_others(home: Path) -> None:
    said = wf(home, "run", "p.yaml", "--detach")
    run = latest(home)
    assert f"{run.name} has started" in said
    assert f"wf cancel {run.name}" in said
    lease = read_lease(run)
    assert lease is not None
    assert os.getsid(lease.pid) == lease.pid, "it hangs on the session of the one that started it"
    wait_until(lambda: moves(run), "steps arrive")
    (line,) = json.loads(wf(home, "runs", "--json"))["runs"]
    assert (line["name"], line["state"], line["site"]) == (run.name, "running", "local")

    watch = start(home, "watch", run.name)
    assert watch.stdout is not None
    assert any("sim: started, 1 rank" in line for line in watch.stdout), "it watches"
    other = start(home, "watch", run.name)
    other.kill()
    other.communicate()
    said = wf(home, "cancel", run.name)
    assert f"{run.name}: asking the stages to stop" in said
    assert f"{run.name}: interrupted (interrupted by `wf cancel` (" in said
    seen, _ = watch.communicate(timeout=WITHIN_S)
    assert watch.returncode == 130, seen
    assert "held: interrupted" in seen
    assert last_event(run)["state"] == "interrupted"
    assert find_members(str(run)) == set()
    assert "has ended before: interrupted" in wf(home, "cancel", run.name)
    assert (run / "report.html").exists(), "the one that watched the end wrote the report"


def test_a_short_detached_run_ends_well_and_watch_ends_as_it_did(home: Path) -> None:
    (home / "p.yaml").write_text(SHORT)
    wf(home, "run", "p.yaml", "--detach", "--run-dir", "my run")
    said = wf(home, "watch", "my run")
    assert "held: succeeded" in said
    assert "held: succeeded" in wf(home, "watch", "my run"), "a run that has ended is shown at once"
    assert json.loads(wf(home, "status", "my run", "--json"))["run"]["state"] == "succeeded"


def test_ctrl_c_on_a_watch_without_a_terminal_leaves_the_run_alone(home: Path) -> None:
    wf(home, "run", "p.yaml", "--detach")
    run = latest(home)
    watch = start(home, "watch")
    assert watch.stdout is not None
    assert any("sim: started" in line for line in watch.stdout), "it watches"
    watch.send_signal(signal.SIGINT)
    said, _ = watch.communicate(timeout=WITHIN_S)
    assert watch.returncode == 130
    assert f"{run.name} goes on" in said
    assert f"wf cancel {run.name}" in said
    assert json.loads(wf(home, "status", "--json"))["run"]["state"] == "running"
    wf(home, "cancel")


@pytest.mark.parametrize("answer", ["leave", "cancel", "c"])
def test_ctrl_c_on_a_watch_asks_on_a_terminal(home: Path, answer: str) -> None:
    wf(home, "run", "p.yaml", "--detach")
    run = latest(home)
    ours, theirs = pty.openpty()
    watch = start(home, "watch", stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown = Screen(ours)
    shown.wait_for("sim")
    watch.send_signal(signal.SIGINT)
    shown.wait_for("Leave it running, or cancel it?")
    os.write(ours, f"{answer}\n".encode())
    shown.wait_for(f"{run.name} goes on" if answer == "leave" else f"{run.name}: interrupted")
    assert watch.wait(WITHIN_S) == 130
    os.close(ours)
    state = json.loads(wf(home, "status", "--json"))["run"]["state"]
    assert state == ("running" if answer == "leave" else "interrupted")
    wf(home, "cancel")


class Screen:
    """What a program writes to a terminal."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.text = descriptor, ""

    def wait_for(self, words: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while words not in self.text:
            assert time.monotonic() < deadline, f"`{words}` not within {WITHIN_S} s: {self.text}"
            if select.select([self.descriptor], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.descriptor, 65536).decode(errors="replace")
                except OSError:
                    assert words in self.text, f"it ended without `{words}`: {self.text}"


def test_cancel_now_does_not_wait_for_the_stages(home: Path) -> None:
    deaf = 'deaf: {command: [sh, -c, "trap : INT TERM; touch held; while :; do sleep 1; done"]}'
    slow = PIPELINE.replace("stop: 3 s", "stop: 300 s").replace("streams:", f"  {deaf}\nstreams:")
    (home / "p.yaml").write_text(slow)
    wf(home, "run", "p.yaml", "--detach")
    run = latest(home)
    wait_until((run / "stages/deaf/work/held").exists, "the deaf stage runs")
    # Sooner than the deadline of a stop: `wf` here waits for less.
    said = wf(home, "cancel", "--now")
    assert "interrupted" in said


def test_a_run_whose_supervisor_and_guard_are_killed_is_lost_and_cancel_ends_what_is_left(home: Path) -> None:
    wf(home, "run", "p.yaml", "--detach")
    run = latest(home)
    wait_until(lambda: moves(run), "steps arrive")
    lease = read_lease(run)
    assert lease is not None
    for guard in guards(lease.pid):
        os.kill(guard, signal.SIGKILL)
    os.kill(lease.pid, signal.SIGKILL)
    wait_until(lambda: json.loads(wf(home, "runs", "--json"))["runs"][0]["state"] == "lost", "the run is lost")
    report = json.loads(wf(home, "status", "--json"))
    assert report["run"]["state"] == "lost"
    assert f"process {lease.pid}) has died; still running: sim (process" in report["run"]["reason"]
    assert find_members(str(run)), "the stages have ended by themselves"
    said = wf(home, "cancel")
    assert "has died; 2 processes ended here" in said
    assert find_members(str(run)) == set()
    report = json.loads(wf(home, "status", "--json"))
    assert report["run"]["state"] == "interrupted"
    assert "after its supervisor on" in report["run"]["reason"]


def test_a_supervisor_that_cannot_start_is_reported_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"ended with exit code 2 .*: .*is not a run directory: plan.json"):
        start_detached(tmp_path)


def test_a_supervisor_that_does_not_take_the_run_in_time_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detached, "START_S", 0.0)
    monkeypatch.setattr(detached, "supervisor_command", lambda _: ["sh", "-c", "echo hello; exec sleep 100"])

    # It has the time to say something, however busy the machine is.
    def read(directory: Path) -> Lease | None:
        wait_until(lambda: (directory / detached.OUTPUT_FILE).read_text() == "hello\n", "its words")
        return read_lease(directory)

    monkeypatch.setattr(detached, "read_lease", read)
    with pytest.raises(RunError, match=r"has not taken the run within 0 s \(process (\d+)\): hello") as caught:
        start_detached(tmp_path)
    pid = caught.value.message.partition("(process ")[2].partition(")")[0]
    assert not Path("/proc", pid).exists()
