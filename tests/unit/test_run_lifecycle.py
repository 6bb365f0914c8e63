"""The lifecycle without processes: who starts when, and how a run is judged."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Sequence

import pytest

from tests.support.chains import chain
from tests.support.imagined_run import Run, end_all, verdict_of
from workflow.run.lifecycle import wake_at
from workflow.run.state.events import (
    Event,
    StageExited,
    StreamClosed,
    StreamOpened,
    StreamOpening,
    StreamProgress,
    StreamTrouble,
)
from workflow.run.state.lifecycle_events import StageOpen, StageSucceeded, StopRequested
from workflow.run.verdict.failure_origin import DYING_S
from workflow.spec.models.pipeline import Queue


def test_stages_without_predecessors_start_together() -> None:
    assert Run(chain("sst")).started == ["md", "saxs", "keep"]


def test_after_stages_start_when_their_writers_succeeded() -> None:
    run = Run(chain("after"))
    assert run.started == ["md"]
    run.feed(StreamOpened(1, "atoms", "md", "write"), *run.done("md", 3, 2))
    assert run.started == ["md", "saxs"]
    run.feed(StreamOpened(3, "atoms", "saxs", "read"), StreamOpened(3, "pattern", "saxs", "write"))
    run.feed(*run.done("saxs", 3, 4))
    assert run.started == ["md", "saxs", "keep"]
    run.feed(StreamOpened(5, "pattern", "keep", "read"), *run.done("keep", 3, 6))
    assert verdict_of(run) == ("succeeded", "", "")
    assert run.verdict.exit_code == 0


def test_after_stages_do_not_start_when_their_writer_failed() -> None:
    run = Run(chain("after")).feed(StageExited(1, "md", 1, None))
    assert run.started == ["md"]
    assert verdict_of(run) == ("failed", "md", "md ended with exit code 1")
    assert {stage.status for stage in run.state.stages.values()} == {"failed", "stopped"}


def test_stage_is_open_when_all_its_streams_are() -> None:
    run = Run(chain("sst")).feed(StreamOpened(1, "atoms", "saxs", "read"))
    assert run.status("saxs") == "starting"
    run.feed(StreamOpened(2, "pattern", "saxs", "write"))
    assert run.status("saxs") == "running"
    assert [event.t for event in run.decisions(StageOpen)] == [2]


@pytest.mark.parametrize("order", list(itertools.permutations(["md", "saxs", "keep"])))
def test_success_in_any_order_of_exits(order: Sequence[str]) -> None:
    run = Run(chain("sst")).open_all().steps(atoms_md=4, atoms_saxs=4, pattern_saxs=4, pattern_keep=4)
    for stage in order:
        run.feed(*run.done(stage, 4))
    assert verdict_of(run) == ("succeeded", "", "")
    assert len(run.decisions(StageSucceeded)) == 3


def test_reader_is_judged_when_its_writer_has_closed() -> None:
    run = Run(chain("sst", sink=False)).open_all().steps(atoms_md=4, atoms_saxs=4)
    run.feed(*run.done("saxs", 4))
    assert run.status("saxs") == "running", "nobody knows yet whether 4 steps are all"
    run.feed(StreamProgress(1, "atoms", "md", "write", 5, 0))
    assert run.status("saxs") == "failed"
    run.tick(1.4)
    assert "read only 4 of the 5 steps that md had written to atoms by then" in run.state.reason


def test_reader_that_misses_steps_fails_with_the_counts() -> None:
    run = Run(chain("sst", sink=False)).open_all().steps(atoms_md=5, atoms_saxs=3)
    run.feed(*run.done("md", 5), *run.done("saxs", 3))
    reason = "saxs ended with exit code 0, but read only 3 of the 5 steps that md wrote to atoms"
    assert verdict_of(run) == ("failed", "saxs", reason)


def test_reader_of_more_steps_than_were_written_fails() -> None:
    run = Run(chain("sst", sink=False)).open_all()
    run.feed(*run.done("md", 5), *run.done("saxs", 7))
    assert "read 7 steps of atoms, although md wrote only 5" in run.verdict.reason


def test_discarded_steps_are_counted_and_no_failure() -> None:
    plan = chain("sst", sink=False)
    queue = Queue.model_validate({"limit": 2, "when_full": "discard"})
    plan = plan.model_copy(update={"streams": [plan.streams[0].model_copy(update={"queue": queue})]})
    run = Run(plan).open_all()
    run.feed(*run.done("saxs", 3))
    assert run.state.finished is None
    run.feed(*run.done("md", 5))
    assert run.verdict.state == "succeeded"
    assert run.state.dropped("atoms", "saxs") == 2


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ([StageExited(1, "md", 0, None)], "ended with exit code 0, but left atoms without closing it, writing 2 steps"),
        (
            [StreamClosed(1, "atoms", "md", "write", 2, False), StageExited(1, "md", 0, None)],
            "ended with exit code 0, but atoms broke off after 2 steps",
        ),
        ([StageExited(1, "md", 3, None)], "md ended with exit code 3"),
        ([StageExited(1, "md", None, 11)], "md was killed by signal 11 (SIGSEGV)"),
        ([StageExited(1, "md", 9, 9, "one of its ranks")], "md was killed by signal 9 (SIGKILL): one of its ranks"),
    ],
)  # fmt: skip
def test_bad_ends_of_a_stage(last: list[Event], words: str) -> None:
    run = Run(chain("sst")).open_all().steps(atoms_md=2).feed(*last)
    run.tick(1.4)
    assert run.state.culprit == "md"
    assert words in run.state.reason


def test_stage_that_never_opened_its_stream() -> None:
    run = Run(chain("sst")).feed(StageExited(1, "keep", 0, None)).tick(1.4)
    assert "keep ended with exit code 0, but never opened pattern" in run.state.reason


def writer_dies() -> list[Event]:
    """The facts around the death of md, all at the same moment."""
    return [
        StageExited(1, "md", None, 9),
        StreamTrouble(1, "atoms", "saxs", "failed", "stream atoms: its writer died"),
        StageExited(1, "saxs", 1, None),
        StreamTrouble(1, "pattern", "keep", "failed", "stream pattern: its writer died"),
        StageExited(1, "keep", 1, None),
    ]


# A stage's files are read before its exit is told.
ORDERS = [
    order
    for order in itertools.permutations(range(5))
    if order.index(1) < order.index(2) and order.index(3) < order.index(4)
]


@pytest.mark.parametrize("order", ORDERS)
def test_first_failure_is_named_in_any_order(order: Sequence[int]) -> None:
    facts = writer_dies()
    run = Run(chain("sst")).open_all().steps(atoms_md=3)
    for index in order:
        run.feed(facts[index])
    end_all(run.tick(3), 3)
    assert verdict_of(run) == ("failed", "md", "md was killed by signal 9 (SIGKILL)")


def test_reader_aborting_because_its_writer_died_is_not_blamed() -> None:
    run = Run(chain("sst")).open_all()
    run.feed(StageExited(1.0, "saxs", None, signal.SIGABRT), StageExited(1.1, "md", 1, None))
    assert run.state.culprit == "md"


def test_writer_is_not_blamed_for_its_dead_reader() -> None:
    run = Run(chain("sst")).open_all().steps(atoms_md=3, atoms_saxs=2)
    run.feed(StageExited(1, "saxs", 2, None)).tick(1.1)
    assert run.state.stopping is None, "md might be the cause"
    run.feed(*run.done("md", 9, 1.2)).tick(1.35)
    assert run.state.culprit == "saxs"
    assert run.state.stages["md"].status == "failed"
    assert run.state.stages["md"].reason == ("ended with exit code 0, but 7 of 9 steps of atoms never arrived at saxs")


def test_reader_that_lost_its_writer_waits_longer_for_it_to_be_seen_dead() -> None:
    run = Run(chain("sst")).open_all()
    run.feed(StreamTrouble(1, "atoms", "saxs", "failed", "stream atoms: lost"), StageExited(1, "saxs", 1, None))
    assert wake_at(run.state) == pytest.approx(1.0 + DYING_S)
    run.tick(8)
    assert run.state.stopping is None
    run.feed(StageExited(8.1, "md", 9, 9, "one of its ranks"))
    assert run.state.culprit == "md"


def test_reader_is_not_blamed_while_the_launcher_of_its_dead_writer_takes_its_time() -> None:
    """The reader says nothing of its writer; but ranks of that were gone when the reader had ended."""
    run = Run(chain("sst")).open_all()
    run.feed(StageExited(1, "saxs", 1, None, dying=["md"])).tick(8)
    assert run.state.stopping is None
    run.feed(StageExited(8.1, "md", 9, 9, "one of its ranks"))
    assert (run.state.culprit, run.state.reason) == ("md", "md was killed by signal 9 (SIGKILL): one of its ranks")


def test_reader_that_failed_while_its_writer_lived_is_blamed_at_once() -> None:
    run = Run(chain("sst"))
    run.feed(*(StreamOpening(0, *key) for key in run.state.ends)).open_all()
    run.feed(StageExited(1, "saxs", 1, None, alive=["md"]))
    assert run.state.stopping == 1, "all that could have caused it is known to live"
    assert run.state.culprit == "saxs"


def test_reader_that_a_library_aborted_is_not_blamed_before_its_writer_could_be_seen_dead() -> None:
    """UCX aborts a reader whose writer dies while its memory is read. The writer is no corpse yet."""
    run = Run(chain("sst"))
    run.feed(*(StreamOpening(0, *key) for key in run.state.ends)).open_all()
    run.feed(StageExited(1, "saxs", None, 6, alive=["md"])).tick(1.1)
    assert run.state.stopping is None
    run.feed(StageExited(1.2, "md", None, 11))
    assert run.state.culprit == "md"


def test_reader_that_lost_a_writer_which_goes_on_is_blamed_at_its_next_step() -> None:
    run = Run(chain("sst")).open_all()
    run.feed(StreamTrouble(1, "atoms", "saxs", "failed", "stream atoms: lost"), StageExited(1, "saxs", 1, None))
    assert not run.decisions(StopRequested)
    run.feed(StreamProgress(1.2, "atoms", "md", "write", 9, 72))
    assert [(event.t, event.stage) for event in run.decisions(StopRequested)] == [(1.2, "saxs")]


def test_who_is_blamed_does_not_depend_on_what_is_seen_first() -> None:
    """Everything at one look, in any order."""
    for order in ORDERS:
        facts = writer_dies()
        run = Run(chain("sst")).open_all().steps(atoms_md=3)
        run.feed_together(*(facts[index] for index in order))
        assert run.state.culprit == "md"


def test_reader_that_lost_a_living_writer_is_at_fault_in_the_end() -> None:
    run = Run(chain("sst")).open_all()
    run.feed(StreamTrouble(1, "atoms", "saxs", "failed", "stream atoms: lost"), StageExited(1, "saxs", 1, None))
    run.tick(1.1 + DYING_S)
    assert run.state.culprit == "saxs"
    assert run.state.reason == "saxs ended with exit code 1: stream atoms: lost"
