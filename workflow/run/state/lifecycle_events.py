"""What `workflow.run.lifecycle` has decided, as typed events: the outcome of each stage, and the verdict of the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from workflow.formatting import duration
from workflow.launch.rank_ends import EndCause
from workflow.run.state.events import Event, RunWarning

Deadline = Literal["start", "step", "exit", "run"]
# stopped: in order, before the end of the allocation.
Outcome = Literal["succeeded", "failed", "interrupted", "stopped"]
OUTCOMES: tuple[str, ...] = get_args(Outcome)
# What ended a run that did not succeed, where that is more than the failure of a program; "" where it is not.
RunCause = Literal["", EndCause, "lost_steps", "end_of_allocation", "supervisor_killed"]
# Those that are not the fault of the programs.
FROM_OUTSIDE: frozenset[RunCause] = frozenset(
    {"node_lost", "preempted", "time_limit", "cancelled", "end_of_allocation", "requeued", "supervisor_killed"}
)


@dataclass(frozen=True)
class StageOpen(Event):
    """All streams of a stage are open."""

    stage: str


@dataclass(frozen=True)
class StageSucceeded(Event):
    """A stage ended, its streams are complete and the counts agree."""

    stage: str


@dataclass(frozen=True)
class StageFailed(Event):
    """A stage did not do what the plan says; `reason` is a text for users.

    `through`: the stage without whose end this one would not have failed; "" where it failed by itself.
    """

    stage: str
    reason: str
    through: str = ""


@dataclass(frozen=True)
class StageIgnored(Event):
    """The others go on without a stage that has failed, for good; `why` it is not started again, where it might be.

    `streams`: those that it wrote: what there is of them is all.
    """

    stage: str
    streams: list[str] = field(default_factory=list)
    why: str = ""


@dataclass(frozen=True)
class StageStopped(Event):
    """A stage ended because the run was stopped, or was never started.

    `streams`: those that it would have written, where it did not begin (again).
    """

    stage: str
    streams: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class DeadlinePassed(Event):
    """Nothing happened for too long; `diagnosis` is the chain of waits, `stage` the one at its end."""

    deadline: Deadline
    diagnosis: str
    stage: str


@dataclass(frozen=True)
class DeadlockFound(Event):
    """Stages wait for each other and none can continue; `diagnosis` says for what, `stage` is the cause."""

    diagnosis: str
    stage: str


@dataclass(frozen=True)
class StageSilent(RunWarning):
    """A warning: nothing has moved since `since`; `diagnosis` says who waits for whom, `stage` for whom all wait.

    `left`: the stage has closed its streams and does not end; it has used no CPU time since then.
    """

    stage: str
    since: float
    diagnosis: str
    left: bool = False

    @property
    def text(self) -> str:
        """`no step for 20 min: saxs waits for step 41 of atoms; md has been computing for …`."""
        what = "sign of work" if self.left else "step"
        return f"no {what} for {duration(self.t - self.since)}: {self.diagnosis}"


@dataclass(frozen=True)
class CheckpointRequested(Event):
    """The program of a stage gets the signal on which it writes a checkpoint."""

    stage: str


@dataclass(frozen=True)
class RestartDecided(Event):
    """`stage` has failed at this step, and `stages`, itself included, are started again, not before `at` (Unix s).
    `from_outside`: a signal has ended it that says nothing of the step. `skips`: the step, if it is to be skipped."""

    stage: str
    stages: list[str]
    reason: str
    step: int
    at: float
    from_outside: bool = False
    skips: int | None = None


@dataclass(frozen=True)
class NodeReplaced(Event):
    """A spare node takes the place of a lost one, `node` of the plan, for the stages that are started again there.

    `by`: its index in the allocation. The other nodes of these stages stay theirs.
    """

    node: int
    host: str
    by: int
    by_host: str


@dataclass(frozen=True)
class StopRequested(Event):
    """All stages are to end; `stage` is the one that failed first, if any."""

    reason: str
    stage: str = ""
    cause: RunCause = ""


@dataclass(frozen=True)
class RunFinished(Event):
    """The verdict. `words`: what the scheduler, or the launcher, has said of its cause; `lacks`: of a run that has
    succeeded, what has failed in it: `5 of 6 members`, `without look`."""

    state: Outcome
    exit_code: int
    reason: str
    stage: str
    cause: RunCause = ""
    words: list[str] = field(default_factory=list)
    lacks: str = ""
