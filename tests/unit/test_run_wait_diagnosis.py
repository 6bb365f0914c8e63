"""Who waits for whom, in pictures of a moment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.chains import Way, chain
from workflow.run.events import (
    Event,
    RunStarted,
    StageExited,
    StageStarted,
    StreamOffered,
    StreamOpened,
    StreamOpening,
    StreamProgress,
)
from workflow.run.state import RunState, initial_state
from workflow.run.state_reducer import fold
from workflow.run.verdict.wait_diagnosis import diagnose, waits_for

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


def test_analysis_that_writes_seldom_waits_for_its_input() -> None:
    state = moment(
        *opened(), at(5, "atoms", "md", 40), at(4, "pattern", "saxs", 4), at(4.5, "pattern", "keep", 4),
        at(6, "atoms", "saxs", 40),
    )  # fmt: skip
    wait = waits_for(state, "saxs")
    assert wait is not None
    assert wait.text == "waits for step 41 of atoms (queue 0/2)"


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
