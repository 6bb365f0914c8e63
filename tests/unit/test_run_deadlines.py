"""The lifecycle without processes: how long a run may be silent."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.support.chains import chain, make_plan, make_stage
from tests.support.imagined_run import Run, end_all, verdict_of
from tests.support.many_stages import pairs
from workflow.formats.sides import Side
from workflow.plan.plan_model import Plan
from workflow.run.lifecycle import step
from workflow.run.state.events import (
    StageExited,
    StreamClosed,
    StreamOffered,
    StreamOpened,
    StreamOpening,
    StreamProgress,
    StreamTrouble,
)
from workflow.run.state.lifecycle_events import DeadlinePassed, StageFailed, StageSilent
from workflow.run.verdict.stall_detection import present_warnings
from workflow.spec.models.deadlines import Deadlines


def test_start_deadline_counts_from_the_last_sign_of_life() -> None:
    run = Run(chain("sst", start=10, run=1000))
    run.feed(StreamOffered(1, "atoms", "md"), StreamOpened(8, "atoms", "saxs", "read"))
    run.feed(StreamOpened(8, "atoms", "md", "write"), StreamOpened(8, "pattern", "keep", "read")).tick(12)
    assert not run.decisions(DeadlinePassed)
    run.tick(18.5)
    event = run.decisions(DeadlinePassed)[0]
    assert isinstance(event, DeadlinePassed)
    assert (event.deadline, event.stage) == ("start", "saxs")


def test_step_deadline() -> None:
    run = Run(chain("sst", step=300, run=1e6)).open_all()
    run.t = 100
    run.steps(atoms_md=40, atoms_saxs=40, pattern_saxs=40, pattern_keep=40).tick(399)
    assert run.state.stopping is None
    run.tick(401)
    expected = (
        "no step for 300 s: saxs waits for step 41 of atoms (queue 0/2); "
        "md has been computing for 301 s since step 40 of atoms"
    )
    assert run.state.reason == expected
    end_all(run, 402)
    assert verdict_of(run) == ("failed", "md", expected)
    assert run.decisions(StageFailed) == [StageFailed(402, "md", expected)]


def test_step_deadline_of_a_writer_whose_reader_comes_later() -> None:
    run = Run(chain("after", step=300, run=1e6)).feed(StreamOpened(1, "atoms", "md", "write"))
    run.t = 100
    run.steps(atoms_md=40).tick(399)
    assert run.state.stopping is None
    run.tick(401)
    assert run.state.reason == "no step for 300 s: md has been computing for 301 s since step 40 of atoms"
    assert run.state.culprit == "md"


def test_step_deadline_of_a_reader_that_hangs_after_its_writer_ended() -> None:
    run = Run(chain("live", step=300, run=1e6, sink=False)).open_all()
    run.t = 100
    run.steps(atoms_md=40, atoms_saxs=7).feed(*run.done("md", 40)).tick(399)
    assert run.state.stopping is None
    run.tick(401)
    assert run.state.reason == "no step for 300 s: saxs has been computing for 301 s since step 7 of atoms"
    assert run.state.culprit == "saxs"


def test_stage_that_closed_all_it_had_open_may_take_its_time() -> None:
    run = Run(chain("after", step=300, run=1e6)).feed(StreamOpened(1, "atoms", "md", "write"))
    run.feed(StreamClosed(2, "atoms", "md", "write", 40, True)).tick(5000)
    assert run.state.stopping is None


@pytest.mark.parametrize("unseen", [("md", "write"), ("saxs", "read")])
def test_silence_beside_an_end_that_is_not_seen_proves_nothing(unseen: tuple[str, Side]) -> None:
    """A reader may wait for a slow writer, a writer in a full queue: nobody can tell."""
    run = Run(chain("live", step=300, run=1e6, sink=False))
    key = ("atoms", *unseen)
    run.state = replace(run.state, ends={**run.state.ends, key: replace(run.state.ends[key], live=False)})
    run.open_all().steps(atoms_md=4, atoms_saxs=4).tick(5000)
    assert run.state.stopping is None


def test_slow_writer_and_slow_reader_are_told_apart() -> None:
    waiting = Run(chain("sst", step=300, run=1e6, sink=False)).open_all()
    waiting.steps(atoms_md=5, atoms_saxs=5).tick(301)
    assert waiting.state.culprit == "md"
    full = Run(chain("sst", step=300, run=1e6, sink=False)).open_all()
    full.steps(atoms_md=5, atoms_saxs=2).tick(301)
    assert full.state.culprit == "saxs"


def test_timeout_that_a_reader_reports_is_the_silent_stages_fault() -> None:
    run = Run(chain("sst", step=70)).open_all().steps(atoms_md=2, atoms_saxs=2, pattern_saxs=2, pattern_keep=2)
    text = "stream pattern: no new step within 60 s, after 2 steps"
    run.feed(StreamTrouble(61, "pattern", "keep", "timeout", text), StageExited(61, "keep", 1, None)).tick(61.4)
    assert run.state.culprit == "md"
    assert run.state.reason.startswith(text + ": ")
    assert "md has been computing for 61 s" in run.state.reason
    end_all(run, 62)
    assert [run.status(name) for name in ("md", "saxs", "keep")] == ["failed", "stopped", "stopped"]


def test_timeout_that_is_seen_together_with_the_close_that_follows() -> None:
    run = Run(chain("sst", step=70)).open_all().steps(atoms_md=2, atoms_saxs=2, pattern_saxs=2, pattern_keep=2)
    trouble = StreamTrouble(61, "pattern", "keep", "timeout", "stream pattern: no new step within 60 s, after 2 steps")
    closed = StreamClosed(61, "pattern", "keep", "read", 2, False)
    state, _ = step(run.state, trouble, closed)
    assert state.culprit == "md"


def test_timeout_that_is_seen_together_with_the_exit_of_its_reader() -> None:
    run = Run(chain("sst", step=70)).open_all().steps(atoms_md=2, atoms_saxs=2, pattern_saxs=2, pattern_keep=2)
    trouble = StreamTrouble(61, "pattern", "keep", "timeout", "stream pattern: no new step within 60 s, after 2 steps")
    close = StreamClosed(61, "pattern", "keep", "read", 2, False)
    run.feed_together(trouble, close, StageExited(61, "keep", 1, None))
    assert run.state.culprit == "md"


def test_timeout_in_open_that_a_reader_reports_is_a_passed_start_deadline() -> None:
    run = Run(chain("sst", start=70)).feed(StreamOpening(1, "pattern", "keep", "read"))
    text = "stream pattern: no writer has opened it within 60 s"
    run.feed(StreamTrouble(61, "pattern", "keep", "timeout", text), StageExited(61, "keep", 1, None))
    end_all(run, 62)
    assert [(event.deadline, event.stage) for event in run.decisions(DeadlinePassed)] == [("start", "md")]
    assert run.status("keep") == "stopped"
    assert run.verdict.reason == (
        f"{text}: keep waits for saxs to open pattern; saxs waits for md to open atoms; "
        "md has run for 61 s and has not opened atoms"
    )


def warned(run: Run) -> list[tuple[float, str, float]]:
    return [(event.t, event.stage, event.since) for event in run.decisions(StageSilent)]


def by_default(**more: float | None) -> Plan:
    """A chain whose file states no deadline."""
    plan = chain("sst")
    return plan.model_copy(update={"deadlines": Deadlines.model_validate(more)})


def test_by_default_silence_is_reported_at_growing_intervals_and_stops_nothing() -> None:
    run = Run(by_default()).open_all()
    run.t = 100
    run.steps(atoms_md=40, atoms_saxs=40, pattern_saxs=40, pattern_keep=40)
    for t in range(100, 11_000, 5):
        run.tick(t)
    assert run.state.stopping is None
    assert not run.decisions(DeadlinePassed)
    assert [(stage, since) for _, stage, since in warned(run)] == [("md", 100)] * 5
    times = [t - 100 for t, _, _ in warned(run)]
    assert 600 <= times[0] <= 635, "a twentieth of the limit later at most"
    assert all(2 * before <= after <= 2 * before + 600 for before, after in itertools.pairwise(times))
    (text,) = present_warnings(run.state)
    assert "saxs waits for step 41 of atoms" in text
    assert "md has been computing for" in text
    run.t = 11_000
    run.steps(atoms_md=41)
    assert present_warnings(run.state) == []
    assert len(run.state.warnings) == 5


def test_after_a_step_a_silence_is_reported_anew() -> None:
    run = Run(by_default(warn=10)).open_all()
    for begin in (0, 1000):
        run.feed_together(*(StreamProgress(begin, *key, begin + 1, 8) for key in run.state.ends))
        run.tick(begin + 5).tick(begin + 11)
    assert [since for _, _, since in warned(run)] == [0, 1000]


def test_two_silent_stages_that_have_nothing_to_do_with_each_other_are_both_reported() -> None:
    run = Run(pairs(4))
    run.state = replace(run.state, plan=run.state.plan.model_copy(update={"deadlines": Deadlines(warn=10)}))
    run.open_all().tick(11)
    assert [stage for _, stage, _ in warned(run)] == ["writer0", "writer1"]


def test_a_limit_in_the_file_stops_the_run_and_warns_before() -> None:
    run = Run(by_default(warn=10, step=30)).open_all().tick(11)
    assert [stage for _, stage, _ in warned(run)] == ["md"]
    run.tick(31)
    assert (run.state.culprit, run.state.reason.partition(":")[0]) == ("md", "no step for 30 s")


def test_by_default_a_run_may_take_as_long_as_it_likes() -> None:
    run = Run(by_default(warn=1e6)).open_all()
    run.t = 1e7 - 10
    run.steps(atoms_md=1, atoms_saxs=1, pattern_saxs=1, pattern_keep=1).tick(1e7)
    assert run.state.stopping is None


def test_by_default_streams_that_do_not_open_stop_the_run() -> None:
    run = Run(by_default()).tick(121)
    assert run.state.reason.startswith("streams not open within 120 s")


def test_run_deadline() -> None:
    run = Run(make_plan([make_stage("a", ["a"])], run=5)).tick(5.1)
    assert run.state.reason == "not done within 5 s: a has run for 5.1 s; it has no streams"


def test_nothing_happens_after_the_verdict() -> None:
    run = Run(make_plan([make_stage("a", ["a"])])).feed(StageExited(1, "a", 0, None))
    assert run.verdict.state == "succeeded"
    assert step(run.state, StageExited(2, "a", 1, None))[1] == []
