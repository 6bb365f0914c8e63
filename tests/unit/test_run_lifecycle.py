"""The lifecycle without processes: facts in, decisions and actions out."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.chains import chain, make_plan, make_stage
from workflow.plan.model import Plan
from workflow.run.events import (
    DeadlinePassed,
    Event,
    Interrupted,
    RunFinished,
    RunStarted,
    Side,
    StageExited,
    StageFailed,
    StageOpen,
    StageStarted,
    StageSucceeded,
    StreamClosed,
    StreamOffered,
    StreamOpened,
    StreamOpening,
    StreamProgress,
    StreamTrouble,
    Tick,
)
from workflow.run.lifecycle import Finish, Record, Signal, Start, step, wake_at
from workflow.run.state import RunState, initial_state
from workflow.spec.models import Queue


class Run:
    """A run in the head: what is asked for is done at once; the test says what the stages do."""

    def __init__(self, plan: Plan) -> None:
        self.state: RunState = initial_state(plan)
        self.decided: list[Event] = []
        self.signals: list[tuple[float, tuple[str, ...], int]] = []
        self.started: list[str] = []
        self.t = 0.0
        self.feed(RunStarted(0.0, "run", 1, 1, "here"))

    def feed(self, *events: Event) -> Run:
        for event in events:
            self.t = max(self.t, event.t)
            self.state, actions = step(self.state, event)
            for action in actions:
                match action:
                    case Start(stage=name):
                        self.started.append(name)
                        self.feed(StageStarted(self.t, name, 100 + len(self.started)))
                    case Signal(stages=stages, number=number):
                        self.signals.append((self.t, stages, number))
                    case Record(event=decision):
                        self.decided.append(decision)
                    case Finish(event=verdict):
                        self.feed(verdict)
        return self

    def open_all(self) -> Run:
        for stream, stage, side in self.state.ends:
            if side == "write":
                self.feed(StreamOffered(self.t, stream, stage))
            self.feed(StreamOpened(self.t, stream, stage, side))
        return self

    def steps(self, **counts: int) -> Run:
        """`atoms_md=3`: that many steps of the stream at the stage."""
        for name, count in counts.items():
            stream, stage = name.split("_")
            side = next(key[2] for key in self.state.ends if key[:2] == (stream, stage))
            self.feed(StreamProgress(self.t, stream, stage, side, count, 8 * count))
        return self

    def done(self, stage: str, steps: int, t: float | None = None) -> list[Event]:
        """How a stage ends that did all it should."""
        now = self.t if t is None else t
        ends = [key for key in self.state.ends if key[1] == stage]
        closes = [StreamClosed(now, stream, stage, side, steps, True) for stream, _, side in ends]
        return [*closes, StageExited(now, stage, 0, None)]

    def tick(self, t: float) -> Run:
        return self.feed(Tick(t))

    @property
    def verdict(self) -> RunFinished:
        assert self.state.finished is not None, {name: stage.status for name, stage in self.state.stages.items()}
        return self.state.finished

    def status(self, name: str) -> str:
        return self.state.stages[name].status

    def decisions(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.decided if isinstance(event, kind)]


def end_all(run: Run, t: float) -> Run:
    """The stop works: what still runs ends."""
    for stage in list(run.state.stages.values()):
        if run.state.stages[stage.name].runs:
            run.feed(StageExited(t, stage.name, None, signal.SIGINT))
    return run


def verdict_of(run: Run) -> tuple[str, str, str]:
    return run.verdict.state, run.verdict.stage, run.verdict.reason


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
    assert "read only 4 of the 5 steps that md wrote to atoms" in run.state.reason


def test_reader_that_misses_steps_fails_with_the_counts() -> None:
    run = Run(chain("sst", sink=False)).open_all().steps(atoms_md=5, atoms_saxs=3)
    run.feed(*run.done("md", 5), *run.done("saxs", 3))
    reason = "saxs ended with exit code 0, but read only 3 of the 5 steps that md wrote to atoms"
    assert verdict_of(run) == ("failed", "saxs", reason)


def test_reader_of_more_steps_than_were_written_fails() -> None:
    run = Run(chain("sst", sink=False)).open_all()
    run.feed(*run.done("md", 5), *run.done("saxs", 7))
    assert "read 7 steps of atoms, of which md wrote only 5" in run.verdict.reason


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
    assert run.state.stages["md"].status == "succeeded"


def test_reader_that_lost_its_writer_waits_longer_for_it_to_be_seen_dead() -> None:
    run = Run(chain("sst")).open_all()
    run.feed(StreamTrouble(1, "atoms", "saxs", "failed", "stream atoms: lost"), StageExited(1, "saxs", 1, None))
    assert wake_at(run.state) == pytest.approx(2.0)
    run.tick(1.5)
    assert run.state.stopping is None
    run.feed(StageExited(1.6, "md", 9, 9, "one of its ranks"))
    assert run.state.culprit == "md"


def test_reader_that_lost_a_living_writer_is_at_fault_in_the_end() -> None:
    run = Run(chain("sst")).open_all()
    run.feed(StreamTrouble(1, "atoms", "saxs", "failed", "stream atoms: lost"), StageExited(1, "saxs", 1, None))
    run.tick(2.1)
    assert run.state.culprit == "saxs"
    assert run.state.reason == "saxs ended with exit code 1: stream atoms: lost"


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
    assert actions == [Start("a"), Start("b")]
    state, _ = step(state, StageExited(0, "a", 127, None, "cannot start a"))
    assert state.finished is None, "b is being started"
    state, actions = step(state, StageStarted(0, "b", 7))
    assert Signal(("b",), signal.SIGTERM) in actions
    state, actions = step(state, StageExited(0.1, "b", None, signal.SIGTERM))
    assert isinstance(actions[-1], Finish)
    assert actions[-1].event.reason == "a ended with exit code 127: cannot start a"


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


def test_timeout_in_open_that_a_reader_reports_is_a_passed_start_deadline() -> None:
    run = Run(chain("sst", start=70)).feed(StreamOpening(1, "pattern", "keep", "read"))
    text = "stream pattern: no writer has opened it within 60 s"
    run.feed(StreamTrouble(61, "pattern", "keep", "timeout", text), StageExited(61, "keep", 1, None))
    end_all(run, 62)
    assert [(event.deadline, event.stage) for event in run.decisions(DeadlinePassed)] == [("start", "md")]  # type: ignore[attr-defined]
    assert run.status("keep") == "stopped"
    assert run.verdict.reason == (
        f"{text}: keep waits for saxs to open pattern; saxs waits for md to open atoms; "
        "md has run for 61 s and has not opened atoms"
    )


def test_run_deadline() -> None:
    run = Run(make_plan([make_stage("a", ["a"])], run=5)).tick(5.1)
    assert run.state.reason == "not done within 5 s: a has been busy for 5.1 s without a first step"


def test_nothing_happens_after_the_verdict() -> None:
    run = Run(make_plan([make_stage("a", ["a"])])).feed(StageExited(1, "a", 0, None))
    assert run.verdict.state == "succeeded"
    assert step(run.state, StageExited(2, "a", 1, None))[1] == []
