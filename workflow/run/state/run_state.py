"""The state of a run at one moment: a fold of its events over its plan. Frozen; it has all that a display needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from workflow.formats.sides import Side
from workflow.plan.plan_model import Plan
from workflow.plan.visible_steps import visibility
from workflow.run.state.events import (
    AllocationReceived,
    NodeLost,
    NodeSilent,
    ProofTaken,
    RanksEnded,
    RunWarning,
    SchedulerSaid,
    StageKilled,
    StagesRestarted,
    TransportFault,
    Trouble,
)
from workflow.run.state.lifecycle_events import NodeReplaced, RestartDecided, RunCause, RunFinished, StageSilent

Status = Literal[
    "waiting", "starting", "running", "stopping", "restarting", "succeeded", "failed", "stopped",
]  # fmt: skip
EndKey = tuple[str, str, Side]  # stream, stage, side

KEPT_WARNINGS = 100
KEPT_WORDS = 16  # lines of a launcher about the ends of its ranks


@dataclass(frozen=True)
class EndState:
    """One end of a stream. Times are Unix seconds, None where it has not happened."""

    stream: str
    stage: str
    side: Side
    live: bool  # its opening and its steps are seen when they happen
    counted: bool  # its steps are known at the latest when it is closed
    reported: bool = False  # its stage tells of it by itself, with `workflow.stage`
    opening: float | None = None
    offered: float | None = None
    opened: float | None = None
    first_opened: float | None = None  # by an earlier attempt of its stage, whose steps count, too
    steps: int = 0
    bytes: int = 0
    last_step: float | None = None
    next_written: float | None = None  # of a reading end: when a step was written for the first time after its last one
    waiting: float | None = None  # since when its program is inside a call that needs the other end, as it reports
    closed: float | None = None
    reopened: float | None = None  # after it had been closed, and not closed again
    complete: bool = False
    from_spool: bool = False  # of a reading end: its stage was started again, and gets its steps from the spool
    not_awaited: bool = False  # of a reading end: its writer was started again without it, and does not wait for it
    trouble: Trouble | None = None
    trouble_text: str = ""
    hint: str = ""  # of a writing end: what may be why others wait for it, or lack steps
    plane: str = ""  # SST's data plane, at the writing end; why it is not the preferred one
    plane_why: str = ""

    @property
    def last_sign(self) -> float | None:
        """When it last opened, stepped or closed."""
        return max((t for t in (self.opened, self.last_step, self.closed) if t is not None), default=None)

    @property
    def begun(self) -> float | None:
        """The begin of the time over which its throughput is taken: when it was first opened, by whichever attempt."""
        return self.opened if self.first_opened is None else self.first_opened

    @property
    def last_moved(self) -> float | None:
        """The end of the time over which its throughput is taken: its close, or its last step."""
        return self.last_step if self.closed is None else self.closed

    @property
    def untaken_since(self) -> float | None:
        """Of a reading end: when the first step was written that it has not taken; None when it has taken all."""
        if self.next_written is not None and self.last_step is not None and self.next_written <= self.last_step:
            return None
        return self.next_written


@dataclass(frozen=True)
class StageState:
    """One stage."""

    name: str
    status: Status = "waiting"
    attempt: int = 1  # more than 1: it was started again
    began: float | None = None  # the start of its first attempt, where `started` is that of another one
    pid: int | None = None
    started: float | None = None
    opened: float | None = None
    exited: float | None = None
    code: int | None = None
    signal: int | None = None
    note: str = ""
    alive: tuple[str, ...] = ()  # after a failed stage has exited: stages all of whose processes were alive
    dying: tuple[str, ...] = ()  # stages some of whose ranks were gone then
    kill: StageKilled | None = None  # what is known of a SIGKILL
    said: tuple[RanksEnded, ...] = ()  # what its launcher has said of its ranks' ends, before the stop
    reason: str = ""
    through: str = ""  # of one that has failed: the stage without whose end it would not have
    cut: bool = False  # whether it ends before its work is done: it says so, or the stop has sent it a signal
    failed: float | None = None  # when; one that still runs then is a tap that hangs
    ignored: bool = False  # the others go on without it
    killed: bool = False  # all that was left of it then
    replaced: bool = False  # another process opens what it had not opened, because the writers wait for that
    fault: TransportFault | None = None  # the first one in its stderr
    worked: float | None = None  # when it was last seen to use CPU time, after it has closed its streams
    suspended: float | None = None  # since when it is known that a signal has stopped processes of it
    checkpoint_asked: float | None = None  # when it was last asked for a checkpoint by a signal
    silence: StageSilent | None = None  # the last warning that all wait for this stage, until it makes a step

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to come from it."""
        return self.status in ("succeeded", "failed", "stopped")

    @property
    def runs(self) -> bool:
        """Whether it has a process."""
        return self.started is not None and self.exited is None

    @property
    def first_started(self) -> float | None:
        """When its first attempt was started."""
        return self.started if self.began is None else self.began

    @property
    def awaits_verdict(self) -> bool:
        """Whether it has exited and is to be judged: no other attempt follows."""
        return self.exited is not None and not self.is_over and self.status != "restarting"


@dataclass(frozen=True)
class Behind:
    """A reading end has taken `steps`, and its writer has written more than these and its queue since then."""

    steps: int
    since: float


@dataclass(frozen=True)
class RunState:
    """The whole run. `finished` holds the verdict, in the last state only."""

    plan: Plan
    stages: Mapping[str, StageState]
    ends: Mapping[EndKey, EndState]
    # Subsets of `stages` and `ends`, so that a decision costs as much as what has changed.
    going: frozenset[str]  # stages that are not over
    unjudged: tuple[str, ...] = ()  # stages that have exited and are not over, in the order of their exits
    failed: tuple[str, ...] = ()  # in the order in which they failed
    timeouts: tuple[EndKey, ...] = ()  # reading ends whose stage reported that it waited for too long
    next_deadline: float = 0.0  # no deadline can pass before this time
    deadlock_check: float | None = None  # when a wait that a stage has reported may prove a deadlock; None: none may
    checked: float = -math.inf  # when the deadlines were last compared with all stages
    t: float = 0.0  # of the last event
    run: str = ""
    pid: int | None = None
    host: str = ""
    started: float | None = None
    asked: float | None = None  # when the scheduler was asked about the job
    visibility_s: float = 0.0  # how old the records of a stage on another node may be
    allocation: AllocationReceived | None = None
    proving: bool = False  # stages wait for the proof of their placement
    proof: ProofTaken | None = None
    stopping: float | None = None  # since the stop was requested
    rung: int = 0  # how many steps of the stop's ladder were taken
    # After a failure, stages that could go on without what has failed: they are told before they get signals.
    unaffected: frozenset[str] = frozenset()
    interrupted: str = ""
    cancelled: bool = False  # whether that was a request to stop, which is no hurry
    culprit: str = ""
    reason: str = ""
    cause: RunCause = ""
    stop_at: float | None = None  # when the run is to be stopped because its allocation ends at `ends_at`
    ends_at: float | None = None
    silent: Mapping[int, NodeSilent] = field(default_factory=dict)  # nodes that may be lost
    pauses: tuple[tuple[float, float], ...] = ()  # (from, to): when the supervisor has seen nothing, the newest
    lost: tuple[NodeLost, ...] = ()
    spares: Mapping[int, str] = field(default_factory=dict)  # nodes that run nothing and have said so → their host
    moves: tuple[NodeReplaced, ...] = ()  # of lost nodes to spare ones
    scheduler: SchedulerSaid | None = None  # the last that it has said of the job
    ended_steps: tuple[RanksEnded, ...] = ()  # what was said of steps that the scheduler has ended, or may have
    behind: Mapping[EndKey, Behind] = field(default_factory=dict)  # reading ends that their writers have left behind
    restarts: tuple[RestartDecided, ...] = ()  # all that were decided
    restarting: tuple[RestartDecided, ...] = ()  # those whose stages have not been started yet
    attempts: tuple[StagesRestarted, ...] = ()  # all that have begun, but the first ones
    spool_first: Mapping[str, int] = field(default_factory=dict)  # stream → the first step that its spool still has
    skipped: Mapping[str, Sequence[int]] = field(default_factory=dict)  # stage → steps of what it reads
    # Stage → the values that it was given while it runs, by name; without those that the pipeline file changes.
    steered: Mapping[str, Mapping[str, bool | int | float | str]] = field(default_factory=dict)
    finished: RunFinished | None = None
    cleaned: tuple[str, ...] = ()
    warnings: tuple[RunWarning, ...] = ()  # the newest of them

    @property
    def is_told(self) -> bool:
        """Whether the run is stopped by telling its stages, or some of them, before they get signals."""
        return self.stopping is not None and (
            self.cause == "end_of_allocation"
            or (self.cancelled and not self.culprit and not self.cause)
            or bool(self.unaffected)
        )

    def waited_s(self, since: float) -> float:
        """The seconds from then to now in which the supervisor has looked: limits of stages count no others. What
        happened meanwhile is seen after a pause only."""
        return self.t - since - self.paused_s(since)

    def paused_s(self, since: float) -> float:
        """The seconds from then to now in which it has not."""
        return sum(max(0.0, end - max(begin, since)) for begin, end in self.pauses)

    def back(self, limit_s: float) -> float:
        """What began before this time has lasted longer than the limit (see `waited_s`)."""
        begin = self.t - limit_s
        for pause, end in reversed(self.pauses):
            if end > begin:
                begin -= end - pause
        return begin

    @property
    def job(self) -> str:
        """The scheduler's job that the run is in; "" where there is none."""
        return "" if self.allocation is None else self.allocation.job

    def writer(self, stream: str) -> EndState:
        """The writing end. Raises KeyError."""
        return self.ends[stream, self.plan.stream(stream).writer, "write"]

    def readers(self, stream: str) -> list[EndState]:
        """The reading ends, in the plan's order."""
        return [self.ends[stream, stage, "read"] for stage in self.plan.stream(stream).readers]

    def ends_of(self, stage: str) -> list[EndState]:
        """All ends of a stage, in the plan's order."""
        return [self.ends[end.stream, stage, end.side] for end in self.plan.stage(stage).ends]

    def queue(self, stream: str) -> int | None:
        """Steps written that the slowest reader has not finished, at most the queue's limit; None for files."""
        limit = self.plan.stream(stream).queue
        if limit is None:
            return None
        read = min((end.steps for end in self.readers(stream) if end.closed is None), default=None)
        return 0 if read is None else min(max(0, self.writer(stream).steps - read), limit.limit)

    def dropped(self, stream: str, reader: str) -> int | None:
        """Steps that a full queue discarded for a reader; None until both ends are closed."""
        writer, end = self.writer(stream), self.ends[stream, reader, "read"]
        if writer.closed is None or end.closed is None or not (writer.counted and end.counted):
            return None
        return max(0, writer.steps - end.steps)

    def is_log_missing(self, end: EndState) -> bool:
        """Whether nothing is in the log of a program about an end that the other end shows to be open: its output may
        go elsewhere. Then nothing is known of it but its exit code."""
        if end.reported or end.opened is not None or self.plan.stream(end.stream).traits.counted_by != "log":
            return False
        if end.side == "write":
            return any(reader.steps or reader.complete for reader in self.readers(end.stream))
        # A writer waits for its only reader. One of which something else is known has a log.
        is_awaited = len(self.readers(end.stream)) == 1 and not end.not_awaited
        silent = all(each.opened is None and each.offered is None for each in self.ends_of(end.stage))
        return is_awaited and silent and self.writer(end.stream).opened is not None

    def left_since(self, name: str) -> float | None:
        """Since when a stage that runs has closed all its streams; None where that is not so, or not known."""
        closed = [end.closed for end in self.ends_of(name)]
        times = [t for t in closed if t is not None]
        return max(times) if times and len(times) == len(closed) and self.stages[name].runs else None

    def unseen_since(self, name: str) -> float | None:
        """Since when nothing but its CPU time shows that a stage works: it has closed all its streams, or has none and
        its CPU time is seen. None where that is not so."""
        stage = self.stages[name]
        if not self.plan.stage(name).ends:
            return stage.started if stage.runs and stage.worked is not None else None
        return self.left_since(name)

    def untaken(self, stream: str, reader: str) -> int | None:
        """Steps that were written and never arrived at a live reader that is gone; None where that is not so, or not
        known: the reader has closed the stream, or it lives, or its steps are not counted."""
        writer, end = self.writer(stream), self.ends[stream, reader, "read"]
        if end.closed is not None or not self.is_gone(reader) or not (writer.counted and end.counted):
            return None
        return max(0, writer.steps - end.steps) if self.plan.stream(stream).coupling == "live" else None

    def is_gone(self, name: str) -> bool:
        """Whether nothing more can come from a stage: it has ended, or a node on which it ran was lost."""
        stage = self.stages[name]
        return (stage.exited is not None and stage.status != "restarting") or bool(self.lost_nodes(name))

    def goes_without(self, name: str) -> bool:
        """Whether the others go on without a stage, of which nothing runs any more."""
        return self.stages[name].ignored and not self.stages[name].runs

    def lost_nodes(self, name: str) -> list[NodeLost]:
        """The lost nodes on which a stage has ranks."""
        return [lost for lost in self.lost if self.runs_on(name, lost.node)]

    def lost_under(self, name: str) -> list[NodeLost]:
        """The lost nodes on which a stage had ranks when they fell silent."""
        stage = self.stages[name]
        return [
            lost for lost in self.lost_nodes(name)
            if stage.started is not None and (stage.exited is None or stage.exited >= lost.silent_since)
        ]  # fmt: skip

    @property
    def replaced(self) -> dict[int, int]:
        """Nodes of the plan that were lost → those of the allocation that are in their places."""
        return {each.node: each.by for each in self.moves}

    def runs_on(self, name: str, node: int) -> bool:
        """Whether ranks of a stage are placed on this node of the allocation."""
        replaced = self.replaced
        planned = next((place for place, by in replaced.items() if by == node), node)
        is_left = node in replaced and planned == node
        return not is_left and self.plan.stage(name).placement.has_node(planned)

    def left_nodes(self, name: str) -> list[NodeLost]:
        """The lost nodes on which a stage has ranks, or had them until a spare one took the place."""
        left = {move.host for move in self.moves_of(name)}
        return [lost for lost in self.lost if lost.host in left or self.runs_on(name, lost.node)]

    def moves_of(self, name: str) -> list[NodeReplaced]:
        """The moves of nodes on which a stage has ranks."""
        return [move for move in self.moves if self.plan.stage(name).placement.has_node(move.node)]

    def steps_here(self, end: EndState) -> int:
        """The steps of an end in this part of the run; the state counts those of all parts, as programs do."""
        return end.steps - self.plan.stage(end.stage).end(end.stream, end.side).part_step

    def steps(self, stream: str) -> tuple[int, dict[str, int]]:
        """(steps written, steps read by each reader). What was read has been written, seen or not."""
        read = {end.stage: end.steps for end in self.readers(stream)}
        return max(self.writer(stream).steps, *read.values(), 0), read


def initial_state(plan: Plan) -> RunState:
    """Before anything happened."""
    ends: dict[EndKey, EndState] = {}
    for stage in plan.stages:
        for end in stage.ends:
            live, counted = visibility(stage, end)
            reported = stage.observed == "metrics"
            key = end.stream, stage.name, end.side
            ends[key] = EndState(*key, live, counted, reported, steps=end.first_step)
    stages = {stage.name: StageState(stage.name) for stage in plan.stages}
    finished = plan.part.finished if plan.part is not None else {}
    for name, steps in finished.items():
        stages[name] = StageState(name, "succeeded")
        for end in plan.stage(name).ends:
            key = end.stream, name, end.side
            ends[key] = replace(ends[key], counted=True, steps=steps[end.stream], closed=0.0, complete=True)
    skipped = plan.part.skipped if plan.part is not None else {}
    going = frozenset(stages) - frozenset(finished)
    return RunState(plan, stages, ends, going, skipped=skipped)
