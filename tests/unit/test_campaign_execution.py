"""How a campaign ends what was left: by a driver, in a pilot, in a run that nobody follows."""

from __future__ import annotations

import itertools
import json
import os
import pwd
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
from workflow.api.plans import make_plan
from workflow.campaign.execution import driver_lease as lease_of_driver
from workflow.campaign.execution import in_order, left_attempts
from workflow.campaign.execution.campaign_loop import (
    MOST_LOSSES,
    UNFINISHED,
    AttemptsLeft,
    CampaignContext,
    Driver,
    remaining,
    run_repetitions,
)
from workflow.campaign.execution.driver_lease import (
    KEYS_FOLDER,
    PILOTS_FOLDER,
    DriverWatch,
    StopRequests,
    bound_command,
    driver_lease,
    end_session,
    remove_left_sockets,
    write_driver,
)
from workflow.campaign.execution.left_attempts import LeftAttempt, adopt
from workflow.campaign.execution.repetition import StartedAttempt
from workflow.campaign.file.load_campaign import load_campaign
from workflow.campaign.ledger import Attempt, History, Ledger, RunEnd
from workflow.campaign.planning.planned_trials import PlannedCampaign, plan_campaign
from workflow.errors import RunError
from workflow.formats.lease_file import LEASE_FILE
from workflow.provenance.collect import start_context
from workflow.run.control import lease as lease_file
from workflow.run.control.lease import Heartbeat, Lease, has_lease, read_lease
from workflow.run.processes.process_reaper import living_groups
from workflow.run.processes.process_tree import is_suspended
from workflow.run.records.events_file import to_line
from workflow.run.records.run_directory import create_run_dir
from workflow.run.state.events import RunStarted
from workflow.run.state.lifecycle_events import RunFinished
from workflow.site.discover import discover_allocation

WITHIN_S = 30.0
HOLD_LEASE = """import os, sys, pathlib
from workflow.campaign.execution.driver_lease import driver_lease
with driver_lease(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def planned(folder: Path, more: str = "") -> PlannedCampaign:
    (folder / "pipeline.yaml").write_text(
        "wf: 1\nname: p\noversubscribe: true\ndeadlines: {stop: 0.2 s}\nstages: {one: {command: [sh, -c, 'true']}}\n"
    )
    (folder / "campaign.yaml").write_text(f"wf: 1\ncampaign: c\npipeline: pipeline.yaml\nwarmup: 0\n{more}\n")
    return plan_campaign(load_campaign(folder / "campaign.yaml"), lambda loaded, _: make_plan(loaded))


def test_a_session_ends_although_a_zombie_stays_in_its_group() -> None:
    process = subprocess.Popen(["sleep", "60"], preexec_fn=os.setpgrp)
    # In the same group; its parent, this process, takes no notice of its end.
    other = subprocess.Popen(["sleep", "60"], preexec_fn=lambda: os.setpgid(0, process.pid))
    ending = threading.Thread(target=end_session, args=(process, 5.0, 1.0), daemon=True)
    ending.start()
    ending.join(WITHIN_S)
    try:
        assert not ending.is_alive(), "it waits for a zombie"
        assert process.returncode == -signal.SIGTERM and not living_groups([process.pid])
        assert Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    finally:
        other.wait()


def test_a_session_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    script = f"trap '' TERM; touch {tmp_path}/ready; while :; do sleep 0.1; done"
    process = subprocess.Popen(["sh", "-c", script], start_new_session=True)
    wait_until((tmp_path / "ready").exists, "the command ignores SIGTERM")
    end_session(process, stop_s=0.3, killed_s=WITHIN_S)
    assert process.returncode == -signal.SIGKILL and not living_groups([process.pid])


@pytest.mark.parametrize("was_open", [True, False], ids=["was open", "was always refused"])
def test_a_silent_driver_on_another_host_is_dead_when_its_open_endpoint_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_open: bool
) -> None:
    """Silence alone may be that of a file system that stalls, and a firewall may refuse what it has never let pass."""
    monkeypatch.setattr(lease_of_driver, "LOOK_S", 0.0)
    monkeypatch.setattr(lease_of_driver, "SILENCE_S", 0.0)
    driver = Lease("elsewhere", 12, 0, str(tmp_path), "another boot", 3)
    (tmp_path / LEASE_FILE).write_text(json.dumps(asdict(driver)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = listener.getsockname()
        if was_open:
            watch = DriverWatch(tmp_path, driver, [endpoint])
            assert not watch.is_lost(), "its file system may stall"
    if not was_open:
        watch = DriverWatch(tmp_path, driver, [endpoint])
    assert watch.is_lost() is was_open


def test_what_a_bound_command_leaves_ends_with_it(tmp_path: Path) -> None:
    folder = tmp_path / PILOTS_FOLDER / "p1"
    folder.mkdir(parents=True)
    with driver_lease(tmp_path) as driver:
        write_driver(folder, driver)
        command = ["sh", "-c", f"sleep 60 & echo $! $$ > {tmp_path}/ids; exit 3"]
        done = subprocess.run([*bound_command(folder), *command], timeout=WITHIN_S, check=False)
    assert done.returncode == 3
    left, session = (int(word) for word in (tmp_path / "ids").read_text().split())
    assert not living_groups([session]), f"process {left} was left"


def test_a_bound_command_has_what_the_caller_has_left_out(tmp_path: Path) -> None:
    """HOME, without which ADIOS2 dies, and standard input, whose number another file would get."""
    folder = tmp_path / PILOTS_FOLDER / "p1"
    folder.mkdir(parents=True)
    with driver_lease(tmp_path) as driver:
        write_driver(folder, driver)
        command = ["sh", "-c", f'echo "$HOME" > {tmp_path}/home; readlink /proc/self/fd/0 >> {tmp_path}/home']
        closed = ["sh", "-c", 'unset HOME; exec "$@" <&-', "sh"]
        subprocess.run([*closed, *bound_command(folder), *command], timeout=WITHIN_S, check=True)
    assert (tmp_path / "home").read_text() == f"{pwd.getpwuid(os.getuid()).pw_dir}\n/dev/null\n"


def test_a_driver_that_lives_is_refused_and_one_that_died_is_replaced(tmp_path: Path) -> None:
    keys = tmp_path / PILOTS_FOLDER / "p1" / KEYS_FOLDER
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD_LEASE, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        keys.mkdir(parents=True)
        (keys / "server.key_secret").touch()
        with pytest.raises(RunError, match=f"another process runs this campaign: process {other.pid} on"):
            driver_lease(tmp_path).__enter__()
        lease = read_lease(tmp_path)
        assert lease is not None and lease.pid == other.pid and keys.exists()
    finally:
        other.kill()
        other.communicate()
    with driver_lease(tmp_path) as own:
        assert own.pid == os.getpid() and not keys.exists()
    assert read_lease(tmp_path) is None


def test_a_driver_that_is_stopped_or_silent_elsewhere_is_refused_after_the_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the clock is two seconds later."""
    ticks = itertools.count(0.0, 2.0)
    clock = SimpleNamespace(time=time.time, monotonic=lambda: next(ticks), sleep=lambda _: None)
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD_LEASE, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        other.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_suspended([other.pid]), "the driver is stopped")
        monkeypatch.setattr(lease_of_driver, "time", clock)
        monkeypatch.setattr(lease_file, "time", clock)
        with pytest.raises(RunError, match=rf"is suspended: process {other.pid} on .*\n.*kill -CONT {other.pid}"):
            driver_lease(tmp_path).__enter__()
        lease = read_lease(tmp_path)
        assert lease is not None and lease.pid == other.pid
        elsewhere = replace(lease, host="n1", system="another-boot pid:[1]")
        (tmp_path / LEASE_FILE).write_text(json.dumps(asdict(elsewhere)))
        with pytest.raises(RunError, match=rf"is silent: process {other.pid} on n1.*\n.*counts as dead after 10 min"):
            driver_lease(tmp_path).__enter__()
        assert read_lease(tmp_path) == elsewhere
    finally:
        other.kill()
        other.communicate()


def leave_lease(folder: Path) -> None:
    """As a driver that has died does."""
    script = HOLD_LEASE.replace("sys.stdin.read()", "os._exit(0)")
    subprocess.run([sys.executable, "-c", script, str(folder)], timeout=WITHIN_S, check=True)
    assert has_lease(folder)


@pytest.mark.parametrize("with_left_lease", [False, True])
def test_of_two_that_start_at_the_same_moment_one_is_refused_by_name(
    with_left_lease: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse, others = lease_of_driver._refuse_second, list[subprocess.Popen[str]]()
    if with_left_lease:
        leave_lease(tmp_path)

    def start_other_then_refuse(directory: Path) -> None:
        refuse(directory)
        if not others:
            argv = [sys.executable, "-c", HOLD_LEASE, str(tmp_path)]
            others.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            assert others[0].stdout is not None and others[0].stdout.readline() == "held\n"

    monkeypatch.setattr(lease_of_driver, "_refuse_second", start_other_then_refuse)
    try:
        with pytest.raises(RunError, match="another process runs this campaign: process"):
            driver_lease(tmp_path).__enter__()
        lease = read_lease(tmp_path)
        assert lease is not None and lease.pid == others[0].pid
    finally:
        others[0].kill()
        others[0].communicate()


def test_while_one_removes_the_lease_of_a_dead_driver_no_other_does(tmp_path: Path) -> None:
    leave_lease(tmp_path)
    turn = tmp_path / ".lease.json.removing"
    turn.mkdir()
    with pytest.raises(RunError, match=rf"another process starts this campaign\n.*rmdir {turn}"):
        driver_lease(tmp_path).__enter__()
    assert has_lease(tmp_path)
    turn.rmdir()
    with driver_lease(tmp_path):
        assert not turn.exists()


def test_a_turn_that_a_killed_driver_has_left_is_over(tmp_path: Path) -> None:
    leave_lease(tmp_path)
    turn = tmp_path / ".lease.json.removing"
    turn.mkdir()
    os.utime(turn, (time.time() - 90, time.time() - 90))
    with driver_lease(tmp_path):
        assert not turn.exists()


def test_a_driver_that_ended_while_this_one_started_is_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = lease_of_driver._refuse_second

    def refuse_then_leave(directory: Path) -> None:
        refuse(directory)
        if not has_lease(tmp_path):
            leave_lease(tmp_path)

    monkeypatch.setattr(lease_of_driver, "_refuse_second", refuse_then_leave)
    with pytest.raises(RunError, match=r"another process ran this campaign until now\n.*same command again"):
        driver_lease(tmp_path).__enter__()


def test_a_run_that_does_not_end_does_not_keep_the_others_from_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_attempts, "REACTION_S", 0.2)
    campaign = planned(tmp_path, "repetitions: 2")
    left = []
    for each in remaining(campaign, History()):
        run_dir, trial = tmp_path / each.name, campaign.by_key[each.key]
        create_run_dir(trial.plan, trial.loaded, run_dir, latest=False)
        left.append(LeftAttempt(each, StartedAttempt(run_dir, 1, 1, time.time())))
    ended = []
    with Heartbeat(left[0].start.run_dir), pytest.raises(RunError, match=left[0].start.run_dir.name):
        for each_left, attempt in adopt(left):
            assert attempt is not None
            ended.append((each_left, attempt.state))
    assert ended == [(left[1], "interrupted")]


def test_the_times_of_a_run_that_ended_without_its_driver_are_its_own(tmp_path: Path) -> None:
    """Its job waited, ran for 6 s, and a driver looked at it much later."""
    campaign = planned(tmp_path, "repetitions: 1")
    (each,) = remaining(campaign, History())
    run_dir, trial = tmp_path / each.name, campaign.by_key[each.key]
    create_run_dir(trial.plan, trial.loaded, run_dir, latest=False)
    events = [RunStarted(1000.0, "c", 1, 7, "n1"), RunFinished(1006.0, "succeeded", 0, "", "")]
    (run_dir / "events.jsonl").write_text("".join(map(to_line, events)))
    ((_, attempt),) = adopt([LeftAttempt(each, StartedAttempt(run_dir, 1, 1, 700.0))])
    assert attempt is not None
    assert (attempt.started, attempt.wall_s) == (1000.0, 6.0)


@pytest.mark.parametrize("state", ["interrupted", "lost"])
def test_a_repetition_that_is_left_is_not_counted_as_done(
    state: RunEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(start: StartedAttempt, *_: object) -> Attempt:
        return Attempt(state, start.number, start.run_dir.name, start.t, 1.0)

    monkeypatch.setattr(in_order, "run_repetition", run)
    campaign = planned(tmp_path, "repetitions: 2\nretries: 0")
    directory = tmp_path / "c"
    directory.mkdir()
    with Ledger(directory) as ledger, driver_lease(directory) as lease, StopRequests(directory) as stop:
        driver = Driver(campaign, directory, ledger, lease, stop)
        context = CampaignContext(
            discover_allocation(), {}, lambda loaded, _: make_plan(loaded), start_context(tmp_path, [])
        )
        todo = remaining(campaign, ledger.history)
        executor = in_order.InOrder(campaign, context, todo, stop.wanted)
        (ended,) = run_repetitions(driver, executor, todo, UNFINISHED)
        assert (ended.done, ended.total, len(remaining(campaign, ledger.history))) == (0, 2, 2)


def test_failures_and_losses_are_counted_apart(tmp_path: Path) -> None:
    campaign = planned(tmp_path, "repetitions: 2\nretries: 1")
    todo = remaining(campaign, History())
    attempts = AttemptsLeft(campaign, History(), todo, UNFINISHED)

    def take(index: int, state: RunEnd) -> bool:
        return attempts.take(todo[index], Attempt(state, 1, "run", 1e9, 2.0))

    assert [take(0, "failed"), take(0, "failed")] == [True, False]
    assert [take(1, "lost") for _ in range(MOST_LOSSES + 1)] == [True] * MOST_LOSSES + [False]
    told = attempts.tell(todo[1], Attempt("lost", 1, "run", 1e9, 2.0), 12.0)
    assert (told.done, told.total, told.left_s) == (2, 2, 0.0)


def test_a_trial_that_is_the_baseline_of_another_is_measured_once(tmp_path: Path) -> None:
    more = "repetitions: 2\nmatrix: {stages.one.ranks: [1, 2]}\nbaseline: {set: {stages.one.ranks: 1}}"
    campaign = planned(tmp_path, more)
    keys = [each.key for each in campaign.ready]
    assert len(keys) == len(set(keys)) == 2 and len(campaign.repetitions) == len(set(campaign.repetitions)) == 4
    assert {each.baseline for each in campaign.ready} == {keys[0]}


def test_sockets_that_killed_workers_have_left_are_removed_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pilot that is ended kills managers that have such folders in $TMPDIR."""

    def listener(name: str) -> socket.socket:
        (tmp_path / name).mkdir()
        made = socket.socket(socket.AF_UNIX)
        made.bind(str(tmp_path / name / "listener-x"))
        made.listen()
        return made

    monkeypatch.chdir(tmp_path)
    with listener("pymp-used"):
        listener("pymp-left").close()
        listener("other").close()
        (tmp_path / "pymp-data").mkdir()
        (tmp_path / "pymp-data/file").write_text("of a user")
        old = tmp_path / "pymp-old"
        listener("pymp-old").close()
        os.utime(old, (1, 1))
        remove_left_sockets(tmp_path, time.time() - 60)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "pymp-data", "pymp-old", "pymp-used"]
