"""The lifecycle without processes: how a run is stopped."""

from __future__ import annotations

import signal

import pytest

from tests.support.chains import chain, make_plan, make_stage
from tests.support.imagined_run import Run, end_all, verdict_of
from workflow.run.actions import FinishRun, SignalStages, StartStage
from workflow.run.events import (
    Event,
    Interrupted,
    Requested,
    RunStarted,
    StageCut,
    StageExited,
    StageStarted,
)
from workflow.run.lifecycle import step
from workflow.run.state import initial_state


def test_kill_is_certain_at_once() -> None:
    run = Run(chain("sst")).open_all().feed(StageExited(1, "keep", None, signal.SIGKILL))
    assert run.state.culprit == "keep"
    assert run.signals == [(1, ("md", "saxs"), signal.SIGINT)]


def test_stop_climbs_from_int_over_term_to_kill() -> None:
    run = Run(chain("sst", stop=3)).open_all().feed(StageExited(10, "md", None, 9))
    for tenths in range(101, 145):
        run.tick(tenths / 10)
    times = [(10, signal.SIGINT), (11, signal.SIGTERM), (13, signal.SIGKILL)]
    assert run.signals == [(t, ("saxs", "keep"), number) for t, number in times]
    assert run.verdict.stage == "md", "a process stuck in the kernel holds the run up"


def test_most_of_the_time_to_stop_follows_the_termination_request() -> None:
    """A program that writes a checkpoint on SIGTERM needs minutes for it."""
    run = Run(chain("sst", stop=60)).open_all().feed(StageExited(10, "md", None, 9))
    for t in range(11, 75):
        run.tick(t)
    times = [(10, signal.SIGINT), (15, signal.SIGTERM), (70, signal.SIGKILL)]
    assert run.signals == [(t, ("saxs", "keep"), number) for t, number in times]


def test_stage_that_ends_well_during_the_stop_is_not_blamed() -> None:
    run = Run(chain("sst")).open_all().steps(atoms_md=3, atoms_saxs=3, pattern_saxs=3, pattern_keep=3)
    run.feed(StageExited(1, "keep", None, 9), *run.done("md", 3, 1.1), StageExited(1.2, "saxs", 1, None))
    assert verdict_of(run) == ("failed", "keep", "keep was killed by signal 9 (SIGKILL)")
    assert [run.state.stages[name].status for name in ("md", "saxs", "keep")] == ["succeeded", "stopped", "failed"]


def test_interrupt_stops_all() -> None:
    run = Run(chain("sst")).open_all().feed(Interrupted(5, "SIGINT"))
    assert run.signals == [(5, ("md", "saxs", "keep"), signal.SIGINT)]
    end_all(run, 5.1)
    assert verdict_of(run) == ("interrupted", "", "interrupted by SIGINT")
    assert run.verdict.exit_code == 130


def test_second_interrupt_kills() -> None:
    run = Run(chain("sst")).open_all().feed(Interrupted(5, "SIGINT"), Interrupted(5.2, "SIGINT"))
    assert run.signals[-1] == (5.2, ("md", "saxs", "keep"), signal.SIGKILL)
    assert end_all(run, 5.3).verdict.state == "interrupted"


def test_interrupt_while_a_failure_settles_keeps_the_failure() -> None:
    run = Run(chain("sst")).open_all().feed(StageExited(1, "keep", 1, None), Interrupted(1.1, "SIGTERM"))
    assert end_all(run, 1.2).verdict.stage == "keep"


def test_stage_started_during_the_stop_is_stopped_too() -> None:
    plan = make_plan([make_stage("a", ["a"]), make_stage("b", ["b"])])
    state, actions = step(initial_state(plan), RunStarted(0, "run", 1, 1, "here"))
    assert actions == [StartStage("a"), StartStage("b")]
    state, _ = step(state, StageExited(0, "a", 127, None, "cannot start a"))
    assert state.finished is None, "b is being started"
    state, actions = step(state, StageStarted(0, "b", 7))
    assert SignalStages(("b",), signal.SIGTERM) in actions
    state, actions = step(state, StageExited(0.1, "b", None, signal.SIGTERM))
    assert isinstance(actions[-1], FinishRun)
    assert actions[-1].event.reason == "a ended with exit code 127: cannot start a"


def test_a_request_stops_all_and_says_who_asked() -> None:
    run = Run(chain("sst")).open_all().feed(Requested(5, "stop", "anna@login1"))
    assert run.told == [(5, ("md", "saxs", "keep"))]
    end_all(run, 5.1)
    assert verdict_of(run) == ("interrupted", "", "interrupted by `wf cancel` (anna@login1)")
    assert run.verdict.exit_code == 130


def test_asking_twice_to_stop_is_asking_once() -> None:
    run = Run(chain("sst", stop=60)).open_all().feed(Requested(5, "stop", "a@h"), Requested(5.2, "stop", "a@h"))
    assert (len(run.told), run.signals) == (1, [])


def test_a_request_tells_first_and_signals_what_goes_on() -> None:
    """srun passes on no single SIGINT, and kills its ranks at the SIGTERM: only what is told closes its files."""
    run = Run(chain("sst", stop=60)).open_all().feed(Requested(5, "stop", "a@h"))
    for t in range(6, 67):
        run.tick(t)
    everyone = ("md", "saxs", "keep")
    assert run.told == [(5, everyone)]
    assert run.signals == [
        (15, everyone, signal.SIGINT), (20, everyone, signal.SIGTERM), (65, everyone, signal.SIGKILL),
    ]  # fmt: skip


def test_programs_that_end_when_a_request_tells_them_have_stopped() -> None:
    run = Run(chain("sst", stop=60)).open_all().steps(atoms_md=7, atoms_saxs=7, pattern_saxs=7, pattern_keep=7)
    run.feed(Requested(5, "stop", "a@h"), StageCut(5.5, "md"))
    for stage in ("md", "saxs", "keep"):
        run.feed(*run.done(stage, 8, 6))
    assert run.signals == []
    assert verdict_of(run)[0] == "interrupted"
    assert {run.status(name) for name in ("md", "saxs", "keep")} == {"stopped"}


def test_programs_that_cannot_be_told_are_interrupted_at_once() -> None:
    plan = make_plan([make_stage("a", ["a"], observed="evidence")])
    run = Run(plan).feed(Requested(5, "stop", "a@h"))
    assert (run.told, run.signals) == ([(5, ("a",))], [(5, ("a",), signal.SIGINT)])


@pytest.mark.parametrize("before", [[], [Requested(5, "stop", "a@h")], [Interrupted(5, "SIGINT")]])
def test_a_request_to_kill_kills_at_once(before: list[Event]) -> None:
    run = Run(chain("sst", stop=60)).open_all().feed(*before, Requested(6, "kill", "a@h"))
    assert run.signals[-1:] == [(6, ("md", "saxs", "keep"), signal.SIGKILL)]
    end_all(run, 6.1)
    assert verdict_of(run)[0] == "interrupted"
