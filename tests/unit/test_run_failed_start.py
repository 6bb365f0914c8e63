"""A run directory that a supervisor cannot take: what becomes of the run, and what is left alone."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.support.chains import make_plan, make_stage
from workflow.errors import EXIT_RUN_FAILED, RunError
from workflow.formats.lease_file import LEASE_FILE
from workflow.launch.allocation import Allocation, Host
from workflow.run.control.lease import Heartbeat, Lease, this_system
from workflow.run.control.missing_verdict import record_failed_start, was_taken
from workflow.run.records.events_file import EVENTS_FILE, read_events, to_line
from workflow.run.records.job_record import JobRecord, write_job
from workflow.run.records.run_directory import ALLOCATION_FILE, PLAN_FILE, create_run_dir
from workflow.run.state.events import RunStarted
from workflow.run.state.lifecycle_events import RunFinished

ERROR = RunError("RUN: this run has been started before")
DEAD = Lease("n1", 4711, 3, "/runs/a", "another-boot pid:[1]", 12)
AGAIN = {"SLURM_RESTART_COUNT": "1"}
HOUR_S = 3600.0


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / PLAN_FILE).write_text("{}")
    return tmp_path


def received(job: str) -> Allocation:
    return Allocation("slurm" if job else "local", job, (Host("n1", 4, 2**30, 1), Host("n2")), 5.0, ("a note",))


class NoText:
    """A pipeline file that nobody reads."""

    text = b""


def started(run_dir: Path, job: str, *more: RunFinished) -> None:
    """A run that was started in this job."""
    (run_dir / ALLOCATION_FILE).write_text(received(job).to_json())
    events = [RunStarted(1, "run", 2, 1, "n1", events_version=3), *more]
    (run_dir / EVENTS_FILE).write_text("".join(map(to_line, events)))


def with_lease(run_dir: Path, lease: Lease) -> None:
    path = run_dir / LEASE_FILE
    path.write_text(json.dumps(asdict(lease)))
    os.utime(path, (time.time() - HOUR_S, time.time() - HOUR_S))


def record(run_dir: Path, job: str, environ: dict[str, str] | None = None) -> RunFinished | None:
    """The verdict after a start in this job has failed."""
    record_failed_start(run_dir, ERROR, received(job), was_taken(run_dir), environ or {})
    last = list(read_events(run_dir))[-1] if (run_dir / EVENTS_FILE).exists() else None
    return last if isinstance(last, RunFinished) else None


def test_what_was_received_is_read_as_it_was_written() -> None:
    assert Allocation.from_json(received("12").to_json()) == received("12")


@pytest.mark.parametrize(("environ", "which"), [(AGAIN, "job 12 (restart 1)"), ({}, "job 12")])
def test_a_job_that_was_requeued_is_the_verdict(run_dir: Path, environ: dict[str, str], which: str) -> None:
    started(run_dir, "12")
    with_lease(run_dir, DEAD)
    verdict = record(run_dir, "12", environ)
    assert verdict is not None
    assert (verdict.state, verdict.exit_code, verdict.cause) == ("failed", EXIT_RUN_FAILED, "requeued")
    assert verdict.reason.endswith(
        f"its supervisor on n1 has died, and the scheduler has requeued {which}: a run is not started again"
    )


def test_the_job_is_known_before_its_supervisor_has_written_anything(run_dir: Path) -> None:
    write_job(run_dir, JobRecord("slurm", "small-ab12", "12"))
    with_lease(run_dir, DEAD)
    verdict = record(run_dir, "12")
    assert verdict is not None
    assert verdict.cause == "requeued"


def test_a_directory_that_the_job_has_used_before_it_was_requeued_is_named(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job script of the user's own, with `wf run --run-dir`."""
    started(run_dir, "12")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    with pytest.raises(RunError) as caught:
        create_run_dir(make_plan([make_stage("a", ["true"])]), NoText(), run_dir)
    said = "has the run that this job made before the scheduler requeued it (restart 1)"
    assert caught.value.problems[0].message == f"{run_dir} {said}"
    assert caught.value.problems[0].hint.endswith(f"wf resume {run_dir}")


def test_a_requeued_job_leaves_a_run_alone_whose_supervisor_lives(run_dir: Path) -> None:
    with Heartbeat(run_dir):
        started(run_dir, "12")
        assert record(run_dir, "12", AGAIN) is None
        # Of two that start at once, the one without the lease has seen no lease.
        lease = json.loads((run_dir / LEASE_FILE).read_text())
        other = Lease(**{**lease, "pid": os.getppid(), "system": this_system(), "born": 0})
        with_lease(run_dir, other)
        record_failed_start(run_dir, ERROR, received("13"), False, {})
    assert not any(isinstance(event, RunFinished) for event in read_events(run_dir))


def test_the_verdict_of_a_run_that_has_one_is_kept(run_dir: Path) -> None:
    verdict = RunFinished(2, "failed", EXIT_RUN_FAILED, "node n2 was lost", "md", "node_lost")
    started(run_dir, "12", verdict)
    assert record(run_dir, "12", AGAIN) == verdict


@pytest.mark.parametrize("job", ["", "13"])
def test_another_start_of_the_same_run_is_a_mistake(run_dir: Path, job: str) -> None:
    started(run_dir, "12")
    with_lease(run_dir, DEAD)
    before = (run_dir / EVENTS_FILE).read_text()
    assert record(run_dir, job) is None
    assert (run_dir / EVENTS_FILE).read_text() == before


def test_a_run_that_nobody_has_taken_fails_by_the_error(run_dir: Path) -> None:
    verdict = record(run_dir, "12")
    assert verdict is not None
    assert (verdict.exit_code, verdict.reason, verdict.cause) == (ERROR.exit_code, ERROR.message, "")
