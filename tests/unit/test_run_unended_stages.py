"""A stage that has closed its streams and does not end: pure."""

from __future__ import annotations

import signal
from dataclasses import replace

from tests.support.chains import chain, make_plan, make_stage
from tests.support.imagined_run import Run, end_all, verdict_of
from workflow.plan.plan_model import Plan
from workflow.run.processes.process_tree import WorkWatch
from workflow.run.state.events import StageExited, StageWorked, StreamClosed
from workflow.run.state.lifecycle_events import DeadlinePassed, RunFinished, StageSilent
from workflow.run.verdict.stall_detection import Stall, find_unended, late_ends

WARN_S = 600.0


def plan(exit_s: float | None = None) -> Plan:
    """md → saxs → keep with these deadlines."""
    made = chain("sst", warn=WARN_S, run=1e6)
    return made.model_copy(update={"deadlines": made.deadlines.model_copy(update={"exit": exit_s})})


def left(run: Run, stage: str = "md", t: float = 1.0) -> Run:
    """All is written and read; that stage has closed its streams, and the others have ended."""
    run.open_all().steps(atoms_md=3, atoms_saxs=3, pattern_saxs=3, pattern_keep=3)
    for name in ("md", "saxs", "keep"):
        ends = run.done(name, 3, t)
        run.feed(*(ends[:-1] if name == stage else ends))
    return run


def test_by_default_it_is_a_warning_that_comes_again() -> None:
    run = left(Run(plan()))
    for t in range(2, 2000, 10):
        run.tick(t)
    warnings = run.decisions(StageSilent)
    assert [each.t for each in warnings] == [602, 1232], "when it has lasted for 10 min, and for twice that time"
    assert isinstance(warnings[0], StageSilent)
    assert (warnings[0].stage, warnings[0].since, warnings[0].left) == ("md", 1.0, True)
    assert warnings[0].diagnosis == "md closed its streams 10 min 01 s ago and has not ended"
    assert run.state.stopping is None
    assert run.feed(StageExited(2001, "md", 0, None)).verdict.state == "succeeded"


def test_it_is_ended_when_the_deadline_is_set() -> None:
    run = left(Run(plan(30.0)))
    run.tick(20).tick(32)
    said = "no sign of work for 30 s: md closed its streams 31.0 s ago and has not ended"
    assert run.decisions(DeadlinePassed) == [DeadlinePassed(32, "exit", said, "md")]
    assert run.signals == [(32, ("md",), signal.SIGINT)]
    assert verdict_of(end_all(run, 33)) == ("failed", "md", said)


def test_one_that_works_does_not_hang() -> None:
    """It may write files of its own for an hour."""
    run = left(Run(plan(30.0)))
    for t in range(2, 3600, 20):
        run.feed(StageWorked(t, "md")).tick(t + 19)
    assert (run.decisions(DeadlinePassed), run.decisions(StageSilent)) == ([], [])
    run.tick(3622)
    assert run.state.culprit == "md"


def test_one_with_an_open_stream_is_no_matter_of_this_deadline() -> None:
    run = Run(plan(30.0)).open_all().steps(atoms_md=3, atoms_saxs=3, pattern_saxs=3, pattern_keep=3)
    run.feed(StreamClosed(1.0, "atoms", "md", "write", 3, True), StreamClosed(1.0, "atoms", "saxs", "read", 3, True))
    run.tick(40).tick(80)
    assert [event.stage for event in run.decisions(DeadlinePassed)] == ["md"]
    run = left(Run(plan(30.0)), "nobody")
    assert run.verdict.state == "succeeded"


def test_one_without_streams_may_take_its_time() -> None:
    run = Run(make_plan([make_stage("a", ["a"])], exit=5.0, warn=5.0, run=1e6)).tick(100).tick(200)
    assert (run.decisions(DeadlinePassed), run.decisions(StageSilent)) == ([], [])


def test_wf_status_speaks_of_it_after_five_seconds_unless_a_warning_does() -> None:
    run = left(Run(plan()))
    assert late_ends(run.tick(6).state) == []
    assert late_ends(run.tick(6.5).state) == ["md closed its streams 5.50 s ago and has not ended"]
    assert late_ends(left(Run(plan()), "saxs").tick(7).state) == [
        "saxs closed its streams 6.00 s ago and has not ended"
    ]
    assert late_ends(run.tick(700).state) == [], "the warning says it"
    over = left(Run(plan())).tick(7).state
    assert late_ends(replace(over, finished=RunFinished(8, "failed", 1, "", "md"))) == []


def test_it_counts_from_before_a_moment() -> None:
    state = left(Run(plan())).state
    assert list(find_unended(state, 1.0, 9.0)) == []
    said = "md closed its streams 8.00 s ago and has not ended"
    assert list(find_unended(state, 1.5, 9.0)) == [Stall("md", "md", 1.0, said)]


def test_work_is_more_than_a_twentieth_of_a_core() -> None:
    watch = WorkWatch()
    assert not watch.works("md", 10.0, 5.0), "what it had used before is not known"
    assert not watch.works("md", 12.0, 5.05)
    assert watch.works("md", 14.0, 5.20)
    assert not watch.is_due("md", 14.5)
    assert watch.is_due("md", 15.0)
    assert watch.is_due("saxs", 15.0)
