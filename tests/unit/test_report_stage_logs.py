"""`wf logs`: what programs said, without what SST said, and cheaply while a run goes on."""

from __future__ import annotations

import json
import os
import socket
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sample_run import make_plan, simulate, write_run
from workflow.errors import RunError
from workflow.report.read import stage_logs
from workflow.run.control import lease
from workflow.run.control.lease import Heartbeat

SST = "Param -   QueueLimit=2\nWriter is using Minimum Connection Communication pattern (min)\n\n"


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run of this very process that goes on, with a lot of steps."""
    begin = {
        "event": "run_started",
        "events_version": 3,
        "t": time.time(),
        "run": "sample",
        "plan_version": 1,
        "pid": os.getpid(),
    }
    events = [begin | {"host": socket.gethostname()}]
    run_dir = write_run(tmp_path / "run", make_plan(), events, simulate(5000, 0.05, 0.05, 0.01))
    monkeypatch.setattr(lease, "BEAT_S", 0.1)
    with Heartbeat(run_dir):
        yield fill(run_dir)


def fill(run_dir: Path) -> Path:
    """The run with what its stages have printed."""
    (run_dir / "stages/md/stdout.log").write_text("one\ntwo\nthree")
    (run_dir / "stages/md/stderr.log").write_text(f"{SST}warned\n{SST}")
    (run_dir / "stages/saxs/stdout.log").write_text("")
    (run_dir / "stages/saxs/stderr.log").write_text(SST)
    return run_dir


def test_programs_speak_and_sst_does_not(run_dir: Path) -> None:
    assert list(stage_logs.last_logs(run_dir, None, 2)) == [
        "── md stdout ──", "two", "three", "── md stderr ──", "warned",
        "── keep has printed nothing ──", "── saxs has printed nothing ──",
    ]  # fmt: skip
    assert list(stage_logs.last_logs(run_dir, "saxs", 2)) == ["── saxs has printed nothing ──"]
    assert list(stage_logs.last_logs(run_dir, "saxs", 9, raw=True)) == ["── saxs stderr ──", *SST.splitlines()]


STOPPED = """working
Traceback (most recent call last):
  File "a.py", line 3, in <module>
    work()
KeyboardInterrupt
[mpiexec@node] Sending Ctrl-C to processes as requested
[mpiexec@node] Press Ctrl-C again to force abort
rank 1 of 2: Traceback (most recent call last):
  File "a.py", line 3, in <module>
ValueError: KeyboardInterrupt
Traceback (most recent call last):
  File "cut"
"""


def test_what_ctrl_c_makes_programs_say_is_not_shown(run_dir: Path) -> None:
    (run_dir / "stages/keep/stderr.log").write_text(STOPPED)
    lines = STOPPED.splitlines()
    assert list(stage_logs.last_logs(run_dir, "keep", 99))[1:] == [lines[0], *lines[7:]]
    assert list(stage_logs.last_logs(run_dir, "keep", 99, raw=True))[1:] == lines


def test_the_last_lines_of_a_failed_stage(run_dir: Path) -> None:
    log = run_dir / "stages/keep/stderr.log"
    log.write_text("\x1b[31mout of memory\x1b[0m\n" + STOPPED)
    lines = STOPPED.splitlines()
    assert stage_logs.last_error_lines(run_dir, "keep", 1, interrupted=False) == ["out of memory", *lines]
    assert stage_logs.last_error_lines(run_dir, "keep", 1, interrupted=True) == ["out of memory", lines[0], *lines[7:]]
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    assert stage_logs.last_error_lines(run_dir, "keep", 1, interrupted=True) == [f"line {n}" for n in range(80, 100)]
    assert stage_logs.last_error_lines(run_dir, "never-started", 1, interrupted=True) == []


def test_no_lines_are_no_lines(run_dir: Path) -> None:
    assert list(stage_logs.last_logs(run_dir, None, 0)) == []


def test_a_stage_that_is_not_there_is_refused(run_dir: Path) -> None:
    with pytest.raises(RunError, match="did you mean `saxs`"):
        list(stage_logs.last_logs(run_dir, "sax", 5))


def test_following_is_cheap_and_misses_nothing(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 0

    def pause(_: float) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            (run_dir / "stages/keep/stdout.log").write_text("only now\n")  # a stage that starts late
        if rounds == 2:
            with (run_dir / "stages/md/stdout.log").open("a") as file:
                file.write(" and a half\nParam -   QueueLimit=2\nfour")
        if rounds == 40:
            verdict = {"event": "run_finished", "t": time.time(), "state": "succeeded", "exit_code": 0}
            with (run_dir / "events.jsonl").open("a") as file:
                file.write(json.dumps(verdict | {"reason": "", "stage": ""}) + "\n")

    monkeypatch.setattr(time, "sleep", pause)
    made: list[object] = []
    monkeypatch.setattr("workflow.report.build.make_report.make_report", made.append)
    lines = list(stage_logs.follow_logs(run_dir, None, 20))
    assert not made, "following makes whole reports, which costs the stages their processor"
    assert lines == [
        "── md stdout ──", "one", "two", "── md stderr ──", "warned",
        "keep: only now", "md: three and a half", "md: four",
    ]  # fmt: skip


def test_each_attempt_of_a_stage_has_its_logs(run_dir: Path) -> None:
    name = next(path.name for path in sorted((run_dir / "stages").iterdir()))
    for number in (2, 10):
        folder = run_dir / "stages" / name / f"attempt-{number}"
        folder.mkdir()
        (folder / "stdout.log").write_text(f"this is attempt {number}\n")
    lines = list(stage_logs.last_logs(run_dir, name, 20))
    assert lines[-4:] == [
        f"── {name} attempt-2 stdout ──", "this is attempt 2", f"── {name} attempt-10 stdout ──", "this is attempt 10",
    ]  # fmt: skip


def read_bytes() -> int:
    """What this process has read so far."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_the_last_lines_of_a_long_file_cost_no_more_than_those_of_a_short_one(run_dir: Path) -> None:
    line = "step 123456 residual 1.2345e-06 dt 1.0e-3 elapsed 12345.67 s ok\n"
    with (run_dir / "stages/keep/stdout.log").open("w") as file:
        for _ in range(30):
            file.write(line * 16_000)
        file.write("last\n")
    before = read_bytes()
    said = list(stage_logs.last_logs(run_dir, "keep", 3))
    assert said == ["── keep stdout ──", line.rstrip(), line.rstrip(), "last"]
    assert read_bytes() - before < 1_000_000
    following = stage_logs.follow_logs(run_dir, "keep", 1)
    assert [next(following), next(following)] == ["── keep stdout ──", "last"]
    with (run_dir / "stages/keep/stdout.log").open("a") as file:
        file.write("new\n")
    assert next(following) == "keep: new"
    assert read_bytes() - before < 2_000_000


def test_a_line_without_an_end_is_cut(run_dir: Path) -> None:
    log = run_dir / "stages/keep/stdout.log"
    log.write_text("first\n")
    os.truncate(log, 400_000_000)
    tracemalloc.start()
    (said,) = list(stage_logs.last_logs(run_dir, "keep", 1))[1:]
    following = stage_logs.follow_logs(run_dir, "keep", 1)
    assert [next(following), next(following)[-20:]] == ["── keep stdout ──", said[-20:]]
    with log.open("a") as file:
        file.write("the rest of it\nnew\n")
    assert next(following) == "keep: new"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert said.endswith(" MB in one line)") and len(said) < 30_000
    assert peak < 100_000_000
