"""The lifecycle without processes: how a run is stopped."""

from __future__ import annotations

import signal

import pytest

from tests.support.chains import chain, make_end, make_plan, make_stage, make_stream
from tests.support.imagined_run import Run, end_all, verdict_of
from workflow.run.actions import FinishRun, SignalStages, StartStage
from workflow.run.lifecycle import step
from workflow.run.state.events import (
    Event,
    Interrupted,
    NodeLost,
    Requested,
    RunStarted,
    StageCut,
    StageExited,
    StageStarted,
    StopPlanned,
    StreamOpened,
    Tick,
)
from workflow.run.state.run_state import initial_state
from workflow.run.stop_sequence import free_within_s


def test_kill_is_certain_at_once() -> None:
    run = Run(chain("sst")).open_all().feed(StageExited(1, "keep", None, signal.SIGKILL))
    assert run.state.culprit == "keep"
    assert run.told == [(1, ("md", "saxs"))]


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


def test_after_a_failure_those_that_can_go_on_are_told_first_and_the_others_end_at_once() -> None:
    """The ladder of `wf cancel` for the simulation, whose steps SST drops from now on; saxs and keep have no data."""
    plan = chain("sst", stop=60)
    more = make_stage("look", ["x"], [make_end("view", "read")])
    md = plan.stages[0].model_copy(update={"ends": [*plan.stages[0].ends, make_end("view", "write")]})
    plan = make_plan([md, *plan.stages[1:], more], [*plan.streams, make_stream("view", "md", ["look"])], stop=60)
    run = Run(plan).open_all().feed(StageExited(10, "saxs", None, 9))
    assert run.told == [(10, ("md", "look"))]
    assert run.signals == [(10, ("keep",), signal.SIGINT)]
    for t in range(11, 72):
        run.tick(t)
    both = ("md", "look")
    assert run.signals[1:] == [
        (15, ("keep",), signal.SIGTERM), (20, both, signal.SIGINT), (25, both, signal.SIGTERM),
        (70, ("md", "keep", "look"), signal.SIGKILL),
    ]  # fmt: skip
    assert run.verdict.stage == "saxs", "a process stuck in the kernel holds the run up"


def test_one_that_ends_by_itself_after_a_failure_has_stopped_and_no_signal_was_sent() -> None:
    run = Run(chain("sst", stop=60)).open_all().steps(atoms_md=7, atoms_saxs=7, pattern_saxs=7, pattern_keep=3)
    run.feed(StageExited(5, "keep", 1, None), StageCut(5.5, "md"))
    run.feed(*run.done("md", 8, 6), *run.done("saxs", 8, 6))
    assert run.signals == []
    assert verdict_of(run)[:2] == ("failed", "keep")
    assert [run.status(name) for name in ("md", "saxs", "keep")] == ["stopped", "stopped", "failed"]


def test_programs_that_cannot_be_told_are_interrupted_at_once_after_a_failure_too() -> None:
    plan = make_plan([make_stage(name, [name], observed="evidence") for name in ("a", "b")], stop=60)
    run = Run(plan).feed(StageExited(5, "a", 1, None))
    assert (run.told, run.signals) == ([(5, ("b",))], [(5, ("b",), signal.SIGINT)])


def test_one_that_has_not_opened_its_streams_cannot_go_on() -> None:
    run = Run(chain("sst", stop=60))
    for stage, side in (("md", "write"), ("saxs", "read")):
        run.feed(StreamOpened(0.5, "atoms", stage, side))  # type: ignore[arg-type]
    run.feed(StageExited(1, "keep", None, 9))
    assert run.told == [(1, ("md",))]
    assert run.signals == [(1, ("saxs",), signal.SIGINT)]


def test_a_stage_that_hangs_is_interrupted_and_its_writer_told() -> None:
    """It is the writer that waits for room in the queue: it is free when its reader has ended."""
    run = Run(chain("sst", step=30.0, stop=60)).open_all()
    run.steps(atoms_md=4, atoms_saxs=2, pattern_saxs=2, pattern_keep=2).tick(31).tick(32)
    assert run.state.culprit == "saxs"
    assert [names for _, names in run.told] == [("md",)]
    assert [(names, number) for _, names, number in run.signals] == [(("saxs", "keep"), signal.SIGINT)]


@pytest.mark.parametrize("hurry", [Interrupted(5.1, "SIGTERM"), Interrupted(5.1, "SIGINT")])
def test_who_is_in_a_hurry_after_a_failure_ends_all(hurry: Event) -> None:
    """Before it is settled where the failure began, and after that."""
    both, plan = ("md", "saxs"), chain("sst", stop=60)
    run = Run(plan, job="12").open_all().feed(StageExited(5, "keep", 1, None))
    assert (run.told, run.signals) == ([], []), "md may have failed first"
    run.feed(hurry)
    assert (run.told, run.signals) == ([], [(5.1, both, signal.SIGINT)])
    run = Run(plan, job="12").open_all().feed(StageExited(5, "keep", None, 9), hurry)
    assert (run.told, run.signals[0][1:]) == ([(5, both)], (("md", "saxs", "keep"), signal.SIGKILL))


def test_the_verdict_waits_for_the_guards_no_longer_than_it_can() -> None:
    def waits(*events: Event, t: float = 100.0) -> float:
        return free_within_s(Run(chain("sst", start=1e6), job="12").feed(*events).state, t)

    assert waits() == 15.0
    assert waits(Interrupted(90.0, "SIGTERM")) == 4.0, "the scheduler kills in a few seconds"
    assert waits(Requested(90.0, "stop", "me")) == 15.0
    assert waits(NodeLost(90.0, 1, "n2", 10.0, "")) == 4.0, "its guard never ends"
    planned = StopPlanned(0.0, 80.0, 200.0)
    assert waits(planned) == 15.0
    assert waits(planned, Tick(80.0)) == 4.0, "what is left of the allocation is for what is to be done"
    assert waits(planned, Tick(80.0), t=197.0) == 1.5
    assert waits(planned, t=190.0) == 5.0
    assert waits(planned, t=300.0) == 0.0


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
