"""The actions that `workflow.run.lifecycle` decides on, and that the supervisor performs. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from workflow.formats.steering_files import ValueChange
from workflow.run.state.events import Event
from workflow.run.state.lifecycle_events import RunFinished, StageSucceeded
from workflow.run.state.reducer import apply
from workflow.run.state.run_state import RunState


@dataclass(frozen=True)
class StartStage:
    """Start this stage."""

    stage: str


@dataclass(frozen=True)
class SignalStages:
    """Send this signal to all that runs of these stages."""

    stages: tuple[str, ...]
    number: int


@dataclass(frozen=True)
class PassSignal:
    """Send this signal, `USR1`, to the program of a stage, or to its launcher, which passes it on to the ranks."""

    stage: str
    signal: str


@dataclass(frozen=True)
class PassValues:
    """Pass these new values on to the program of a stage, which takes them at a step, or writes why it does not."""

    stage: str
    change: ValueChange


@dataclass(frozen=True)
class TellStages:
    """Tell these stages that the run is to be stopped: by the stop file, and by the signal of each that has one, its
    `stop_signal` or the one on which it writes a checkpoint."""

    stages: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class AskScheduler:
    """Ask the scheduler what it says of the job that the run is in."""


@dataclass(frozen=True)
class KillStage:
    """Kill all that runs of this stage, and nothing else."""

    stage: str


@dataclass(frozen=True)
class RestartStages:
    """Start the next attempt of these stages, whose processes have all ended."""

    stages: tuple[str, ...]


@dataclass(frozen=True)
class ReplaceReader:
    """Open these streams in place of a stage that has failed, and close them: their writers wait for it in open."""

    stage: str
    streams: tuple[str, ...]


@dataclass(frozen=True)
class RecordEvent:
    """Append this event to the run's events. It is already part of the state."""

    event: Event


@dataclass(frozen=True)
class FinishRun:
    """Remove what is left, then bring this verdict back as an event."""

    event: RunFinished


Action = (
    StartStage
    | SignalStages
    | PassSignal
    | PassValues
    | TellStages
    | AskScheduler
    | KillStage
    | RestartStages
    | ReplaceReader
    | RecordEvent
    | FinishRun
)


class Decisions:
    """One call of `step`: the state as it changes, the actions as they are decided."""

    def __init__(self, state: RunState, t: float) -> None:
        self.state, self.t = state, t
        self.actions: list[Action] = []
        self.succeeded = False  # whether a stage has, in this call

    def decide(self, event: Event) -> None:
        """Let a decision be part of the state, and of the run's events."""
        self.state = apply(self.state, event)
        self.succeeded |= isinstance(event, StageSucceeded)
        self.actions.append(RecordEvent(event))
