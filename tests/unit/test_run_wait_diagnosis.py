"""Who waits for whom, in pictures of a moment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.chains import Way, chain, make_end, make_plan, make_stage, make_stream
from workflow.run.state.events import (
    Event,
    RunStarted,
    StageExited,
    StageStarted,
    StageSuspended,
    StreamClosed,
    StreamOffered,
    StreamOpened,
    StreamOpening,
    StreamProgress,
    StreamTrouble,
    StreamWaiting,
)
from workflow.run.state.lifecycle_events import StageFailed, StageOpen
from workflow.run.state.reducer import fold
from workflow.run.state.run_state import RunState, initial_state
from workflow.run.verdict.failure_origin import blame, lost_writers
from workflow.run.verdict.wait_diagnosis import diagnose, waits_for, waits_of
from workflow.run.verdict.wait_graph import Wait

STAGES = ("md", "saxs", "keep")


def moment(*events: Event, way: Way = "sst", plain: bool = False, started: tuple[str, ...] = STAGES) -> RunState:
    begin: list[Event] = [RunStarted(0, "run", 1, 1, "here"), *(StageStarted(0, name, 1) for name in started)]
    return fold(initial_state(chain(way, plain=plain)), [*begin, *events])


def opened(*but: tuple[str, str]) -> list[Event]:
    ends = [("atoms", "md"), ("atoms", "saxs"), ("pattern", "saxs"), ("pattern", "keep")]
    sides = ["write", "read", "write", "read"]
    return [StreamOpened(1, *end, side) for end, side in zip(ends, sides, strict=True) if end not in but]  # type: ignore[arg-type]


def at(t: float, stream: str, stage: str, steps: int) -> StreamProgress:
    side = "write" if (stream, stage) in (("atoms", "md"), ("pattern", "saxs")) else "read"
    return StreamProgress(t, stream, stage, side, steps, 0)  # type: ignore[arg-type]


def test_nobody_has_opened() -> None:
    culprit, text = diagnose(moment(), "keep", 20)
    assert culprit == "md"
    assert text == (
        "keep waits for saxs to open pattern; saxs waits for md to open atoms; "
        "md has run for 20 s and has not opened atoms"
    )


def test_writer_in_open_waits_for_its_reader() -> None:
    culprit, text = diagnose(moment(StreamOffered(1, "atoms", "md")), "md", 20)
    assert culprit == "saxs"
    assert text == "md waits in open for saxs to open atoms; saxs has run for 20 s and has not opened atoms, pattern"


def test_stage_that_has_not_started() -> None:
    state = moment(*opened(("pattern", "keep"))[:2], started=("md", "saxs"), way="live")
    assert diagnose(state, "keep", 20)[1].endswith("saxs has run for 20 s and has not opened pattern")


@pytest.mark.parametrize("plain", [False, True])
def test_all_wait_for_the_slow_sink(plain: bool) -> None:
    # A log tells of a reader's step when it begins, and of the one in whose end_step a writer blocks.
    begun = int(plain)
    state = moment(
        *opened(), at(5, "pattern", "keep", 10 + begun), at(6, "atoms", "saxs", 13),
        at(7, "pattern", "saxs", 12 + begun), at(8, "atoms", "md", 15), plain=plain,
    )  # fmt: skip
    culprit, text = diagnose(state, "md", 305)
    assert culprit == "keep"
    assert text == (
        "md waits for saxs to take step 14 of atoms (queue 2/2); "
        f"saxs waits for keep to take step {11 + begun} of pattern (queue 2/2); "
        f"keep has been computing for 300 s since step {10 + begun} of pattern"
    )  # fmt: skip


def test_all_wait_for_the_slow_simulation() -> None:
    state = moment(
        *opened(), at(5, "atoms", "md", 41), at(6, "atoms", "saxs", 41), at(7, "pattern", "saxs", 41),
        at(8, "pattern", "keep", 41),
    )  # fmt: skip
    culprit, text = diagnose(state, "keep", 305)
    assert culprit == "md"
    assert text == (
        "keep waits for step 42 of pattern (queue 0/2); saxs waits for step 42 of atoms (queue 0/2); "
        "md has been computing for 300 s since step 41 of atoms"
    )


def test_analysis_that_took_a_step_and_has_not_written_it_computes() -> None:
    state = moment(
        *opened(), at(5, "atoms", "md", 4), at(4, "pattern", "saxs", 3), at(4.5, "pattern", "keep", 3),
        at(6, "atoms", "saxs", 4),
    )  # fmt: skip
    assert waits_for(state, "saxs") is None
    text = "keep waits for step 4 of pattern (queue 0/2); saxs has been computing for 10 s since step 4 of atoms"
    assert diagnose(state, "keep", 16) == ("saxs", text)


def amid_a_step(*events: Event, way: Way = "sst") -> tuple[str, str]:
    """saxs has been given a step that it has not finished."""
    steps = [at(2, "atoms", "md", 2), at(2, "atoms", "saxs", 1), at(2, "pattern", "saxs", 1)]
    return diagnose(moment(*opened(), *steps, *events, way=way), "saxs", 20)


def test_a_reader_whose_writer_is_stopped_may_wait_for_the_data_of_its_step() -> None:
    """They are fetched from the memory of the writer."""
    assert amid_a_step() == ("saxs", "saxs has been computing for 18 s since step 1 of atoms")
    stopped = StageSuspended(3, "md", True)
    said = "md has been stopped by a signal (SIGSTOP) and not continued for 17 s"
    assert amid_a_step(stopped) == ("md", f"saxs may wait for data of atoms from md; {said}")
    full = [at(4, "atoms", "md", 3), StreamWaiting(4, "atoms", "md", "write", 3, True)]
    assert amid_a_step(*full, stopped)[0] == "md", "it would not go on if its reader took a step"
    assert amid_a_step(stopped, way="live")[0] == "saxs", "of a file nobody fetches anything from its writer"
    assert amid_a_step(stopped, StageSuspended(4, "md", False))[0] == "saxs", "it goes on"
    assert amid_a_step(stopped, StageSuspended(4, "saxs", True))[0] == "saxs", "it is stopped itself"
    assert amid_a_step(stopped, StageExited(4, "md", None, 9))[0] == "saxs", "nothing comes from one that has ended"


@pytest.mark.parametrize(
    "events",
    [
        [*opened(("atoms", "saxs"))],
        [*opened(), StreamClosed(5, "atoms", "saxs", "read", 3, True)],
        [*opened(), StageExited(5, "saxs", 0, None)],
    ],
    ids=["not open yet", "closed", "ended"],
)
def test_who_reads_no_step_waits_for_no_data_of_a_writer_that_is_stopped(events: list[Event]) -> None:
    seen = moment(*events, at(3, "atoms", "md", 3), StageSuspended(6, "md", suspended=True))
    assert not any("data" in wait.text for name in STAGES for wait in waits_of(seen, name))


def test_analysis_that_writes_seldom_waits_for_its_input() -> None:
    state = moment(
        *opened(), at(5, "atoms", "md", 40), at(4, "pattern", "saxs", 4), at(4.5, "pattern", "keep", 4),
        at(6, "atoms", "saxs", 40),
    )  # fmt: skip
    wait = waits_for(state, "saxs")
    assert wait is not None
    assert wait.text == "waits for step 41 of atoms (queue 0/2)"


def test_a_stage_that_was_killed_in_a_call_waits_for_nobody() -> None:
    waiting = moment(*opened(), StreamWaiting(2, "atoms", "saxs", "read", 0, True))
    assert [wait.stage for wait in waits_of(waiting, "saxs")] == ["md"]
    assert waits_of(fold(waiting, [StageExited(3, "saxs", None, 9)]), "saxs") == ()


def test_stage_that_ended_waits_for_nobody() -> None:
    state = moment(*opened(), StageExited(3, "md", 0, None))
    assert diagnose(state, "saxs", 9) == ("md", "saxs waits for step 1 of atoms (queue 0/2); md has ended")


def test_files_have_no_queue() -> None:
    state = moment(*opened(), at(5, "atoms", "md", 2), at(6, "atoms", "saxs", 2), way="live")
    text = "saxs waits for step 3 of atoms; md has been computing for 2.0 s since step 2 of atoms"
    assert diagnose(state, "saxs", 7) == ("md", text)


def unseen_saxs(*events: Event) -> RunState:
    """A moment where saxs is a program of the user's own whose log tells nothing."""
    state = moment()
    hidden = {key: replace(end, live=False, reported=False) for key, end in state.ends.items() if key[1] == "saxs"}
    ends = {**state.ends, **hidden}
    return fold(replace(state, ends=ends), events)


def test_writer_in_open_waits_for_a_reader_of_which_nothing_is_seen() -> None:
    text = "md waits in open for saxs to open atoms; saxs has run for 5.0 s and has not opened atoms"
    assert diagnose(unseen_saxs(StreamOffered(1, "atoms", "md")), "md", 5) == ("saxs", text)
    assert diagnose(unseen_saxs(StreamOpening(1, "atoms", "md", "write")), "md", 5) == ("saxs", text)


def test_no_first_step_is_not_said_of_a_stage_whose_steps_are_not_seen() -> None:
    state = unseen_saxs(*opened(), at(5, "atoms", "md", 2), at(5, "pattern", "keep", 4))
    assert diagnose(state, "saxs", 9)[1] == "saxs has run for 9.0 s; its steps cannot be seen"
    assert state.steps("pattern") == (4, {"keep": 4})  # what was read has been written


def test_program_that_begins_to_report_is_seen() -> None:
    state = unseen_saxs(StreamOpening(1, "atoms", "saxs", "read"), StreamOpening(1, "pattern", "saxs", "write"))
    assert all(end.live and end.counted and end.reported for end in state.ends_of("saxs"))


def test_writer_of_a_file_does_not_wait_in_open() -> None:
    state = moment(StreamOpening(1, "atoms", "md", "write"), way="live")
    assert waits_for(state, "md") is None


def fanned(*events: Event) -> RunState:
    """md → one, two, three; all run."""
    names = ["one", "two", "three"]
    stages = [make_stage("md", ["x"], [make_end("atoms", "write", readers=3)])]
    stages += [make_stage(name, ["x"], [make_end("atoms", "read")]) for name in names]
    plan = make_plan(stages, [make_stream("atoms", "md", names)])
    begin: list[Event] = [RunStarted(0, "run", 1, 1, "here"), *(StageStarted(0, name, 1) for name in ["md", *names])]
    return fold(initial_state(plan), [*begin, *events])


def test_of_several_late_readers_all_are_named_and_the_first_is_followed() -> None:
    state = fanned(StreamOffered(1, "atoms", "md"), StreamOpened(2, "atoms", "one", "read"))
    assert waits_for(state, "md") == Wait("two", "waits in open for two and three to open atoms", rank=0)
    state = fold(state, [StreamOpened(3, "atoms", "two", "read")])
    assert waits_for(state, "md") == Wait("three", "waits in open for three to open atoms", rank=0)
    assert diagnose(state, "md", 20) == (
        "three", "md waits in open for three to open atoms; three has run for 20 s and has not opened atoms"
    )  # fmt: skip
    state = fold(state, [StreamOpened(3, "atoms", "three", "read")])
    assert waits_for(state, "md") is None


def test_a_writer_whose_readers_have_all_closed_waits_for_nobody() -> None:
    state = moment(*opened(), at(2, "atoms", "md", 9), StreamClosed(3, "atoms", "saxs", "read", 1, False))
    assert waits_for(state, "md") is None


def test_a_writer_waits_for_the_slowest_reader_that_has_not_closed() -> None:
    names = ["one", "two", "three"]
    opens: list[Event] = [StreamOpened(1, "atoms", "md", "write")]
    opens += [StreamOpened(1, "atoms", name, "read") for name in names]
    counts = [StreamProgress(2, "atoms", name, "read", steps, 0) for name, steps in zip(names, (1, 3, 2), strict=True)]
    state = fanned(*opens, StreamProgress(2, "atoms", "md", "write", 4, 0), *counts)
    assert waits_for(state, "md") == Wait("one", "waits for one to take step 2 of atoms (queue 2/2)")
    state = fold(state, [StreamClosed(3, "atoms", "one", "read", 1, False)])
    assert waits_for(state, "md") == Wait("three", "waits for three to take step 3 of atoms (queue 2/2)")
    state = fold(state, [StreamProgress(4, "atoms", "three", "read", 3, 0)])
    assert waits_for(state, "md") is None


@pytest.mark.parametrize(
    ("logged", "written", "taken", "waits"),
    [
        ("saxs", 15, 13, True),  # the queue is full whatever the reader holds
        ("saxs", 15, 14, True),  # its log shows where a step begins: it may hold step 14, which is still in the queue
        ("saxs", 15, 15, False),  # it has begun the last one
        ("saxs", 1, 0, False),  # it holds nothing yet
        ("none", 15, 13, True),
        ("none", 15, 14, False),  # metrics show where a step ends
        ("both", 15, 14, False),  # the writer's log, too, shows where a step begins
        ("md", 15, 14, False),
    ],
)
def test_a_step_that_a_reader_may_hold_is_in_the_queue(logged: str, written: int, taken: int, waits: bool) -> None:
    """A log shows where a step begins, metrics show where it ends."""
    state = moment(*opened(), at(5, "atoms", "saxs", taken), at(6, "atoms", "md", written))
    hidden = {"both": ("md", "saxs")}.get(logged, (logged,))
    ends = {key: replace(end, reported=end.stage not in hidden) for key, end in state.ends.items()}
    wait = waits_for(replace(state, ends=ends), "md")
    expected = Wait("saxs", f"waits for saxs to take step {taken + 1} of atoms (queue 2/2)") if waits else None
    assert wait == expected


def test_a_stage_waits_where_it_moved_last() -> None:
    """A full queue and nothing to read: after a step that it read, saxs waits to write, else to read."""
    full = [*opened(), at(2, "pattern", "keep", 3), at(3, "pattern", "saxs", 5)]
    read_last = moment(*full, at(4, "atoms", "md", 5), at(5, "atoms", "saxs", 5))
    assert waits_for(read_last, "saxs") == Wait("keep", "waits for keep to take step 4 of pattern (queue 2/2)")
    wrote_last = moment(
        *opened(), at(4, "atoms", "md", 5), at(5, "atoms", "saxs", 5), *full[4:5], at(6, "pattern", "saxs", 5)
    )
    assert waits_for(wrote_last, "saxs") == Wait("md", "waits for step 6 of atoms (queue 0/2)")


def test_two_stages_that_wait_for_each_other_are_both_named() -> None:
    """Each reads the stream of the other, and has not opened its own."""
    stages = [
        make_stage("a", ["x"], [make_end("ba", "read"), make_end("ab", "write")]),
        make_stage("b", ["x"], [make_end("ab", "read"), make_end("ba", "write")]),
    ]
    plan = make_plan(stages, [make_stream("ab", "a", ["b"]), make_stream("ba", "b", ["a"])])
    state = fold(
        initial_state(plan), [RunStarted(0, "run", 1, 1, "here"), StageStarted(0, "a", 1), StageStarted(0, "b", 1)]
    )
    assert diagnose(state, "a", 9) == (
        "a", "a waits for b to open ba; b waits for a to open ab: a and b wait for each other"
    )  # fmt: skip


@pytest.mark.parametrize(("t", "text"), [(9.96, "10.0 s"), (10.0, "10 s"), (9.94, "9.9 s")])
def test_times_below_ten_seconds_have_a_decimal(t: float, text: str) -> None:
    assert diagnose(moment(), "md", t)[1] == f"md has run for {text} and has not opened atoms"


def test_a_stage_without_a_first_step_is_busy_since_it_opened_all() -> None:
    state = moment(*opened(), StageOpen(4, "md"))
    assert diagnose(state, "md", 16) == ("md", "md has been busy for 12 s without a first step")


def test_a_stage_that_starts_after_others_names_them() -> None:
    state = fold(initial_state(chain("after")), [RunStarted(0, "run", 1, 1, "here")])
    assert diagnose(state, "saxs", 5) == ("saxs", "saxs has not started: it starts after md")
    assert diagnose(state, "md", 5) == ("md", "md has not started")


@pytest.mark.parametrize(
    ("codes", "culprit"),
    [
        ({"md": 1, "saxs": 1, "keep": 1}, "md"),  # failure travels downstream
        ({"saxs": 1, "keep": 1}, "saxs"),
        ({"saxs": 0, "keep": 1}, "saxs"),
        ({"keep": 1}, "keep"),
    ],
)
def test_blame_goes_to_the_failed_stage_without_a_failed_writer(codes: dict[str, int], culprit: str) -> None:
    events = [
        event
        for index, (name, code) in enumerate(reversed(codes.items()))
        for event in (StageExited(2 + index, name, code, None), StageFailed(2 + index, name, "x"))
    ]
    assert blame(moment(*opened(), *events)) == culprit


def test_of_several_origins_one_that_did_not_exit_0_is_blamed_and_then_the_first() -> None:
    """After files: no stage has a writer that writes while it reads."""

    def failed(**ends: tuple[float, int]) -> RunState:
        events: list[Event] = []
        for name, (t, code) in ends.items():
            events += [StageExited(t, name, code, None), StageFailed(t, name, "x")]
        return moment(*events, way="after")

    assert blame(failed(md=(2, 0), saxs=(3, 1))) == "saxs"
    assert blame(failed(md=(4, 1), saxs=(3, 1))) == "saxs"
    assert blame(failed(md=(2, 1), saxs=(3, 1))) == "md"


def test_a_writer_that_its_reader_lost_and_that_still_runs() -> None:
    lost = StreamTrouble(5, "atoms", "saxs", "failed", "lost its writer")
    assert lost_writers(moment(*opened(), lost), "saxs") == ["md"]
    assert lost_writers(moment(*opened(), lost, StageExited(6, "md", 1, None)), "saxs") == []
    assert lost_writers(moment(*opened(), replace(lost, trouble="timeout")), "saxs") == []
    assert lost_writers(moment(*opened(), replace(lost, stage="md")), "md") == []


def test_who_waits_for_the_cause_beside_the_chain_is_named_too() -> None:
    culprit, text = diagnose(moment(StreamOffered(1, "atoms", "md")), "keep", 20)
    assert culprit == "saxs"
    assert text.endswith("saxs has run for 20 s and has not opened atoms, pattern (md waits for atoms)")


def test_a_writer_whose_reader_has_come_does_not_wait_for_itself() -> None:
    state = moment(StreamOffered(1, "atoms", "md"), StreamOpened(1, "atoms", "saxs", "read"))
    assert diagnose(state, "md", 5) == ("md", "md has run for 5.0 s and has not opened atoms")


def test_times_count_from_the_start_of_the_stage() -> None:
    begin: list[Event] = [RunStarted(0, "run", 1, 1, "here"), StageStarted(2, "md", 1), StageStarted(2, "saxs", 1)]
    state = fold(initial_state(chain("sst")), begin)
    assert diagnose(state, "md", 5)[1] == "md has run for 3.0 s and has not opened atoms"
    hidden = {key: replace(end, live=False) for key, end in state.ends.items()}
    assert diagnose(replace(state, ends=hidden), "saxs", 5)[1] == "saxs has run for 3.0 s; its steps cannot be seen"


def test_a_reader_whose_log_shows_its_first_step_may_hold_it() -> None:
    state = moment(*opened(), at(5, "atoms", "saxs", 1), at(6, "atoms", "md", 2))
    ends = {key: replace(end, reported=end.stage != "saxs") for key, end in state.ends.items()}
    assert waits_for(replace(state, ends=ends), "md") is not None


def test_the_last_step_of_the_last_stream_is_named() -> None:
    ends = [make_end("x", "write"), make_end("y", "write")]
    plan = make_plan(
        [make_stage("one", ["a"], ends), make_stage("two", ["b"], [make_end("x", "read"), make_end("y", "read")])],
        [make_stream("x", "one", ["two"]), make_stream("y", "one", ["two"])],
    )
    begin: list[Event] = [RunStarted(0, "run", 1, 1, "here"), StageStarted(0, "one", 1), StageStarted(0, "two", 1)]
    opens = [StreamOpened(1, end.stream, name, end.side) for name in ("one", "two") for end in plan.stage(name).ends]
    steps = [StreamProgress(3, "x", "one", "write", 1, 8), StreamProgress(4, "y", "one", "write", 1, 8)]
    state = fold(initial_state(plan), [*begin, *opens, *steps])
    assert diagnose(state, "one", 9)[1] == "one has been computing for 5.0 s since step 1 of y"
    unseen = {key: replace(end, live=key[0] == "y") for key, end in state.ends.items()}
    assert diagnose(replace(state, ends=unseen), "one", 9)[1] == "one has been computing for 5.0 s since step 1 of y"


def test_a_stage_of_two_inputs_waits_for_the_one_that_is_behind() -> None:
    plan = make_plan(
        [
            make_stage("one", ["a"], [make_end("x", "write")]), make_stage("two", ["b"], [make_end("y", "write")]),
            make_stage("join", ["c"], [make_end("x", "read"), make_end("y", "read")]),
        ],
        [make_stream("x", "one", ["join"]), make_stream("y", "two", ["join"])],
    )  # fmt: skip
    begin: list[Event] = [
        RunStarted(0, "run", 1, 1, "here"),
        *(StageStarted(0, stage.name, 1) for stage in plan.stages),
    ]
    opens = [StreamOpened(1, end.stream, stage.name, end.side) for stage in plan.stages for end in stage.ends]
    steps = [
        StreamProgress(2, "x", "one", "write", 6, 8),
        StreamProgress(2, "y", "two", "write", 4, 8),
        StreamProgress(3, "y", "join", "read", 4, 8),
        StreamProgress(4, "x", "join", "read", 5, 8),
    ]
    wait = waits_for(fold(initial_state(plan), [*begin, *opens, *steps]), "join")
    assert wait is not None and wait.text == "waits for step 5 of y (queue 0/2)"


def test_a_reader_that_timed_out_waited_for_a_writer_that_has_left_since() -> None:
    timed_out = StreamTrouble(61, "pattern", "keep", "timeout", "no new step")
    left, ended = (StreamClosed(61, "pattern", "saxs", "write", 0, complete) for complete in (False, True))
    wait = Wait("saxs", "waits for step 1 of pattern (queue 0/2)")
    assert waits_for(moment(*opened(), timed_out, left), "keep") == wait
    assert waits_for(moment(*opened(), timed_out, ended), "keep") is None
    assert waits_for(moment(*opened(), left), "keep") is None
