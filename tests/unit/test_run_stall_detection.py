"""Which stage has made no step for too long, at one moment: silence counts from before t=100."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.chains import Way, chain, make_end, make_plan, make_stage, make_stream
from workflow.run.state.events import (
    Event,
    RunStarted,
    StageExited,
    StageStarted,
    StreamClosed,
    StreamOpened,
    StreamOpening,
    StreamProgress,
)
from workflow.run.state.lifecycle_events import StageOpen, StageSilent, StageSucceeded
from workflow.run.state.reducer import fold
from workflow.run.state.run_state import EndKey, RunState, initial_state
from workflow.run.verdict.stall_detection import Silences, find_silences, find_stalls

SINCE, NOW = 100.0, 400.0
OPEN: list[Event] = [
    StreamOpened(1, "atoms", "md", "write"), StreamOpened(1, "atoms", "saxs", "read"),
    StageOpen(1, "md"), StageOpen(1, "saxs"),
]  # fmt: skip


def pair(*events: Event, way: Way = "sst", plain: bool = False) -> RunState:
    """md → saxs, both running."""
    begin: list[Event] = [RunStarted(0, "run", 1, 1, "here"), StageStarted(0, "md", 1), StageStarted(0, "saxs", 2)]
    return fold(initial_state(chain(way, plain=plain, sink=False)), [*begin, *events])


def wrote(t: float, steps: int) -> StreamProgress:
    return StreamProgress(t, "atoms", "md", "write", steps, 8 * steps)


def read(t: float, steps: int) -> StreamProgress:
    return StreamProgress(t, "atoms", "saxs", "read", steps, 8 * steps)


def silent(state: RunState) -> str | None:
    return next((stall.waiting for stall in find_stalls(state, find_silences(state), SINCE, NOW)), None)


def test_nothing_moves() -> None:
    assert silent(pair(*OPEN, wrote(50, 5), read(60, 5))) == "saxs"


@pytest.mark.parametrize(("written", "taken"), [(100.0, 60.0), (50.0, 100.0)])
def test_one_step_at_the_last_moment_is_enough(written: float, taken: float) -> None:
    """The writer is not blamed for what it did not have the time to do."""
    assert silent(pair(*OPEN, wrote(written, 5), read(taken, 5 if written > taken else 3))) is None


def test_who_writes_some_steps_of_those_that_it_reads_may_write_none() -> None:
    """The stream alone proves nothing then, whatever the component is called."""
    plan = chain("sst", sink=False)
    state = pair(*OPEN, wrote(50, 5), read(60, 5))
    assert find_silences(state).streams
    (end,) = plan.stage("md").ends
    stages = [each.model_copy(update={"ends": [end.model_copy(update={"passes": "input"})]})
              if each.name == "md" else each for each in plan.stages]  # fmt: skip
    rare = replace(state, plan=plan.model_copy(update={"stages": stages}))
    assert find_silences(rare).streams == {}


def test_a_writer_that_waits_for_a_reader_that_drains_the_queue_is_not_silent() -> None:
    """The queue holds two steps. The reader moves: the writer waits for room."""
    assert silent(pair(*OPEN, wrote(50, 6), read(150, 4))) is None


def test_a_slow_writer_is_silent_although_its_reader_drains_the_queue() -> None:
    assert silent(pair(*OPEN, wrote(50, 6), read(150, 5))) == "md"
    assert silent(pair(*OPEN, wrote(50, 6), read(150, 6))) == "md"


def test_a_reader_that_opens_late_does_not_hide_a_silent_writer() -> None:
    """Of a live file: it is the writer that makes no step; the time to open has a deadline of its own."""
    state = pair(OPEN[0], OPEN[2], wrote(50, 3), way="live")
    assert silent(state) == "md"


def test_an_open_that_returned_late_is_a_sign_of_life() -> None:
    late = [replace(event, t=150.0) for event in OPEN]
    assert silent(pair(*late)) is None


def test_the_writer_of_an_after_file_is_silent_whether_its_reader_is_observed_or_not() -> None:
    """Its reader starts later: the writer does not wait for it."""
    for plain in (False, True):
        state = pair(OPEN[0], OPEN[2], wrote(50, 3), way="after", plain=plain)
        unseen = state.readers("atoms")[0]
        assert unseen.live == (not plain)
        assert silent(state) == "md"


def test_a_writer_beside_an_unobserved_reader_may_wait_for_it() -> None:
    state = pair(OPEN[0], OPEN[2], OPEN[3], wrote(50, 3), way="live", plain=True)
    assert silent(state) is None


@pytest.mark.parametrize(("exited", "expected"), [(60.0, "md"), (100.0, None), (150.0, None)])
def test_a_writer_has_time_to_notice_that_its_unobserved_reader_ended(exited: float, expected: str | None) -> None:
    events = [StageExited(exited, "saxs", 0, None), StageSucceeded(exited, "saxs")]
    assert silent(pair(OPEN[0], OPEN[2], OPEN[3], wrote(50, 3), *events, way="live", plain=True)) == expected


@pytest.mark.parametrize(("closed", "expected"), [(60.0, "md"), (150.0, None)])
def test_a_writer_has_time_to_notice_that_its_reader_closed(closed: float, expected: str | None) -> None:
    assert silent(pair(*OPEN, wrote(50, 3), StreamClosed(closed, "atoms", "saxs", "read", 3, False))) == expected


def test_an_end_that_is_seen_to_open_late_is_left_to_the_deadline_of_the_start() -> None:
    """saxs is a program whose ends were not seen, until it reports that it opens one."""
    state = pair(OPEN[0], OPEN[2], OPEN[3], wrote(150, 3))
    key: EndKey = ("atoms", "saxs", "read")
    state = replace(state, ends={**state.ends, key: replace(state.ends[key], live=False)})
    assert silent(fold(state, [StreamOpening(60, "atoms", "saxs", "read")])) is None


def test_a_stage_that_ended_is_not_silent() -> None:
    """Its record is there, its exit has not been judged yet; the other end is left to itself."""
    ended = pair(*OPEN, wrote(50, 5), read(60, 5), StageExited(70, "md", 0, None))
    assert silent(ended) is None
    closed = pair(*OPEN, wrote(50, 5), read(60, 5), StreamClosed(70, "atoms", "md", "write", 5, True))
    assert silent(closed) == "saxs"


def beside_a_file(*events: Event) -> RunState:
    """sim → saved, a file that `later` reads, and sim → data → near and far; all but `later` run."""
    stages = [
        make_stage("sim", ["x"], [make_end("saved", "write", "after"), make_end("data", "write", readers=2)]),
        make_stage("near", ["x"], [make_end("data", "read")]),
        make_stage("far", ["x"], [make_end("data", "read")]),
        make_stage("later", ["x"], [make_end("saved", "read", "after")], starts_after=["sim"]),
    ]
    streams = [make_stream("saved", "sim", ["later"], "after"), make_stream("data", "sim", ["near", "far"])]
    begin: list[Event] = [StageStarted(0, name, 9) for name in ("sim", "near", "far")]
    return fold(initial_state(make_plan(stages, streams)), [*begin, *events])


def opened(t: float, *stages: str) -> list[Event]:
    """Their ends of data; sim opens its file too."""
    ends = [StreamOpened(t, "data", stage, "write" if stage == "sim" else "read") for stage in stages]
    return [StreamOpened(t, "saved", "sim", "write"), *ends]


def stepped(t: float, stage: str, steps: int) -> StreamProgress:
    return StreamProgress(t, "data", stage, "write" if stage == "sim" else "read", steps, 8 * steps)


@pytest.mark.parametrize(
    ("near", "far", "expected"),
    [(40.0, 60.0, ("near", 40.0)), (60.0, 40.0, ("far", 40.0)), (50.0, 50.0, ("near", 50.0))],
)
def test_a_stream_is_as_silent_as_its_most_silent_reader(near: float, far: float, expected: tuple[str, float]) -> None:
    """Of several, the first in the plan. That another stream of the writer is a file to be read later hides nothing."""
    state = beside_a_file(*opened(1, "sim", "near", "far"), stepped(2, "sim", 3))
    state = fold(state, [stepped(near, "near", 1), stepped(far, "far", 1)])
    silences = find_silences(state)
    assert silences.streams == {"data": expected}
    assert silences.stages == {"sim": 2, "near": near, "far": far}
    assert sorted(silences.times()) == sorted([expected[1], 2, near, far])


def test_what_is_not_open_is_not_silent() -> None:
    """The time to open has a deadline of its own."""
    assert find_silences(beside_a_file()) == Silences({}, {})
    state = beside_a_file(*opened(1, "near"))
    assert find_silences(state) == Silences({}, {"near": 1})


@pytest.mark.parametrize(
    ("written", "taken", "since"),
    [
        (99.0, None, 99.0),
        (100.0, None, None),
        (150.0, None, None),
        (90.0, 150.0, 50.0),
        (150.0, 150.0, 50.0),
    ],
)
def test_a_stage_has_its_turn_since_the_step_that_it_has_not_taken(
    written: float, taken: float | None, since: float | None
) -> None:
    """keep waits for saxs since t=50. What saxs has taken from md is not what it waits for."""
    state = fold(initial_state(chain("sst")), [StageStarted(0, name, 9) for name in ("md", "saxs", "keep")])
    state = fold(state, [StreamOpened(1, *key) for key in state.ends])
    state = fold(state, [StreamProgress(50, *key, 1, 8) for key in state.ends])
    state = fold(state, [wrote(written, 2), *([] if taken is None else [read(taken, 2)])])
    stalls = list(find_stalls(state, find_silences(state), SINCE, NOW))
    first = [stall for stall in stalls if stall.waiting == "keep"][:1]
    chain_of = "keep waits for step 2 of pattern (queue 0/2); saxs has been computing for"
    assert [(stall.stage, stall.since) for stall in first] == ([] if since is None else [("saxs", since)])
    assert all(stall.chain.startswith(chain_of) for stall in first)


@pytest.mark.parametrize(("left", "what"), [(False, "step"), (True, "sign of work")])
def test_a_warning_says_what_is_missing_and_for_how_long(left: bool, what: str) -> None:
    warning = StageSilent(700.0, "md", 100.0, "md has been computing", left)
    assert warning.text == f"no {what} for 10 min 00 s: md has been computing"
