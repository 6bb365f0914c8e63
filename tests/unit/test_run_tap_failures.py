"""What becomes of a run whose tap fails: pure."""

from __future__ import annotations

import pytest

from tests.support.chains import Way, make_end, make_plan, make_stage, make_stream
from tests.support.imagined_run import Run
from workflow.plan.plan_model import GroupPlan, LaunchPlan, Plan
from workflow.run.decided_events import StageOpen
from workflow.run.events import StageExited, StreamClosed, StreamOpened


def tapped(added: str | None = "tap", way: Way = "sst", more: bool = False) -> Plan:
    """sim → keep, tap; with `more`, something reads what the tap writes."""
    tap_ends = [make_end("data", "read", way)] + ([make_end("out", "write", way)] if more else [])
    stages = [
        make_stage("sim", ["x"], [make_end("data", "write", way, readers=2)]),
        make_stage("keep", ["x"], [make_end("data", "read", way)]),
        make_stage("tap", ["x"], tap_ends, added=added),
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
    assert run.state.failing is None
    finish(run)
    verdict = run.state.finished
    assert verdict is not None
    assert (verdict.state, verdict.exit_code, verdict.stage) == ("failed", 1, "tap")
    assert verdict.reason == ("tap ended with exit code 3; it is a tap, and the stages beside the taps succeeded")


def test_a_tap_that_never_opened_stops_the_run() -> None:
    run = Run(tapped())
    run.feed(StageExited(1.0, "tap", 3, None))
    assert run.state.failing == 1.0


def launched() -> Plan:
    """One launch line starts all: it ends them all when one fails."""
    group = GroupPlan(
        name="sim", stages=["sim", "keep", "tap"], ranks={"sim": (0, 1), "keep": (1, 1), "tap": (2, 1)},
        streams={"data": ["sim", "keep", "tap"]}, launch=LaunchPlan(launcher="mpiexec", executable="mpiexec"),
    )  # fmt: skip
    return tapped().model_copy(update={"groups": [group]})


@pytest.mark.parametrize(
    "plan",
    [tapped(None), tapped(more=True), launched()],
    ids=["no tap", "something depends on it", "one launch line starts all"],
)
def test_a_stage_that_is_needed_stops_the_run(plan: Plan) -> None:
    run = Run(plan).open_all()
    run.feed(StageExited(1.0, "tap", 3, None))
    assert run.state.failing == 1.0


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
    assert run.state.failing is None
    assert not run.signals


def test_it_has_opened_when_its_streams_have() -> None:
    assert any(isinstance(event, StageOpen) and event.stage == "tap" for event in Run(tapped()).open_all().decided)
