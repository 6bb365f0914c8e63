"""A run without processes, for tests of the lifecycle: facts in, decisions and actions out."""

from __future__ import annotations

import signal
from typing import TypeVar

from workflow.plan.plan_model import Plan
from workflow.run.actions import (
    AskScheduler,
    FinishRun,
    KillStage,
    PassSignal,
    PassValues,
    RecordEvent,
    ReplaceReader,
    RestartStages,
    SignalStages,
    StartStage,
    TellStages,
)
from workflow.run.lifecycle import step
from workflow.run.state.events import (
    AllocationReceived,
    Event,
    RunStarted,
    StageExited,
    StagesRestarted,
    StageStarted,
    StreamClosed,
    StreamOffered,
    StreamOpened,
    StreamProgress,
    Tick,
)
from workflow.run.state.lifecycle_events import RunFinished
from workflow.run.state.run_state import RunState, initial_state

Decided = TypeVar("Decided", bound=Event)


class Run:
    """A run in the head: what is asked for is done at once; the test says what the stages do."""

    def __init__(
        self, plan: Plan, *, job: str = "", source: str = "slurm", visibility_s: float = 0.0, proves: bool = False
    ) -> None:
        self.state: RunState = initial_state(plan)
        self.decided: list[Event] = []
        self.signals: list[tuple[float, tuple[str, ...], int]] = []
        self.ended: list[tuple[float, str]] = []
        self.told: list[tuple[float, tuple[str, ...]]] = []
        self.passed: list[tuple[float, str, str]] = []
        self.values: list[PassValues] = []
        self.asked: list[float] = []  # when the scheduler was asked
        self.started: list[str] = []
        self.replaced: list[tuple[str, tuple[str, ...]]] = []
        self.begun: dict[str, int] = {}  # stage → how many had been replaced when its present attempt began
        self.t = 0.0
        self.feed(RunStarted(0.0, "run", 1, 1, "here", visibility_s=visibility_s, proves=proves))
        if job:
            self.feed(AllocationReceived(0.0, source, job, 4))

    def feed(self, *events: Event) -> Run:
        """One after the other."""
        for event in events:
            self.feed_together(event)
        return self

    def feed_together(self, *events: Event) -> Run:
        """As the supervisor takes what it finds at one look."""
        self.t = max(self.t, *(event.t for event in events))
        self.state, actions = step(self.state, *events)
        for action in actions:
            match action:
                case StartStage(stage=name):
                    self.started.append(name)
                    self.feed(StageStarted(self.t, name, 100 + len(self.started)))
                case SignalStages(stages=stages, number=number):
                    self.signals.append((self.t, stages, number))
                case PassSignal(stage=name, signal=word):
                    self.passed.append((self.t, name, word))
                case PassValues():
                    self.values.append(action)
                case TellStages(stages=stages):
                    self.told.append((self.t, stages))
                case ReplaceReader(stage=name, streams=streams):
                    self.replaced.append((name, streams))
                case AskScheduler():
                    self.asked.append(self.t)
                case KillStage(stage=name):
                    self.ended.append((self.t, name))
                case RestartStages(stages=stages):
                    self.restart(stages)
                case RecordEvent(event=decision):
                    self.decided.append(decision)
                case FinishRun(event=verdict):
                    self.feed(verdict)
        return self

    def restart(self, stages: tuple[str, ...]) -> None:
        """As the supervisor does: at the first step that one of them has not finished."""
        first = min(end.steps for name in stages for end in self.state.ends_of(name))
        self.feed(StagesRestarted(self.t, list(stages), self.state.stages[stages[0]].attempt + 1, first))
        self.begun |= dict.fromkeys(stages, len(self.replaced))
        for name in stages:
            self.started.append(name)
            self.feed(StageStarted(self.t, name, 100 + len(self.started)))

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

    def decisions(self, kind: type[Decided]) -> list[Decided]:
        return [event for event in self.decided if isinstance(event, kind)]


def end_all(run: Run, t: float) -> Run:
    """The stop works: what still runs ends."""
    for stage in list(run.state.stages.values()):
        if run.state.stages[stage.name].runs:
            run.feed(StageExited(t, stage.name, None, signal.SIGINT))
    return run


def verdict_of(run: Run) -> tuple[str, str, str]:
    return run.verdict.state, run.verdict.stage, run.verdict.reason
