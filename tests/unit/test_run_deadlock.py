"""When stages that wait for each other are a deadlock, and when that is not certain: pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.chains import make_end, make_plan, make_stage, make_stream
from tests.support.imagined_run import Run, end_all, verdict_of
from workflow.formats.sides import Side
from workflow.plan.plan_model import Plan
from workflow.run.state.events import (
    Event,
    StageExited,
    StreamClosed,
    StreamOffered,
    StreamOpened,
    StreamOpening,
    StreamProgress,
    StreamTrouble,
    StreamWaiting,
)
from workflow.run.state.lifecycle_events import DeadlockFound
from workflow.run.state.reducer import fold
from workflow.run.verdict.wait_diagnosis import CONFIRMED_S, diagnose, next_deadlock_check
from workflow.spec.models.pipeline import Queue


def pair(queue: Queue | None = None) -> Plan:
    """one → two by `x` and `y`, two → one by `back`; nothing has a deadline that passes."""
    stages = [
        make_stage("one", ["a"], [make_end("x", "write"), make_end("y", "write"), make_end("back", "read")]),
        make_stage("two", ["b"], [make_end("x", "read"), make_end("y", "read"), make_end("back", "write")]),
    ]
    queue = queue or Queue.model_validate({})
    streams = [make_stream("x", "one", ["two"], queue=queue), make_stream("y", "one", ["two"], queue=queue)]
    return make_plan(stages, [*streams, make_stream("back", "two", ["one"])], start=1e6, step=1e6, run=1e6)


def waits(t: float, stream: str, stage: str, side: Side, steps: int = 0, is_so: bool = True) -> StreamWaiting:
    return StreamWaiting(t, stream, stage, side, steps, is_so)


def steps(t: float, stream: str, stage: str, side: Side, count: int) -> StreamProgress:
    return StreamProgress(t, stream, stage, side, count, 8 * count)


BOTH_READ = (waits(5, "back", "one", "read"), waits(5, "x", "two", "read"))
FULL: tuple[Event, ...] = (
    steps(4, "x", "one", "write", 3), steps(4, "x", "two", "read", 3), steps(4, "y", "one", "write", 2),
    waits(5, "y", "one", "write", 2), waits(5, "x", "two", "read", 3),
)  # fmt: skip


def later(run: Run) -> str:
    """Whom the run blames some time after."""
    return run.tick(5 + CONFIRMED_S).tick(60).state.culprit


def test_two_stages_that_wait_for_each_others_first_step() -> None:
    run = Run(pair()).open_all().feed(*BOTH_READ).tick(5 + CONFIRMED_S)
    text = (
        "deadlock: one waits for step 1 of back (queue 0/2); two waits for step 1 of x (queue 0/2): "
        "one and two wait for each other"
    )
    assert run.decisions(DeadlockFound) == [DeadlockFound(5 + CONFIRMED_S, text, "one")]
    end_all(run, 10)
    assert verdict_of(run) == ("failed", "one", text)
    assert [run.status(name) for name in ("one", "two")] == ["failed", "stopped"]


def test_a_reader_that_leaves_a_queue_full_is_the_cause() -> None:
    run = Run(pair()).open_all().feed(*FULL).tick(5 + CONFIRMED_S)
    assert run.state.culprit == "two"
    assert run.state.reason == (
        "deadlock: two waits for step 4 of x (queue 0/2); one waits for two to take step 1 of y (queue 2/2): "
        "two and one wait for each other; two has not read y"
    )


def test_a_stage_that_has_not_opened_a_stream_is_the_cause() -> None:
    run = Run(pair()).feed(
        StreamOpened(1, "x", "one", "write"), StreamOpened(1, "x", "two", "read"),
        StreamOpening(2, "y", "one", "write"), StreamOffered(2, "y", "one"),
        waits(5, "y", "one", "write"), waits(5, "x", "two", "read"),
    )  # fmt: skip
    assert later(run) == "two"
    assert "one waits in open for two to open y" in run.state.reason
    assert run.state.reason.endswith("; two has not opened y")


def test_a_wait_must_have_lasted() -> None:
    run = Run(pair()).open_all().feed(*BOTH_READ)
    run.tick(5 + CONFIRMED_S - 0.1)
    assert run.state.stopping is None
    run = Run(pair()).open_all().feed(BOTH_READ[0], replace(BOTH_READ[1], t=7)).tick(5 + CONFIRMED_S)
    assert run.state.stopping is None, "the other one is too young"
    assert run.tick(7 + CONFIRMED_S).state.culprit == "one"


@pytest.mark.parametrize("index", [0, 1])
def test_a_wait_that_is_not_reported_proves_nothing(index: int) -> None:
    """The stage may compute, for hours."""
    assert later(Run(pair()).open_all().feed(BOTH_READ[index])) == ""
    assert later(Run(pair()).open_all().feed(*FULL[:3], FULL[3 + index])) == ""


def test_a_wait_that_has_ended_proves_nothing() -> None:
    assert later(Run(pair()).open_all().feed(*BOTH_READ, waits(6, "x", "two", "read", is_so=False))) == ""
    assert later(Run(pair()).open_all().feed(*BOTH_READ, steps(6, "x", "two", "read", 1))) == ""


def test_a_late_report_on_an_earlier_step_counts_nothing() -> None:
    run = Run(pair()).open_all().feed(steps(4, "x", "one", "write", 1), steps(4, "x", "two", "read", 1), *BOTH_READ)
    assert later(run) == ""


def test_a_step_that_has_been_written_will_arrive() -> None:
    assert later(Run(pair()).open_all().feed(*BOTH_READ, steps(6, "x", "one", "write", 1))) == ""


def test_a_queue_with_room_lets_its_writer_continue() -> None:
    run = Run(pair()).open_all().feed(*FULL[:2], steps(4, "y", "one", "write", 1), waits(5, "y", "one", "write", 1))
    assert later(run.feed(FULL[4])) == ""


def test_a_queue_that_discards_blocks_nobody() -> None:
    run = Run(pair(Queue.model_validate({"limit": 2, "when_full": "discard"}))).open_all().feed(*FULL)
    assert later(run) == ""


def test_two_stages_that_open_one_stream_at_the_same_time_connect() -> None:
    """On a large machine that may take minutes."""
    run = Run(pair()).feed(
        StreamOpening(2, "x", "one", "write"), StreamOpening(2, "x", "two", "read"),
        waits(5, "x", "one", "write"), waits(5, "x", "two", "read"),
    )  # fmt: skip
    assert later(run) == ""


def test_a_stream_that_was_opened_is_not_waited_for() -> None:
    run = Run(pair()).feed(
        StreamOpening(2, "back", "one", "read"), StreamOpening(2, "x", "two", "read"),
        StreamOpened(2, "x", "one", "write"),
        waits(5, "back", "one", "read"), waits(5, "x", "two", "read"),
    )  # fmt: skip
    assert later(run) == ""


@pytest.mark.parametrize(
    "event",
    [
        StreamClosed(6, "x", "two", "read", 0, False),
        StreamTrouble(6, "back", "one", "other", "an error"),
        StageExited(6, "two", None, 9),
    ],
    ids=["closed", "error", "exited"],
)
def test_a_stage_that_is_about_to_end_waits_no_longer(event: Event) -> None:
    run = Run(pair()).open_all().feed(*BOTH_READ, event).tick(5 + CONFIRMED_S)
    assert not run.decisions(DeadlockFound)


def test_who_waits_for_a_deadlock_is_not_part_of_it() -> None:
    plan = pair()
    more = make_stage("keep", ["c"], [make_end("out", "read")])
    two = plan.stages[1].model_copy(update={"ends": [*plan.stages[1].ends, make_end("out", "write")]})
    streams = [*plan.streams, make_stream("out", "two", ["keep"])]
    plan = plan.model_copy(update={"stages": [more, plan.stages[0], two], "streams": streams})
    run = Run(plan).open_all().feed(waits(5, "out", "keep", "read"), *BOTH_READ)
    assert later(run) == "one"
    assert "keep" not in run.state.reason


def test_when_the_next_wait_will_have_lasted() -> None:
    state = Run(pair()).open_all().state
    assert next_deadlock_check(state, 0.0) is None
    state = fold(state, [waits(5, "back", "one", "read"), waits(7, "x", "two", "read")])
    assert next_deadlock_check(state, 0.0) == 5 + CONFIRMED_S
    assert next_deadlock_check(state, 5 + CONFIRMED_S) == 7 + CONFIRMED_S
    assert next_deadlock_check(state, 7 + CONFIRMED_S) is None


def test_both_are_in_open() -> None:
    begun = (StreamOpening(2, "x", "one", "write"), StreamOpening(2, "back", "two", "write"))
    run = Run(pair()).feed(*begun, waits(5, "x", "one", "write"), waits(5, "back", "two", "write"))
    assert later(run) == "one"
    assert run.state.reason.endswith(": one and two wait for each other; one has not opened back")


def test_both_wait_for_the_other_to_open() -> None:
    begun = (StreamOpening(2, "back", "one", "read"), StreamOpening(2, "x", "two", "read"))
    run = Run(pair()).feed(*begun, waits(5, "back", "one", "read"), waits(5, "x", "two", "read"))
    assert later(run) == "one"
    assert run.state.reason == (
        "deadlock: one waits for two to open back; two waits for one to open x: one and two wait for each other"
    )


def test_a_stream_that_was_not_opened_weighs_more_than_one_that_was_not_read() -> None:
    run = Run(pair()).feed(
        StreamOpened(1, "back", "two", "write"), StreamOpened(1, "back", "one", "read"),
        StreamOpening(2, "y", "one", "write"),
        steps(3, "back", "two", "write", 2), waits(5, "back", "two", "write", 2), waits(5, "y", "one", "write"),
    )  # fmt: skip
    assert later(run) == "two"


def test_of_a_program_that_reports_nothing_an_open_weighs_more_too() -> None:
    plan = pair()
    run = Run(plan.model_copy(update={"stages": plan.stages[::-1]})).feed(
        StreamOpened(1, "x", "one", "write"), StreamOpened(1, "x", "two", "read"),
        steps(3, "x", "one", "write", 2), waits(5, "x", "one", "write", 2),
    )  # fmt: skip
    cause, text = diagnose(run.state, "two", 20)
    assert cause == "one"
    assert text == (
        "two waits for one to open y; one waits for two to take step 1 of x (queue 2/2): "
        "two and one wait for each other"
    )
    assert later(run) == ""


def test_three_stages_in_a_circle() -> None:
    names = ["a", "b", "c"]
    stages = [
        make_stage(name, ["x"], [make_end(f"from-{name}", "write"), make_end(f"from-{before}", "read")])
        for before, name in zip([*names[2:], *names[:2]], names, strict=True)
    ]
    streams = [make_stream(f"from-{name}", name, [after]) for name, after in zip(names, "bca", strict=True)]
    run = Run(make_plan(stages, streams, start=1e6, step=1e6, run=1e6)).open_all()
    run.feed(waits(5, "from-c", "a", "read"), waits(5, "from-a", "b", "read"), waits(5, "from-b", "c", "read"))
    assert later(run) == "a"
    assert run.state.reason.endswith(": a and c and b wait for each other")


VERBOSE = {"SstVerbose": "3"}


def with_own_reader(env: dict[str, str]) -> Plan:
    """one → two by `x`, which two reads with ADIOS2 itself, and by `ret`, which it reads with workflow.stage."""
    stages = [
        make_stage("one", ["a"], [make_end("x", "write"), make_end("ret", "write")]),
        make_stage("two", ["b"], [make_end("x", "read"), make_end("ret", "read")], observed="evidence", env=env),
    ]
    streams = [make_stream(name, "one", ["two"], queue=Queue.model_validate({})) for name in ("x", "ret")]
    return make_plan(stages, streams, start=1e6, step=1e6, run=1e6)


@pytest.mark.parametrize("env", [{}, {"SstVerbose": "2"}, VERBOSE], ids=["unseen", "summary", "log"])
def test_a_full_queue_proves_nothing_if_its_reader_does_not_report(env: dict[str, str]) -> None:
    """The reader has taken all steps; its writer is busy in end_step: compression, a slow disk."""
    run = Run(with_own_reader(env)).feed(
        *(StreamOpened(1, stream, "one", "write") for stream in ("x", "ret")),
        StreamOpening(1, "ret", "two", "read"), StreamOpened(1, "ret", "two", "read"),
        steps(3, "x", "one", "write", 2), steps(3, "ret", "one", "write", 2), steps(3, "ret", "two", "read", 2),
        waits(5, "x", "one", "write", 2), waits(5, "ret", "two", "read", 2),
    )  # fmt: skip
    assert later(run) == ""
    assert diagnose(run.state, "one", 60)[0] == "two", "who waits for whom is still named where a deadline has passed"


@pytest.mark.parametrize("env", [{}, VERBOSE], ids=["unseen", "log"])
def test_an_open_proves_nothing_if_the_other_end_does_not_report(env: dict[str, str]) -> None:
    begun = StreamOpening(1, "ret", "two", "read"), StreamOpening(1, "x", "one", "write")
    run = Run(with_own_reader(env)).feed(*begun, waits(5, "x", "one", "write"), waits(5, "ret", "two", "read"))
    assert later(run) == ""


@pytest.mark.parametrize("env", [{}, VERBOSE], ids=["unseen", "log"])
@pytest.mark.parametrize("opens", [True, False], ids=["open", "step"])
def test_a_reader_waits_for_nothing_certain_if_its_writer_does_not_report(env: dict[str, str], opens: bool) -> None:
    plan = pair()
    one = plan.stages[0].model_copy(update={"observed": "evidence", "env": env})
    run = Run(plan.model_copy(update={"stages": [one, plan.stages[1]]}))
    run.feed(StreamOpening(1, "back", "one", "read"), StreamOpening(1, "x", "two", "read"))
    assert later((run if opens else run.open_all()).feed(*BOTH_READ)) == ""


def fan(unseen: str) -> Plan:
    """one → two and three by `x`; one → two and one → three by streams of their own. `unseen` uses ADIOS2 itself."""
    own = {"two": "to-two", "three": "to-three"}
    stages = [make_stage("one", ["a"], [make_end(name, "write") for name in ("x", *own.values())])]
    for name, stream in own.items():
        observed = "evidence" if name == unseen else "metrics"
        stages.append(make_stage(name, ["b"], [make_end("x", "read"), make_end(stream, "read")], observed=observed))
    streams = [make_stream("x", "one", [*own]), *(make_stream(stream, "one", [name]) for name, stream in own.items())]
    return make_plan(stages, streams, start=1e6, step=1e6, run=1e6)


IN_OPEN = (
    *(StreamOpened(2, stream, "one", "write") for stream in ("to-two", "to-three")),
    StreamOpening(2, "x", "one", "write"),
    waits(5, "x", "one", "write"),
)


@pytest.mark.parametrize("unseen", ["two", "three"])
def test_of_several_readers_in_open_only_those_that_report_prove_a_deadlock(unseen: str) -> None:
    def waiting(name: str) -> tuple[Event, Event]:
        return StreamOpened(2, f"to-{name}", name, "read"), waits(5, f"to-{name}", name, "read")

    seen = "three" if unseen == "two" else "two"
    begun = StreamOpening(2, f"to-{unseen}", unseen, "read")
    assert later(Run(fan(unseen)).feed(*IN_OPEN, begun, *waiting(unseen))) == "", "it may have opened x"
    here = StreamOpened(3, "x", seen, "read")
    assert later(Run(fan(unseen)).feed(*IN_OPEN, begun, here, *waiting(unseen), *waiting(seen))) == ""
    run = Run(fan(unseen)).feed(*IN_OPEN, begun, *waiting(unseen), *waiting(seen))
    assert later(run) == seen, "one needs both, and this one waits for one"
    assert f"one waits in open for {seen} to open x" in run.state.reason
    assert unseen not in run.state.reason
