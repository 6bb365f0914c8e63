"""Is anybody still working on this run?"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.support.sample_run import make_plan, write_run, write_sample
from workflow.formats.lease_file import LEASE_FILE
from workflow.launch.allocation import Allocation, Host
from workflow.report.html.page import make_html
from workflow.report.read.run_records import read_records
from workflow.report.read.run_states import is_alive, is_over, list_runs
from workflow.report.report_files import compute_report
from workflow.report.show.event_lines import event_text
from workflow.report.show.printing import show_end, show_report, show_status
from workflow.report.show.run_in_words import explanation
from workflow.report.show.tables_of_runs import run_table
from workflow.run.control.lease import Lease, examine_leases, this_system
from workflow.run.processes.process_reaper import born_ticks, write_verdict
from workflow.run.records.job_record import JobRecord, write_job


def write_started(run_dir: Path, t: float, lease: Lease | None, stage_pid: int = 0) -> Path:
    """A run that was started at `t`, by the supervisor with this lease."""
    who = lease or Lease("n1", 1, 0)
    events = [
        {
            "event": "run_started",
            "events_version": 3,
            "t": t,
            "run": "sample",
            "plan_version": 1,
            "pid": who.pid,
            "host": who.host,
        },
    ]
    if stage_pid:
        events.append({"event": "stage_started", "t": t, "stage": "md", "pid": stage_pid})
    write_run(run_dir, make_plan(), events, {})
    if lease is not None:
        (run_dir / LEASE_FILE).write_text(json.dumps(asdict(lease)))
    return run_dir


def lease_of(pid: int) -> Lease:
    """The lease of a process of this machine; as of an ended one where there is none."""
    return Lease(socket.gethostname(), pid, 0, "", this_system(), born_ticks(pid) or 1)


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_run_with_a_living_supervisor_runs(tmp_path: Path) -> None:
    report = compute_report(write_started(tmp_path / "run", time.time(), lease_of(os.getpid())))
    assert (report.run.state, report.run.reason) == ("running", "")


def test_a_run_whose_supervisor_has_died_is_lost(tmp_path: Path, dead_pid: int) -> None:
    run_dir = write_started(tmp_path / "run", time.time(), lease_of(dead_pid), stage_pid=dead_pid)
    report = compute_report(run_dir)
    assert report.run.state == "lost"
    assert report.run.reason == f"its supervisor on {socket.gethostname()} (process {dead_pid}) has died"
    assert [stage.state for stage in report.stages] == ["ended", "waiting", "waiting"]


def test_of_a_run_that_nobody_has_taken_nothing_is_claimed(tmp_path: Path) -> None:
    assert compute_report(write_started(tmp_path / "run", time.time(), None)).run.state == "unfinished"


def test_after_its_guard_ended_a_run_no_stage_runs(tmp_path: Path, dead_pid: int) -> None:
    t = time.time()
    run_dir = write_started(tmp_path / "run", t, lease_of(dead_pid), stage_pid=dead_pid)
    opened = {"event": "stage_open", "t": t + 1, "stage": "md"}
    over = {"event": "run_finished", "t": t + 2, "state": "failed", "exit_code": 1, "reason": "killed", "stage": ""}
    with (run_dir / "events.jsonl").open("a") as file:
        file.write(json.dumps(opened) + '\n{"event": "stage_exi\n' + json.dumps(over) + "\n")
    report = compute_report(run_dir)
    assert report.run.state == "failed"
    assert [stage.state for stage in report.stages] == ["stopped", "stopped", "stopped"]
    assert report.stage("md").ended == pytest.approx(t + 2)
    assert report.stage("saxs").ended is None


def test_a_run_is_over_with_its_verdict_or_its_supervisor(tmp_path: Path, dead_pid: int) -> None:
    def over(run_dir: Path) -> bool:
        return is_over(run_dir, examine_leases([run_dir])[0])

    now = time.time()
    assert over(tmp_path), "never started"
    run_dir = write_started(tmp_path / "living", now, lease_of(os.getpid()))
    assert not over(run_dir)
    with (run_dir / "events.jsonl").open("a") as file:
        file.write('{"event": "run_finished", "t"')
        file.flush()
        assert not over(run_dir), "half a verdict is none"
        file.write(f': {now}, "state": "failed", "exit_code": 1, "reason": "", "stage": ""}}\n')
    assert over(run_dir)
    assert over(write_started(tmp_path / "dead", now, lease_of(dead_pid)))


def test_stages_that_outlive_their_supervisor_are_named(tmp_path: Path, dead_pid: int) -> None:
    run_dir = write_started(tmp_path / "run", time.time(), lease_of(dead_pid), stage_pid=os.getpid())
    report = compute_report(run_dir)
    assert report.stage("md").state == "running"
    assert report.run.reason.endswith(f"still running: md (process {os.getpid()})")


def test_the_runs_are_listed_by_their_events_and_leases(tmp_path: Path, dead_pid: int) -> None:
    now = time.time()
    living = write_started(tmp_path / "living", now - 5, lease_of(os.getpid()))
    lost = write_started(tmp_path / "lost", now - 9, lease_of(dead_pid))
    waiting = write_run(tmp_path / "waiting", make_plan(), [], {})
    done = write_sample(tmp_path / "done")
    lines = list_runs([living, lost, waiting, done])
    assert [(line.name, line.state, line.host) for line in lines] == [
        ("living", "running", socket.gethostname()),
        ("lost", "lost", socket.gethostname()),
        ("waiting", "unfinished", ""),
        ("done", "succeeded", compute_report(done).run.host),
    ]
    assert "has died" in lines[1].reason
    assert lines[0].started == pytest.approx(now - 5)
    assert {line.site for line in lines} == {"local"}
    assert lines[3].wall_s == pytest.approx(compute_report(done).run.wall_s)
    assert run_table(lines).rows[2] == ["waiting", "unfinished", "-", "-", "-", "local"]


def test_a_run_inside_a_job_of_its_users_own_is_listed_with_the_job(tmp_path: Path) -> None:
    done = write_sample(tmp_path / "done")
    for allocation, job in [
        (Allocation("slurm", "12", (Host("n1"),)), "slurm job 12"),
        (Allocation("local", "", (Host("n1"),)), ""),
    ]:
        (done / "allocation.json").write_text(allocation.to_json())
        (line,) = list_runs([done])
        assert line.job == job
        assert run_table([line]).rows[0][4] == ", ".join(filter(None, (line.host, job)))


def test_a_job_that_was_not_accepted(tmp_path: Path) -> None:
    refused, waiting = (write_run(tmp_path / name, make_plan(), [], {}) for name in ("refused", "waiting"))
    for run_dir in (refused, waiting):
        write_job(run_dir, JobRecord("slurm", "shock-65e742"))
    write_verdict(str(refused), "failed", 2, "slurm did not accept the job: x", 1000.0)
    lines = list_runs([refused, waiting])
    assert [(line.state, line.job) for line in lines] == [
        ("failed", "not submitted"),
        ("submitted", "slurm job shock-65e742"),
    ]


def test_a_finished_run_keeps_its_verdict(tmp_path: Path) -> None:
    assert compute_report(write_sample(tmp_path / "run")).run.state == "succeeded"


def test_a_run_that_has_lost_a_part_says_so_with_its_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the terminal, in status, list, page, JSON and events."""
    run_dir = write_sample(tmp_path / "runs/one")
    events = run_dir / "events.jsonl"
    events.write_text(
        events.read_text().replace('"succeeded", "exit_code"', '"succeeded", "lacks": "5 of 6 members", "exit_code"')
    )
    report = compute_report(run_dir)
    assert json.loads(report.to_json())["run"]["lacks"] == "5 of 6 members"
    for show in (show_report, show_status, lambda given: show_end(given, run_dir)):
        show(report)
        assert "succeeded, 5 of 6 members" in capsys.readouterr().out.splitlines()[0]
    (line,) = list_runs([run_dir])
    assert line.lacks == "5 of 6 members"
    assert run_table([line]).rows[0][1] == "succeeded, 5 of 6 members"
    (run_dir / "expectations.json").write_text('{"expectations_version": 1, "expec')
    (line,) = list_runs([run_dir])
    assert line.lacks == "5 of 6 members, expectations.json cannot be read"
    (run_dir / "expectations.json").unlink()
    records = read_records(run_dir)
    page = make_html(records, report)
    assert 'class="verdict succeeded part">✓ succeeded, 5 of 6 members<' in page
    assert explanation(report, records, has_data=False)[0].endswith(", but 5 of 6 members.")
    assert records.state.finished is not None
    assert event_text(records.state.finished, records.plan) == "the run succeeded, 5 of 6 members"


def test_a_zombie_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()  # until it has closed its end, i.e. is about to exit; it is not waited for yet
    deadline = time.monotonic() + 10
    while is_alive(process.pid, time.time()):
        assert time.monotonic() < deadline, "the child never became a zombie"
    process.wait()
    process.stdout.close()
