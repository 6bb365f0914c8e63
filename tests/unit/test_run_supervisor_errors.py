"""Errors of the file system and of the supervisor itself: no verdict, no warning and no descriptor is lost."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.chains import make_plan, make_stage, write_run
from workflow.run import run_loop
from workflow.run.lifecycle import step
from workflow.run.records.events_file import read_events
from workflow.run.state.events import RecordsLost
from workflow.run.state.lifecycle_events import RunFinished
from workflow.run.state.run_state import RunState
from workflow.run.supervisor import supervise


def run_stages(folder: Path, *argv: Sequence[str]) -> Path:
    """The directory of a run of these commands."""
    return write_run(make_plan([make_stage(f"s{number}", list(each)) for number, each in enumerate(argv)]), folder)


def verdict_of(state: RunState) -> RunFinished:
    assert state.finished is not None
    return state.finished


def test_verdict_does_not_depend_on_the_cleanup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> list[str]:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(run_loop, "clean", fail)
    run_dir = run_stages(tmp_path, ["true"])
    (*_, last) = supervise(run_dir)
    verdict = verdict_of(last)
    assert (verdict.state, verdict.exit_code) == ("succeeded", 0)
    assert verdict.reason.startswith("files that are not needed any more may be left in the run directory: "), verdict
    assert list(read_events(run_dir))[-1] == verdict


@pytest.mark.parametrize("kind", ["stage_exited", "stage_succeeded", "cleaned", "run_finished"])
def test_first_lost_event_is_a_warning_also_at_the_end(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full from this event on."""
    write, full = os.write, False

    def write_until_full(file: int, data: Any) -> int:
        nonlocal full
        full = full or bytes(data).startswith(f'{{"event": "{kind}"'.encode())
        if full and bytes(data).startswith(b'{"event"'):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data)

    run_dir = run_stages(tmp_path, ["true"])
    (run_dir / "streams/left.sst").touch()
    monkeypatch.setattr(os, "write", write_until_full)
    (*_, last) = supervise(run_dir)
    assert verdict_of(last).state == "succeeded"
    texts = [warning.text for warning in last.warnings if isinstance(warning, RecordsLost)]
    assert texts == ["events.jsonl cannot be written: No space left on device; the run goes on"]


def test_stage_that_cannot_be_started_nor_report_that(tmp_path: Path) -> None:
    """As on a full disk: its log cannot be written either."""
    run_dir = run_stages(tmp_path, ["true"])
    (run_dir / "stages/s0/stderr.log").mkdir()
    (*_, last) = supervise(run_dir)
    assert (verdict_of(last).state, verdict_of(last).stage) == ("failed", "s0")
    assert "cannot start true" in verdict_of(last).reason


@pytest.mark.parametrize(
    ("first", "why"),
    [
        ("#!/no/such/python", "No such file or directory: the interpreter in its first line is not there"),
        ("#!/bin/sh\r", "No such file or directory: the interpreter in its first line is not there"),
        ("print(1)", "Exec format error: a script has a first line such as `#!/bin/sh`"),
    ],
)
def test_a_script_whose_first_line_starts_nothing(tmp_path: Path, first: str, why: str) -> None:
    script = tmp_path / "a.py"
    script.write_bytes(f"{first}\n".encode())
    script.chmod(0o755)
    (*_, last) = supervise(run_stages(tmp_path, [str(script)]))
    assert verdict_of(last).reason.endswith(f"cannot start {script}: {why}")


def test_error_of_the_supervisor_is_raised_also_when_the_caller_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = False

    def step_or_fail(*arguments: Any) -> Any:
        if broken:
            raise ZeroDivisionError("of the supervisor")
        return step(*arguments)

    monkeypatch.setattr(run_loop, "step", step_or_fail)
    run_dir = run_stages(tmp_path, ["sleep", "100"], ["sleep", "100"])
    before = open_files()
    with pytest.raises(ZeroDivisionError), contextlib.closing(supervise(run_dir)) as states:
        next(state for state in states if all(stage.pid for stage in state.stages.values()))
        broken = True
    assert open_files() == before
    last = list(read_events(run_dir))[-1]
    assert isinstance(last, RunFinished)
    assert last.state == "interrupted"


def test_closed_run_leaves_no_descriptor(tmp_path: Path) -> None:
    run_dir = run_stages(tmp_path, ["sleep", "100"], ["sleep", "100"])
    before = open_files()
    with contextlib.closing(supervise(run_dir)) as states:
        next(state for state in states if all(stage.pid for stage in state.stages.values()))
    assert open_files() == before


def open_files() -> list[str]:
    """What the descriptors of this process lead to, without the numbers of pipes."""
    found = []
    for entry in os.scandir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the listing
            found.append(str(Path(entry.path).readlink()).partition(":[")[0])
    return sorted(found)
