"""What becomes of a run whose tap fails: pure."""

from __future__ import annotations

import signal

import pytest

from tests.support.chains import Way, make_end, make_plan, make_stage, make_stream
from tests.support.imagined_run import Run
from workflow.plan.plan_model import Plan
from workflow.run.state.events import (
    StageExited,
    StreamClosed,
    StreamOffered,
    StreamOpened,
    StreamOpening,
    StreamWaiting,
)
from workflow.run.state.lifecycle_events import DeadlinePassed, StageOpen
from workflow.run.verdict.failed_stages import failing_since
from workflow.run.verdict.stall_detection import present_warnings
from workflow.spec.models.pipeline import Queue


def tapped(added: str | None = "tap", way: Way = "sst", more: bool = False, optional: bool = False) -> Plan:
    """sim → keep, tap; with `more`, something reads what the tap writes. Without `optional` the tap is required."""
    tap_ends = [make_end("data", "read", way)] + ([make_end("out", "write", way)] if more else [])
    stages = [
        make_stage("sim", ["x"], [make_end("data", "write", way, readers=2)]),
        make_stage("keep", ["x"], [make_end("data", "read", way)]),
        make_stage("tap", ["x"], tap_ends, added=added, optional=optional),
    ]
    streams = [make_stream("data", "sim", ["keep", "tap"], way)]
    if more:
        stages.append(make_stage("last", ["x"], [make_end("out", "read", way)]))
        streams.append(make_stream("out", "tap", ["last"], way))
    return make_plan(stages, streams)


def finish(run: Run) -> Run:
    """The simulation and its reader end as they should."""
    for stage, side in (("sim", "write"), ("keep", "read")):
        run.feed(StreamClosed(run.t, "data", stage, side, 5, True, 40))  # type: ignore[arg-type]
        run.feed(StageExited(run.t, stage, 0, None))
    return run


def test_the_others_go_on_when_a_tap_fails() -> None:
    run = Run(tapped()).open_all()
    run.feed(StageExited(1.0, "tap", 3, None))
    assert run.state.stages["tap"].status == "failed"
    assert not run.signals
    assert failing_since(run.state) is None
    finish(run)
    verdict = run.state.finished
    assert verdict is not None
    assert (verdict.state, verdict.exit_code, verdict.stage) == ("failed", 1, "tap")
    assert verdict.reason == ("tap ended with exit code 3; it is a tap, and the stages beside the taps succeeded")


def test_a_tap_that_never_opened_stops_the_run() -> None:
    run = Run(tapped())
    run.feed(StageExited(1.0, "tap", 3, None))
    assert failing_since(run.state) == 1.0


@pytest.mark.parametrize("plan", [tapped(None), tapped(more=True)], ids=["no tap", "something depends on it"])
def test_a_stage_that_is_needed_stops_the_run(plan: Plan) -> None:
    run = Run(plan).open_all()
    run.feed(StageExited(1.0, "tap", 3, None))
    assert failing_since(run.state) == 1.0


def test_a_failed_tap_is_not_blamed_for_what_fails_later() -> None:
    run = Run(tapped()).open_all()
    run.feed(StageExited(1.0, "tap", 3, None), StageExited(2.0, "sim", 1, None), StageExited(2.1, "keep", 1, None))
    assert run.state.finished is not None
    assert run.state.finished.stage == "sim"


def test_a_tap_whose_open_and_exit_are_seen_together_has_opened() -> None:
    run = Run(tapped())
    for stage, side in (("sim", "write"), ("keep", "read")):
        run.feed(StreamOpened(0.5, "data", stage, side))  # type: ignore[arg-type]
    run.feed_together(StreamOpened(1.0, "data", "tap", "read"), StageExited(1.0, "tap", None, 9))
    assert run.state.stages["tap"].opened == 1.0
    assert failing_since(run.state) is None
    assert not run.signals


def test_it_has_opened_when_its_streams_have() -> None:
    assert any(isinstance(event, StageOpen) and event.stage == "tap" for event in Run(tapped()).open_all().decided)


@pytest.mark.parametrize("opens", [True, False])
def test_a_run_succeeds_without_an_optional_tap_and_warns(opens: bool) -> None:
    run = Run(tapped(optional=True))
    if opens:
        run.open_all()
    run.feed(StageExited(1.0, "tap", 3, None))
    assert (run.status("tap"), failing_since(run.state), run.signals) == ("failed", None, [])
    assert run.replaced == ([] if opens else [("tap", ("data",))])
    if not opens:
        for stage, side in (("sim", "write"), ("keep", "read")):
            run.feed(StreamOpened(1.5, "data", stage, side))  # type: ignore[arg-type]
    finish(run)
    assert (run.verdict.state, run.verdict.exit_code, run.verdict.stage) == ("succeeded", 0, "")
    (warning,) = present_warnings(run.state)
    assert warning.startswith("tap tap ended with exit code 3; the others went on without it")


def test_it_is_replaced_once_and_only_while_its_writer_waits() -> None:
    run = Run(tapped(optional=True)).feed(StageExited(1.0, "tap", 3, None)).tick(2.0).tick(3.0)
    assert run.replaced == [("tap", ("data",))]
    run = Run(tapped(optional=True, way="live")).feed(StageExited(1.0, "tap", 3, None))
    assert run.replaced == [], "nobody waits for the reader of a file"
    run = Run(tapped()).feed(StageExited(1.0, "tap", 3, None))
    assert run.replaced == [], "it is required, and the run stops"


def relayed(optional: bool = True) -> Plan:
    """sim → keep and relay, relay → two taps."""
    taps = ["left", "right"]
    stages = [
        make_stage("sim", ["x"], [make_end("data", "write", readers=2)]),
        make_stage("keep", ["x"], [make_end("data", "read")]),
        make_stage(
            "relay", ["x"], [*(make_end(tap, "write") for tap in taps), make_end("data", "read")],
            added="relay", optional=optional,
        ),
        *(make_stage(tap, ["x"], [make_end(tap, "read")], added="tap", optional=optional) for tap in taps),
    ]  # fmt: skip
    streams = [*(make_stream(tap, "relay", [tap]) for tap in taps), make_stream("data", "sim", ["keep", "relay"])]
    return make_plan(stages, streams, start=60.0, step=1e3, run=1e6)


def test_the_relay_of_a_tap_that_never_opened_goes_on_with_the_other_one() -> None:
    run = Run(relayed()).feed(StageExited(1.0, "left", 1, None))
    assert run.replaced == [("left", ("left",))]
    run.open_all().steps(data_sim=3, data_keep=3, data_relay=3, right_relay=3, right_right=3)
    for name in ("sim", "keep", "right"):
        run.feed(*run.done(name, 3, 5.0))
    run.feed(*run.done("relay", 3, 5.0))
    assert run.verdict.state == "succeeded", run.verdict
    assert len(present_warnings(run.state)) == 1


def test_without_its_relay_the_run_succeeds_too() -> None:
    """A reader that dies within its open may take the writer with it (ADIOS2 2.12.1)."""
    run = Run(relayed()).feed(StageExited(1.0, "left", None, 9), StageExited(1.1, "relay", None, 11))
    assert run.replaced == [("left", ("left",)), ("relay", ("data",))]
    run.feed(StageExited(1.5, "right", 1, None))
    for stage, side in (("sim", "write"), ("keep", "read")):
        run.feed(StreamOpened(2.0, "data", stage, side))  # type: ignore[arg-type]
    run.steps(data_sim=3, data_keep=3)
    run.feed(*run.done("keep", 3, 5.0), *run.done("sim", 3, 5.0))
    assert run.verdict.state == "succeeded", run.verdict


def test_a_relay_with_a_required_tap_is_needed() -> None:
    run = Run(relayed(optional=False)).feed(StageExited(1.0, "relay", 1, None))
    assert failing_since(run.state) == 1.0


def test_a_tap_that_does_not_open_in_time_is_ended_alone() -> None:
    plan = relayed()
    streams = [
        each.model_copy(update={"queue": Queue.model_validate({"when_full": "discard"})})
        if each.writer == "relay" else each
        for each in plan.streams
    ]  # fmt: skip
    run = Run(plan.model_copy(update={"streams": streams}))
    for stream, stage, side in [("data", "sim", "write"), ("data", "keep", "read"), ("left", "relay", "write")]:
        run.feed(StreamOpening(0.5, stream, stage, side))  # type: ignore[arg-type]
        run.feed(StreamWaiting(0.5, stream, stage, side, 0, True))  # type: ignore[arg-type]
    run.feed(StreamOffered(0.5, "left", "relay"))
    run.feed(StreamOpened(0.6, "right", "right", "read"), StreamOpened(0.6, "right", "relay", "write")).tick(61.0)
    assert [(event.deadline, event.stage) for event in run.decisions(DeadlinePassed)] == [("start", "left")]
    assert run.signals == [(61.0, ("left",), signal.SIGTERM)]
    run.tick(61.5).feed(StageExited(62.0, "left", None, 15)).tick(100.0)
    assert run.replaced == [("left", ("left",))]
    assert (run.state.stopping, run.status("left")) == (None, "failed")
    run.tick(122.0)
    assert run.state.stopping is not None, "the others have their time again, and no more"
