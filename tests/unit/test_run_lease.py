"""The lease of a run: who supervises it, and whether that process lives, seen from here and from another host."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.waiting import wait_until
from workflow.api import resumes
from workflow.campaign.campaign_control import refuse_running
from workflow.campaign.execution import left_attempts
from workflow.campaign.execution.left_attempts import LeftAttempt
from workflow.campaign.execution.repetition import StartedAttempt
from workflow.campaign.ledger import Repetition
from workflow.errors import RunError
from workflow.formats.lease_file import DEAD_S, LEASE_FILE, SILENCE_S
from workflow.run.control import lease as lease_file
from workflow.run.control.lease import (
    Heartbeat,
    Lease,
    LeaseWatch,
    examine_leases,
    read_lease,
    this_system,
)

ELSEWHERE = Lease("n1", 4711, 0, "/runs/a", "another-boot pid:[1]", 12)


class Clock:
    """Stands for the module `time`: nobody waits, and no time passes but by waiting."""

    def __init__(self) -> None:
        self.begin, self.waited_s = time.time(), 0.0

    def time(self) -> float:
        return self.begin + self.waited_s

    def monotonic(self) -> float:
        return self.waited_s

    def sleep(self, pause_s: float) -> None:
        self.waited_s += pause_s


def write(run_dir: Path, lease: Lease, age_s: float = 0.0, now: float | None = None) -> None:
    run_dir.mkdir(exist_ok=True)
    path = run_dir / LEASE_FILE
    path.write_text(json.dumps(asdict(lease)))
    then = (time.time() if now is None else now) - age_s
    os.utime(path, (then, then))


def beats(run_dir: Path, more_than: int, within_s: float = 20.0) -> Lease:
    deadline = time.monotonic() + within_s
    while (lease := read_lease(run_dir)) is None or lease.beat <= more_than:
        assert time.monotonic() < deadline, f"no beat within {within_s} s: {lease}"
        time.sleep(0.01)
    return lease


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_file, "BEAT_S", 0.02)


@pytest.mark.usefixtures("quick")
def test_a_heartbeat_says_who_supervises_and_goes_on(tmp_path: Path) -> None:
    with Heartbeat(tmp_path):
        first = beats(tmp_path, -1)
        assert (first.host, first.pid, first.run_dir) == (socket.gethostname(), os.getpid(), str(tmp_path))
        assert beats(tmp_path, first.beat + 1).pid == first.pid
    last = read_lease(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [LEASE_FILE], "temporary files are left"
    assert read_lease(tmp_path) == last, "it goes on after its end"


def test_of_two_supervisors_one_gets_the_run(tmp_path: Path) -> None:
    with Heartbeat(tmp_path), pytest.raises(RunError, match="has been started before"):
        Heartbeat(tmp_path).__enter__()
    with pytest.raises(RunError, match="has been started before"):
        Heartbeat(tmp_path).__enter__()


@pytest.mark.usefixtures("quick")
def test_a_heartbeat_goes_on_where_no_new_file_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Heartbeat(tmp_path):
        before = beats(tmp_path, -1)

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", full)
        after = beats(tmp_path, before.beat + 2)
        assert replace(after, beat=before.beat) == before
        monkeypatch.undo()


def test_the_process_of_a_lease_is_told_from_a_younger_one(tmp_path: Path) -> None:
    with Heartbeat(tmp_path):
        (seen,) = examine_leases([tmp_path])
        lease = read_lease(tmp_path)
    assert seen.alive
    assert lease is not None
    write(tmp_path, replace(lease, born=lease.born - 1))
    (seen,) = examine_leases([tmp_path])
    assert not seen.alive
    assert seen.text == f"its supervisor on {lease.host} (process {lease.pid}) has died"


def test_a_supervisor_that_has_ended_here_is_known_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys, pathlib, workflow.run.control.lease as l; l.Heartbeat(pathlib.Path(sys.argv[1])).__enter__()"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    clock = Clock()
    monkeypatch.setattr(lease_file, "time", clock)
    (seen,) = examine_leases([tmp_path])
    assert (seen.alive, seen.is_here) == (False, True)
    assert clock.waited_s == 0


def test_a_run_without_a_lease_has_no_supervisor(tmp_path: Path) -> None:
    (seen,) = examine_leases([tmp_path])
    assert (seen.lease, seen.alive) == (None, False)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"host": "n1"}', "null"])
def test_a_lease_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / LEASE_FILE).write_text(text)
    assert read_lease(tmp_path) is None


def test_on_another_host_the_supervisor_is_dead_after_ten_seconds_without_a_beat(tmp_path: Path) -> None:
    write(tmp_path, ELSEWHERE)
    watch = LeaseWatch(tmp_path, 100.0)
    assert watch.look(100.0).alive
    assert all(watch.look(t).alive for t in (103.0, 106.0, 109.9))
    write(tmp_path, replace(ELSEWHERE, beat=1))
    assert watch.look(110.5).alive
    (tmp_path / LEASE_FILE).write_text("")  # cannot be read now: nothing has changed
    assert all(watch.look(t).alive for t in (113.0, 116.0, 120.4))
    seen = watch.look(120.5)
    assert not seen.alive
    assert seen.text == "no heartbeat for 10 s: its supervisor on n1 has died"
    assert not seen.is_here


def test_seconds_in_which_the_reader_was_stopped_or_its_look_hung_are_no_silence(tmp_path: Path) -> None:
    write(tmp_path, ELSEWHERE)
    watch = LeaseWatch(tmp_path, 100.0)
    assert watch.look(100.0).alive
    assert watch.look(400.0).alive


def test_who_follows_a_run_on_another_host_waits_on_and_says_so(tmp_path: Path) -> None:
    """Its file system may stall for minutes."""
    write(tmp_path, ELSEWHERE)
    watch = LeaseWatch(tmp_path, 100.0, DEAD_S)
    seen = [watch.look(100.0 + second) for second in range(int(DEAD_S))]
    assert all(each.alive for each in seen)
    assert (seen[9].silence_text, seen[14].silence_text) == (
        "", "its supervisor on n1 is silent: no heartbeat for 14 s",
    )  # fmt: skip
    assert not watch.look(100.0 + DEAD_S).alive


def test_a_supervisor_of_this_machine_that_is_stopped_lives(tmp_path: Path) -> None:
    code = "import sys, pathlib, workflow.run.control.lease as l; l.Heartbeat(pathlib.Path(sys.argv[1])).__enter__()"
    process = subprocess.Popen([sys.executable, "-c", f"{code}; print(flush=True); input()", str(tmp_path)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        host = socket.gethostname()
        watch = LeaseWatch(tmp_path, 0.0)
        for second in range(0, 100, 2):
            seen = watch.look(float(second))
        assert seen.alive
        said = f"its supervisor on {host} is suspended: no heartbeat for 98 s"
        wait_until(lambda: watch.look(98.0).silence_text == said, "the word that it is stopped")
    finally:
        process.kill()
        process.communicate()
    assert not watch.look(98.0).alive, "it has ended"


def test_on_another_host_one_more_beat_shows_that_it_lives(tmp_path: Path) -> None:
    write(tmp_path, ELSEWHERE, age_s=300)  # as if its clock were 5 minutes behind
    timer = threading.Timer(0.3, write, [tmp_path, replace(ELSEWHERE, beat=1), 300])
    timer.start()
    (seen,) = examine_leases([tmp_path])
    timer.join()
    assert seen.alive


def test_what_a_silent_supervisor_may_still_run_is_neither_started_again_nor_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file system stalls for 13 s: nobody on another host goes on with its run, or with its campaign."""
    clock = Clock()
    monkeypatch.setattr(lease_file, "time", clock)
    write(tmp_path, ELSEWHERE, age_s=3, now=clock.time())
    silence = "its supervisor on n1 is silent: no heartbeat for 13 s"
    with pytest.raises(RunError, match=rf"{silence}\n.*wait until.*`wf cancel {tmp_path.name}`"):
        resumes._refuse(tmp_path)
    with pytest.raises(RunError, match=r"on n1 .* runs this campaign"):
        refuse_running(tmp_path)
    (tmp_path / "plan.json").touch()
    monkeypatch.setattr(left_attempts, "time", clock)
    plan = SimpleNamespace(deadlines=SimpleNamespace(stop=0.0))
    monkeypatch.setattr(left_attempts, "read_filled_plan", lambda _: plan)
    run = LeftAttempt(Repetition("t", 1), StartedAttempt(tmp_path, 1, 1, 0.0))
    with pytest.raises(RunError, match=r"its supervisor on n1 is silent: no heartbeat for \d+ s"):
        list(left_attempts.adopt([run]))
    assert not (tmp_path / "events.jsonl").exists(), "no verdict"


def test_leases_of_long_ago_and_many_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(lease_file, "time", clock)
    runs = [tmp_path / str(number) for number in range(20)]
    for run in runs:
        write(run, ELSEWHERE, age_s=14, now=clock.time())
    write(runs[0], ELSEWHERE, age_s=3600, now=clock.time())
    found = examine_leases(runs)
    assert clock.waited_s == pytest.approx(SILENCE_S, abs=1), "one after the other"
    assert [seen.alive for seen in found] == [False] * 20
    assert found[0].text == "no heartbeat for 3600 s: its supervisor on n1 has died"
    assert found[1].silent_s == pytest.approx(14 + SILENCE_S, abs=1)


def test_this_system_is_the_same_for_all_its_processes() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", "from workflow.run.control.lease import this_system; print(this_system())"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout.strip() == this_system() != ""
