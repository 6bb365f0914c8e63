"""Somebody sets the clock during a run, or a node's clock is wrong: no deadline passes by that, and none is lost."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.support.chains import chain, make_end, make_plan, make_stage, make_stream
from tests.support.watching import Outcome, describe, held, run_and_hurt, run_whole, stepped
from workflow.run.state.events import RunStarted

HOURS = [5 * 3600.0, -5 * 3600.0]
# A stage whose clock is wrong, as its records show: opens, makes three steps and closes.
WRONG_CLOCK = """
import json, pathlib, sys, time
stream, side, wrong_by_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
def write(kind, **more):
    record = {"kind": kind, "t": time.time() + wrong_by_s, "stream": stream, "side": side, **more}
    with pathlib.Path("../metrics.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\\n")
write("opening")
write("open")
for step in range(3):
    time.sleep(0.3)
    write("step", step=step, bytes=8)
write("close", steps=3, complete=True)
"""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The wall clock of this process; the one entry is how wrong it is, in seconds."""
    wrong, right = [0.0], time.time
    monkeypatch.setattr(time, "time", lambda: right() + wrong[0])
    return wrong


def check_times(outcome: Outcome) -> None:
    times = [event.t for event in outcome.events()]
    story = describe(outcome.state, outcome.run_dir)
    assert max(times) - min(times) < 60, f"times of {max(times) - min(times)} s in a run of a few seconds: {story}"


@pytest.mark.parametrize("jump", HOURS)
def test_clock_that_is_set_kills_no_run(jump: float, clock: list[float], tmp_path: Path) -> None:
    outcome = run_and_hurt(
        chain("sst", steps=60), tmp_path, stepped("keep", 5), lambda _: clock.__setitem__(0, jump)
    )  # fmt: skip
    assert outcome.verdict.state == "succeeded", outcome.verdict
    check_times(outcome)
    started = next(event for event in outcome.events() if isinstance(event, RunStarted))
    assert abs(started.t - started.clock_offset_s - time.monotonic()) < 120, "times are the monotonic clock + offset"


@pytest.mark.parametrize("jump", HOURS)
def test_clock_that_is_set_loses_no_deadline(jump: float, clock: list[float], tmp_path: Path) -> None:
    plan = chain("sst", steps=50, options={"saxs": ["--hold", "step:5"]}, step=1.5)
    outcome = run_and_hurt(plan, tmp_path, held("saxs"), lambda _: clock.__setitem__(0, jump))
    assert (outcome.verdict.state, outcome.verdict.stage) == ("failed", "saxs")
    assert "no step for 1.5 s" in outcome.verdict.reason
    check_times(outcome)


@pytest.mark.parametrize("jump", HOURS)
def test_node_with_a_wrong_clock(jump: float, tmp_path: Path) -> None:
    def stage(name: str, side: str, wrong_by_s: float) -> object:
        end = make_end("data", side, "live")  # type: ignore[arg-type]
        return make_stage(name, [sys.executable, "-c", WRONG_CLOCK, "data", side, str(wrong_by_s)], [end])

    stages = [stage("md", "write", jump), stage("saxs", "read", 0.0)]
    outcome = run_whole(make_plan(stages, [make_stream("data", "md", ["saxs"], "live")]), tmp_path)  # type: ignore[arg-type]
    assert outcome.verdict.state == "succeeded", outcome.verdict
    check_times(outcome)
