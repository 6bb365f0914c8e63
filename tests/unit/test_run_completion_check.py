"""What is wrong with a stage that has exited, at one moment: of md → saxs, one is judged."""

from __future__ import annotations

import pytest

from tests.support.chains import Way, chain
from workflow.run.state.events import (
    Event,
    StageCut,
    StageExited,
    StageStarted,
    StreamClosed,
    StreamOpened,
    StreamProgress,
    StreamTrouble,
)
from workflow.run.state.reducer import fold
from workflow.run.state.run_state import RunState, initial_state
from workflow.run.verdict.completion_check import through_reader, why_incomplete
from workflow.spec.models.pipeline import Queue

WELL = "ended with exit code 0, but "


def pair(*events: Event, way: Way = "sst", plain: bool = False) -> RunState:
    """Both were started; what happened then."""
    plan = chain(way, plain=plain, sink=False)
    return fold(initial_state(plan), [StageStarted(0, "md", 1), StageStarted(0, "saxs", 2), *events])


def opened(stage: str) -> StreamOpened:
    return StreamOpened(1, "atoms", stage, "write" if stage == "md" else "read")


def stepped(stage: str, steps: int) -> StreamProgress:
    return StreamProgress(7, "atoms", stage, "write" if stage == "md" else "read", steps, 8 * steps)


def closed(stage: str, steps: int, complete: bool = True) -> StreamClosed:
    return StreamClosed(8, "atoms", stage, "write" if stage == "md" else "read", steps, complete)


def exited(stage: str) -> StageExited:
    return StageExited(9, stage, 0, None)


@pytest.mark.parametrize(
    ("way", "plain", "words"),
    [
        ("sst", False, "never opened atoms through workflow.stage"),
        ("sst", True, "never opened atoms, according to SST's log in its stderr"),
        ("live", False, "never opened atoms through workflow.stage"),
        ("live", True, "never opened atoms"),
    ],
)
def test_a_stream_that_was_never_opened_names_the_log_if_that_is_all_that_shows_it(
    way: Way, plain: bool, words: str
) -> None:
    assert why_incomplete(pair(exited("md"), way=way, plain=plain), "md") == WELL + words


@pytest.mark.parametrize(
    ("stage", "steps", "words"),
    [
        ("md", 1, "left atoms without closing it, writing 1 step"),
        ("saxs", 1, "left atoms without closing it, reading 1 step"),
        ("saxs", 2, "left atoms without closing it, reading 2 steps"),
    ],
)
def test_a_stream_that_was_not_closed(stage: str, steps: int, words: str) -> None:
    assert why_incomplete(pair(opened(stage), stepped(stage, steps), exited(stage)), stage) == WELL + words


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([closed("md", 0, complete=True)], ""),
        ([closed("md", 0, complete=False)], WELL + "left no ${{ run.dir }}/streams/atoms.bp"),
        ([], ""),
    ],
)
def test_of_a_file_without_visible_steps_it_counts_only_that_it_is_there(events: list[Event], expected: str) -> None:
    plan = chain("after", plain=True, sink=False)
    md = plan.stage("md")
    hdf5 = md.model_copy(update={"ends": [end.model_copy(update={"engine": "HDF5"}) for end in md.ends]})
    plan = plan.model_copy(update={"stages": [hdf5, plan.stage("saxs")]})
    assert (
        why_incomplete(fold(initial_state(plan), [StageStarted(0, "md", 1), *events, exited("md")]), "md") == expected
    )


@pytest.mark.parametrize("when_full", ["block", "discard"])
def test_a_reader_is_judged_when_the_number_of_steps_is_final(when_full: str) -> None:
    plan = chain("sst", sink=False)
    queue = Queue.model_validate({"limit": 2, "when_full": when_full})
    plan = plan.model_copy(update={"streams": [plan.streams[0].model_copy(update={"queue": queue})]})
    events = [StageStarted(0, "md", 1), opened("md"), stepped("md", 3), closed("saxs", 3), exited("saxs")]
    state = fold(initial_state(plan), events)
    assert why_incomplete(state, "saxs") is None
    assert why_incomplete(fold(state, [closed("md", 3)]), "saxs") == ""


@pytest.mark.parametrize("steps", [0, 3])
def test_a_reader_of_a_writer_whose_steps_are_not_counted_may_have_read_any_number(steps: int) -> None:
    """The reader reports its steps; the writer is a program of the user's own, of which nothing is seen."""
    plan = chain("sst", sink=False)
    md = plan.stage("md").model_copy(update={"observed": "evidence", "env": {}})
    plan = plan.model_copy(update={"stages": [md, plan.stage("saxs")]})
    state = fold(initial_state(plan), [StageStarted(0, "saxs", 2), closed("saxs", steps), exited("saxs")])
    assert why_incomplete(state, "saxs") == ""


def test_the_first_problem_is_named_although_another_stream_is_not_complete_yet() -> None:
    """saxs has read what there was of atoms, whose writer goes on, and has left its own stream."""
    state = fold(initial_state(chain("sst")), [
        StageStarted(0, "saxs", 2), opened("md"), closed("saxs", 0),
        StreamOpened(1, "pattern", "saxs", "write"), exited("saxs"),
    ])  # fmt: skip
    assert why_incomplete(state, "saxs") == WELL + "left pattern without closing it, writing 0 steps"


def of_declared_steps(*events: Event, steps: int = 5) -> RunState:
    """md declares that it writes five steps, and was asked to stop."""
    plan = chain("sst", sink=False)
    md = plan.stages[0]
    md = md.model_copy(update={"ends": [end.model_copy(update={"steps": 5}) for end in md.ends]})
    plan = plan.model_copy(update={"stages": [md, plan.stages[1]]})
    ended = [opened("md"), opened("saxs"), closed("md", steps), closed("saxs", steps), exited("saxs"), exited("md")]
    return fold(initial_state(plan), [StageStarted(0, "md", 1), StageStarted(0, "saxs", 2), *events, *ended])


def test_fewer_steps_than_a_component_declares_are_a_failure_unless_it_was_stopped() -> None:
    said = "wrote only 4 of the 5 steps of atoms that its parameters request"
    assert why_incomplete(of_declared_steps(steps=4), "md") == WELL + said
    assert why_incomplete(of_declared_steps(steps=4), "saxs") == "", "it has read all that there was"
    assert why_incomplete(of_declared_steps(), "md") == ""
    assert why_incomplete(of_declared_steps(StageCut(5, "md"), steps=4), "md") == ""


def test_what_its_program_said_of_a_stream_that_it_could_not_open() -> None:
    state = pair(StreamTrouble(5, "atoms", "saxs", "other", "no such file"), exited("saxs"))
    assert why_incomplete(state, "saxs") == WELL + "never opened atoms through workflow.stage: no such file"


def test_a_writer_is_judged_when_its_readers_have_taken_all_or_are_gone() -> None:
    """SST drops the steps of a reader that is gone: the writer ends with exit code 0 all the same."""
    written = pair(opened("md"), opened("saxs"), stepped("saxs", 1), closed("md", 3), exited("md"))
    assert why_incomplete(written, "md") is None
    assert through_reader(written, "md") == ""
    assert why_incomplete(fold(written, [closed("saxs", 3)]), "md") == ""
    lost = fold(written, [exited("saxs")])
    assert why_incomplete(lost, "md") == WELL + "2 of 3 steps of atoms never arrived at saxs"
    assert through_reader(lost, "md") == "saxs"


@pytest.mark.parametrize(("code", "signal"), [(1, None), (None, 9)])
def test_a_writer_that_failed_by_itself_did_not_fail_through_its_reader(code: int | None, signal: int | None) -> None:
    events = [opened("md"), opened("saxs"), stepped("saxs", 1), closed("md", 3), exited("saxs")]
    failed = pair(*events, StageExited(9, "md", code, signal))
    assert through_reader(failed, "md") == ""
    assert through_reader(pair(*events[:-2], exited("saxs"), exited("md")), "md") == "", "it left its stream open"
