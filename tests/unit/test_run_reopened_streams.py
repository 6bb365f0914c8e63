"""A program that opens its output anew for each dump: nothing of it is lost in silence, and nothing waits for ever."""

from __future__ import annotations

from pathlib import Path

import adios2
import numpy as np
import pytest

from tests.support.chains import chain, make_end
from tests.support.imagined_run import Run, end_all, verdict_of
from workflow.run.observe.stream_evidence import IndexFollower
from workflow.run.state.events import StreamClosed, StreamOffered, StreamOpened, StreamOpening, StreamProgress
from workflow.run.state.lifecycle_events import DeadlinePassed


def dump(path: Path, number: int) -> None:
    """One step, as a program that knows nothing of `wf` appends it."""
    with adios2.Stream(str(path), "w" if number == 0 else "a") as out:
        out.begin_step()
        out.write("T", np.arange(6.0) + number, [6], [0], [6])
        out.end_step()


def test_the_steps_of_a_file_that_is_opened_anew_are_all_counted(tmp_path: Path) -> None:
    path = tmp_path / "data.bp"
    follower = IndexFollower("sim", make_end("data", "write", "live", path=str(path)))
    for number in range(3):
        dump(path, number)
        *_, last = follower.poll(float(number))
        assert isinstance(last, StreamClosed)
        assert last.steps == number + 1
        assert not list(follower.poll(number + 0.5)), "nothing new"


def test_a_live_reader_of_such_a_file_has_failed_when_its_writer_has_ended() -> None:
    run = Run(chain("live", plain=True, sink=False)).open_all()
    run.feed(StreamOpening(0, "atoms", "saxs", "read")).steps(atoms_md=1, atoms_saxs=1)  # saxs uses workflow.stage
    run.feed(StreamClosed(1, "atoms", "md", "write", 1, True), *run.done("saxs", 1, 2))
    assert run.status("saxs") == "running", "the file may still grow"
    run.feed(StreamProgress(3, "atoms", "md", "write", 3, 24), *run.done("md", 3, 4)).tick(6)
    state, stage, reason = verdict_of(end_all(run, 6))
    assert (state, stage) == ("failed", "saxs")
    assert "read only 1 of the 3 steps that md wrote to atoms, which it opened anew" in reason
    assert "coupling: live" in reason


def test_a_live_reader_of_a_file_that_is_closed_once_is_not_blamed() -> None:
    run = Run(chain("live", plain=True, sink=False)).open_all()
    run.feed(StreamOpening(0, "atoms", "saxs", "read")).steps(atoms_md=3, atoms_saxs=3)
    run.feed(StreamClosed(1, "atoms", "md", "write", 3, True), *run.done("saxs", 3, 2), *run.done("md", 3, 3))
    assert verdict_of(run) == ("succeeded", "", "")


@pytest.mark.parametrize("again", [1, 2])
def test_a_stream_in_memory_that_is_opened_anew_without_a_reader_has_a_deadline(again: int) -> None:
    """Also where one look has seen both."""
    run = Run(chain("sst", plain=True, sink=False, start=10, run=1000)).open_all().steps(atoms_md=1, atoms_saxs=1)
    run.feed(StreamClosed(1, "atoms", "md", "write", 1, True), StreamOffered(again, "atoms", "md"))
    run.feed(*run.done("saxs", 1, 3)).tick(12)
    assert not run.decisions(DeadlinePassed)
    run.tick(13.5)
    (event,) = run.decisions(DeadlinePassed)
    assert (event.deadline, event.stage) == ("start", "md")
    assert "md has opened atoms anew, after it had closed it" in run.state.reason
    assert "saxs has ended" in run.state.reason


def test_programs_that_both_open_a_stream_anew_go_on() -> None:
    run = Run(chain("sst", plain=True, sink=False, start=10, run=1000)).open_all().steps(atoms_md=1, atoms_saxs=1)
    run.feed(StreamClosed(1, "atoms", "md", "write", 1, True), StreamClosed(1, "atoms", "saxs", "read", 1, True))
    run.feed(StreamOffered(2, "atoms", "md"), StreamOpened(3, "atoms", "saxs", "read")).tick(30)
    assert not run.decisions(DeadlinePassed)
