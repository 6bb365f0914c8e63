"""A program whose output goes elsewhere, so that SST's log of it is missing: what the other end does shows more."""

from __future__ import annotations

from typing import Any

from tests.support.chains import make_end, make_plan, make_stage, make_stream
from tests.support.imagined_run import Run
from workflow.plan.plan_model import Plan
from workflow.run.state.events import StageExited, StreamClosed, StreamOpened, StreamProgress


def plan(silent: str) -> Plan:
    """`silent` is the program of the user's own; the other one reports its steps."""
    more: dict[str, Any] = {"observed": "evidence", "env": {"SstVerbose": "3"}}
    sim = make_stage("sim", ["x"], [make_end("field", "write")], **(more if silent == "sim" else {}))
    ana = make_stage("ana", ["x"], [make_end("field", "read")], **(more if silent == "ana" else {}))
    return make_plan([sim, ana], [make_stream("field", "sim", ["ana"])], start=40, step=1000, run=1000)


def test_a_writer_without_a_log_is_open_when_its_reader_has_a_step() -> None:
    run = Run(plan("sim")).feed(StreamOpened(2.0, "field", "ana", "read"))
    run.feed(StreamProgress(3.0, "field", "ana", "read", 1, 8))
    assert run.state.stages["sim"].status == "running"
    run.tick(100.0)
    assert run.state.stopping is None
    run.feed(StreamClosed(101.0, "field", "ana", "read", 5, True, 40), StageExited(102.0, "ana", 0, None))
    run.feed(StageExited(102.0, "sim", 0, None))
    assert run.verdict.state == "succeeded", run.verdict.reason


def test_a_reader_without_a_log_is_open_when_its_writer_has_opened_for_it() -> None:
    run = Run(plan("ana")).feed(StreamOpened(2.0, "field", "sim", "write"))
    assert run.state.stages["ana"].status == "running"
    run.tick(100.0)
    assert run.state.stopping is None
    run.feed(StreamClosed(101.0, "field", "sim", "write", 5, True, 40), StageExited(102.0, "sim", 0, None))
    run.feed(StageExited(102.0, "ana", 0, None))
    assert run.verdict.state == "succeeded", run.verdict.reason


def test_a_writer_that_nobody_saw_open_has_not_opened() -> None:
    run = Run(plan("sim")).feed(StageExited(2.0, "sim", 0, None)).tick(10.0)
    assert run.state.reason.startswith("sim ended with exit code 0, but never opened field")


def test_the_totals_of_a_log_count_and_not_lines_that_were_taken_for_its_own() -> None:
    run = Run(plan("sim")).feed(StreamOpened(2.0, "field", "sim", "write"), StreamOpened(2.0, "field", "ana", "read"))
    run.feed(StreamProgress(3.0, "field", "sim", "write", 9, 0))  # of another stream of the program
    run.feed(
        StreamClosed(4.0, "field", "sim", "write", 3, True, 0), StreamClosed(4.0, "field", "ana", "read", 3, True, 9)
    )
    run.feed(StageExited(5.0, "sim", 0, None), StageExited(5.0, "ana", 0, None))
    assert run.verdict.state == "succeeded", run.verdict.reason
