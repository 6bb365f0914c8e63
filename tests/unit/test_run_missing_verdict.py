"""The verdict of a run without one is written by others only when nobody works on the run."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from workflow.errors import RunError
from workflow.formats.lease_file import LEASE_FILE
from workflow.run.control.cancellation import clean_up
from workflow.run.control.lease import Heartbeat, Lease, Liveness, examine_leases
from workflow.run.control.missing_verdict import write_missing_verdict
from workflow.run.records.events_file import EVENTS_FILE, read_events
from workflow.run.state.lifecycle_events import RunFinished

ELSEWHERE = Lease("n1", 4711, 3, "/runs/a", "another-boot pid:[1]", 12)
AN_HOUR_S = 3600.0


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "streams").mkdir()
    (tmp_path / "streams/field.sst").touch()
    return tmp_path


def take(run_dir: Path, lease: Lease) -> None:
    """As a supervisor of another machine, an hour ago."""
    (run_dir / LEASE_FILE).write_text(json.dumps(asdict(lease)))
    then = time.time() - AN_HOUR_S
    os.utime(run_dir / LEASE_FILE, (then, then))


def write(run_dir: Path, lives: Liveness) -> bool:
    return write_missing_verdict(run_dir, lives, "failed", 1, "slurm job 12 ended", "requeued")


def assert_untouched(run_dir: Path) -> None:
    assert not (run_dir / EVENTS_FILE).exists()
    assert (run_dir / "streams/field.sst").exists(), "the contact file of a live stream"


def test_a_dead_supervisor_gets_one_verdict(run_dir: Path) -> None:
    take(run_dir, ELSEWHERE)
    (lives,) = examine_leases([run_dir])
    assert write(run_dir, lives)
    assert not write(run_dir, lives), "it has a verdict"
    (verdict,) = read_events(run_dir)
    assert isinstance(verdict, RunFinished)
    assert (verdict.state, verdict.exit_code, verdict.reason) == ("failed", 1, "slurm job 12 ended")
    assert verdict.cause == "requeued"
    assert not (run_dir / "streams/field.sst").exists()


def test_nothing_is_written_into_a_run_whose_supervisor_lives(run_dir: Path) -> None:
    with Heartbeat(run_dir):
        (lives,) = examine_leases([run_dir])
        assert not write(run_dir, lives)
    assert_untouched(run_dir)


def test_nor_when_the_lease_was_taken_or_renewed_meanwhile(run_dir: Path) -> None:
    (lives,) = examine_leases([run_dir])
    take(run_dir, ELSEWHERE)
    assert not write(run_dir, lives)
    (lives,) = examine_leases([run_dir])
    take(run_dir, replace(ELSEWHERE, beat=4))
    assert not write(run_dir, lives)
    (run_dir / LEASE_FILE).write_text("")
    assert not write(run_dir, Liveness(None, alive=False)), "somebody is writing it"
    assert_untouched(run_dir)


def test_nothing_is_cleaned_up_of_a_run_whose_supervisor_lives(run_dir: Path) -> None:
    with Heartbeat(run_dir):
        (lives,) = examine_leases([run_dir])
        with pytest.raises(RunError, match="is still running it"):
            clean_up(run_dir, lives)
    assert_untouched(run_dir)
