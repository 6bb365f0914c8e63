"""What becomes of a run whose tap hangs: pure."""

from __future__ import annotations

import signal

import pytest

from tests.support.chains import make_end, make_plan, make_stage, make_stream
from tests.support.imagined_run import Run, end_all, verdict_of
from workflow.plan.plan_model import Plan
from workflow.run.state.events import StageExited, StreamClosed, StreamProgress, StreamTrouble
from workflow.run.state.lifecycle_events import DeadlinePassed, StageFailed
from workflow.run.stop_sequence import GIVE_UP_S
from workflow.run.verdict.failed_stages import failing_since
from workflow.run.verdict.wait_diagnosis import waits_for
from workflow.run.verdict.wait_graph import Wait
from workflow.spec.models.pipeline import Queue

STEP_S, STOP_S = 300.0, 3.0
SAID = "no step for 300 s: tap has been computing for 301 s since step 2 of tap"
DISCARDS = Queue.model_validate({"limit": 2, "when_full": "discard"})


def relayed(queue: Queue = DISCARDS) -> Plan:
    """sim → keep and relay, relay → tap: as `wf` plans `tap:` on a stream by SST."""
    stages = [
        make_stage("sim", ["x"], [make_end("data", "write", readers=2)]),
        make_stage("keep", ["x"], [make_end("data", "read")]),
        make_stage("relay", ["x"], [make_end("data", "read"), make_end("tap", "write")], added="relay"),
        make_stage("tap", ["x"], [make_end("tap", "read")], added="tap"),
    ]
    streams = [make_stream("data", "sim", ["keep", "relay"]), make_stream("tap", "relay", ["tap"], queue=queue)]
    return make_plan(stages, streams, step=STEP_S, run=1e6, stop=STOP_S)


def go_on(run: Run, t: float, steps: int) -> Run:
    """All but the tap make steps, up to this one."""
    run.t = t
    return run.steps(data_sim=steps, tap_relay=steps, data_relay=steps, data_keep=steps)


def hung(queue: Queue = DISCARDS) -> Run:
    """The tap takes two steps at 1 s; the others are at step 10 when its time is up."""
    run = Run(relayed(queue)).open_all()
    go_on(run, 1.0, 2).steps(tap_tap=2)
    go_on(run, 1.5, 4)
    return go_on(run, 299.0, 10).tick(302.0)


def test_only_the_tap_is_ended() -> None:
    run = hung()
    assert run.decisions(DeadlinePassed) == [DeadlinePassed(302.0, "step", SAID, "tap")]
    assert run.decisions(StageFailed) == [StageFailed(302.0, "tap", f"was ended: {SAID}")]
    assert (run.signals, run.ended) == ([(302.0, ("tap",), signal.SIGTERM)], [])
    assert (run.state.stopping, failing_since(run.state)) == (None, None)
    assert [run.status(name) for name in ("sim", "keep", "relay")] == ["running"] * 3


def test_the_others_finish_and_the_run_names_the_tap() -> None:
    run = hung().feed(StageExited(302.1, "tap", None, signal.SIGTERM))
    assert run.ended == [(302.1, "tap")], "its launcher may have left ranks"
    go_on(run, 400.0, 20)
    run.feed(*run.done("sim", 20), *run.done("keep", 20), *run.done("relay", 20))
    said = f"tap was ended: {SAID}; it is a tap, and the stages beside the taps succeeded"
    assert verdict_of(run) == ("failed", "tap", said)
    assert run.verdict.exit_code == 1
    assert len(run.decisions(DeadlinePassed)) == 1
    assert [run.status(name) for name in ("sim", "keep", "relay", "tap")] == ["succeeded"] * 3 + ["failed"]


def test_one_that_does_not_hear_is_killed() -> None:
    run = go_on(hung(), 304.0, 12).tick(304.9)
    assert run.ended == []
    run.tick(305.1).tick(305.3)
    assert run.ended == [(305.1, "tap")]
    assert len(run.decisions(DeadlinePassed)) == 1


def test_one_that_survives_that_does_not_hold_the_verdict() -> None:
    run = go_on(hung(), 304.0, 12).tick(305.1)
    run.feed(*run.done("sim", 12), *run.done("keep", 12), *run.done("relay", 12))
    assert run.state.finished is None
    run.tick(302.0 + STOP_S + GIVE_UP_S + 0.1)
    assert run.verdict.stage == "tap"


def at_the_end() -> Run:
    """The simulation has ended, and the relay waits in close until the tap has taken what is left."""
    run = Run(relayed()).open_all()
    go_on(run, 1.0, 10).feed(*run.done("sim", 10), *run.done("keep", 10))
    run.steps(tap_tap=2).tick(302.0)
    said = SAID.replace("tap has", "relay waits for tap to take what is left of tap; tap has")
    assert run.state.stages["tap"].reason == f"was ended: {said}"
    return run


def test_the_relay_that_waited_for_it_has_a_new_deadline() -> None:
    """It has made no step for as long as the tap, and for a moment it does not know yet that the tap is gone."""
    run = at_the_end().tick(302.5).feed(StageExited(303.0, "tap", None, signal.SIGTERM)).tick(602.0)
    assert run.state.stopping is None
    assert len(run.decisions(DeadlinePassed)) == 1
    assert run.status("relay") == "running"
    run.feed(*run.done("relay", 10, 602.5))
    assert verdict_of(run)[:2] == ("failed", "tap")


def test_a_relay_that_hangs_by_itself_is_found_later() -> None:
    run = at_the_end().feed(StageExited(303.0, "tap", None, signal.SIGTERM)).tick(603.5)
    assert run.state.culprit == "relay"
    end_all(run, 604.0)
    assert verdict_of(run)[:2] == ("failed", "relay")


@pytest.mark.parametrize("dropped", [0, 4])
def test_a_tap_with_nothing_to_do_does_not_hang(dropped: int) -> None:
    """With `every: 10` its steps may be further apart than the deadline; what was dropped does not wait for it."""
    run = Run(relayed()).open_all()
    run.t = 1.0
    run.steps(data_sim=1, data_keep=1, tap_relay=1 + dropped, data_relay=1, tap_tap=1)
    for step in range(2, 11):
        run.t = 40.0 * step
        run.steps(data_sim=step, data_keep=step, data_relay=step).tick(run.t + 39.0)
    run.t = 440.0
    run.steps(data_sim=11, data_keep=11, tap_relay=2 + dropped).tick(440.2)
    assert not run.decisions(DeadlinePassed)
    run.steps(data_relay=11)
    for step in range(12, 19):
        run.t = 40.0 * step
        run.steps(data_sim=step, data_keep=step, data_relay=step).tick(run.t + 19.0)
    assert not run.decisions(DeadlinePassed)
    run.tick(740.5)
    assert [event.stage for event in run.decisions(DeadlinePassed)] == ["tap"]


def test_a_relay_that_waits_for_a_slow_tap_does_not_hang() -> None:
    """The tap has what was left in its queue to do, and each step of it takes nearly as long as it may."""
    run = Run(relayed()).open_all()
    go_on(run, 1.0, 10).feed(*run.done("sim", 10), *run.done("keep", 10))
    for t, step in ((200.0, 1), (400.0, 2), (600.0, 3)):
        run.t = t
        run.steps(tap_tap=step).tick(t + 199.0)
    assert not run.decisions(DeadlinePassed)
    assert waits_for(run.state, "relay") == Wait("tap", "waits for tap to take what is left of tap")
    run.feed(*run.done("tap", 3), *run.done("relay", 10))
    assert verdict_of(run) == ("succeeded", "", "")


def test_one_that_others_wait_for_stops_the_run() -> None:
    """Asked for with `when_full: block`: its neighbours give up at the same time as the supervisor."""
    run = hung(Queue.model_validate({"limit": 20, "when_full": "block"}))
    assert (run.state.culprit, run.state.reason) == ("tap", SAID)


def test_a_simulation_that_hangs_stops_the_run() -> None:
    run = Run(relayed()).open_all()
    go_on(run, 1.0, 10).steps(tap_tap=10).tick(302.0)
    assert run.state.culprit == "sim"


def test_it_is_blamed_for_a_neighbour_that_gave_up() -> None:
    """The other tap waits for the end of its stream, and the relay, in close, for the one that hangs."""
    plan = relayed()
    relay = plan.stage("relay").model_copy(update={"ends": [*plan.stage("relay").ends, make_end("more", "write")]})
    other = make_stage("other", ["x"], [make_end("more", "read")], added="tap")
    stages = [relay if stage.name == "relay" else stage for stage in plan.stages]
    more = make_stream("more", "relay", ["other"], queue=DISCARDS)
    changed = {"stages": [*stages, other], "streams": [*plan.streams, more]}
    run = go_on(Run(plan.model_copy(update=changed)).open_all(), 1.0, 10)
    run.steps(more_relay=10, more_other=10, tap_tap=2).feed(*run.done("sim", 10), *run.done("keep", 10))
    run.feed(StreamTrouble(299.0, "more", "other", "timeout", "stream more: no new step within 298 s"))
    assert (run.state.stopping, run.state.culprit) == (299.0, "tap")
    assert "other waits for step 11 of more (queue 0/2); relay waits for tap to take what is left" in run.state.reason


def test_ctrl_c_ends_it_with_the_others() -> None:
    run = hung().feed(StreamProgress(303.0, "data", "sim", "write", 11, 88))
    run.feed(StageExited(303.0, "sim", 1, None)).tick(303.4)
    assert run.state.culprit == "sim"
    assert "tap" in run.signals[-1][1]


@pytest.mark.parametrize("complete", [True, False])
def test_its_own_end_no_more_counts(complete: bool) -> None:
    """What it says while it ends changes nothing."""
    run = hung()
    run.feed(StreamClosed(302.2, "tap", "tap", "read", 2, complete), StageExited(302.2, "tap", 0, None))
    assert run.status("tap") == "failed"


def test_a_relay_that_has_delivered_all_waits_for_nobody() -> None:
    """Its neighbour may be behind in the stream that both read."""
    run = Run(relayed()).open_all()
    run.t = 1.0
    run.steps(data_sim=10, tap_relay=10, data_relay=10, data_keep=5, tap_tap=10).feed(*run.done("sim", 10))
    assert waits_for(run.state, "relay") is None


def test_a_tap_that_has_taken_no_step_of_those_written_does_not_wait() -> None:
    run = Run(relayed()).open_all()
    run.t = 1.0
    run.steps(data_sim=2, data_relay=2, data_keep=2, tap_relay=2)
    assert waits_for(run.state, "tap") is None
