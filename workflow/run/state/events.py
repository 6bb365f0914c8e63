"""What happened in a run, as typed events: what the supervisor observed. Times `t` are Unix seconds of the run's clock.

What follows from it is in `workflow.run.state.lifecycle_events`; `workflow.run.records.events_file` keeps both.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from workflow.formats.sides import Side
from workflow.launch.rank_ends import EndCause

Trouble = Literal["failed", "timeout", "misplaced", "copies", "other"]
Fault = Literal["misdirected", "unreachable"]

# A node that has given no sign of life for so long is reported.
REPORTED_S = 10.0
# Of `events.jsonl`, stated by its first event.
EVENTS_VERSION = 3


@dataclass(frozen=True)
class Event:
    """Base of all events. `stored` is False for those that only drive the lifecycle."""

    stored: ClassVar[bool] = True
    t: float


@dataclass(frozen=True)
class RunWarning(Event):
    """Base of the events that only warn: they are shown, kept in the state, and are notes of the report.

    A new one needs nothing but its `text`.
    """

    if TYPE_CHECKING:  # a field or a property of each

        @property
        def text(self) -> str:
            """For users."""

    @property
    def warns(self) -> bool:
        """Whether it is more than a record."""
        return True


@dataclass(frozen=True)
class RunStarted(Event):
    """The supervisor begins; `pid` is its process.

    `clock_offset_s`: all times of events are the monotonic clock plus this, so that a wall clock that is set later
    changes none of them. `boot` names the boot of `host` from which that clock counts. `visibility_s`: how long records
    of a stage on another node may take to become visible to the supervisor. `proves`: stages start when the placement
    is proved (`proof_taken`).
    """

    run: str
    plan_version: int
    pid: int
    host: str
    events_version: int = EVENTS_VERSION
    clock_offset_s: float = 0.0
    boot: str = ""
    visibility_s: float = 0.0
    proves: bool = False


@dataclass(frozen=True)
class ProofTaken(Event):
    """The placement was compared with the plan before the stages start (proof.json has all of it).

    `state`: `proved`, `differs` (warnings only), `refused`. `differences` are texts for users, errors first; `stage`
    and `aspect`, a key of `proof:`, are those of the first.
    """

    state: Literal["proved", "differs", "refused"]
    nodes: int
    ranks: int
    seconds: float
    differences: list[str] = field(default_factory=list)
    stage: str = ""
    aspect: str = ""


@dataclass(frozen=True)
class AllocationReceived(Event):
    """What the run has: `hosts` is their number, `end_time` in Unix seconds (None: no limit, or not known).

    `source`: `local`, or the scheduler of the batch job `job`. `notes` say what is not known, or less than the site
    has.
    """

    source: str
    job: str
    hosts: int
    end_time: float | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class StageStarted(Event):
    """The process of a stage runs; `pid` leads its process group, `argv` is the line that started it."""

    stage: str
    pid: int
    argv: list[str] = field(default_factory=list)


def begin_of_end(first_step: int, ends: Mapping[str, Mapping[str, int]], stage: str, stream: str) -> int:
    """The step at which a stage goes on with a stream. `ends`: stage → stream → the step, where it is another one than
    `first_step`."""
    return ends.get(stage, {}).get(stream, first_step)


@dataclass(frozen=True)
class StagesRestarted(Event):
    """The next attempt of these stages begins, at this step of their streams; `attempt` counts from 1.

    `ends`: stage → stream → the step at which the stage goes on with that stream, where it is another one. `skipped`:
    stage → the steps of what it reads that it skips, from now on and since earlier attempts.
    """

    stages: list[str]
    attempt: int
    first_step: int
    ends: dict[str, dict[str, int]] = field(default_factory=dict)
    skipped: dict[str, list[int]] = field(default_factory=dict)

    def begins(self, stage: str, stream: str) -> int:
        """The first step of a stage at one of its streams."""
        return begin_of_end(self.first_step, self.ends, stage, stream)


@dataclass(frozen=True)
class StepsDropped(Event):
    """The spool of a stream, which keeps the newest steps only, has no data of the steps before `first` any more."""

    stream: str
    first: int


@dataclass(frozen=True)
class SpoolGrows(RunWarning):
    """A warning: a spool that was to keep the newest steps of a stream only keeps all. `why`: of the file system."""

    stream: str
    why: str

    @property
    def text(self) -> str:
        """For users."""
        return f"the spool of {self.stream} keeps all its steps: the disk space of old ones cannot be freed: {self.why}"


@dataclass(frozen=True)
class StageCpu(Event):
    """The CPU time that all processes of a stage have used since its start. Of stages that keep no metrics only.

    `ready_s`: how long they were ready to run while other processes had the CPU; 0 where the system does not tell.
    """

    stage: str
    cpu_s: float
    ready_s: float = 0.0


@dataclass(frozen=True)
class StageWorked(Event):
    """A stage that has closed its streams has used CPU time since then: it does not hang."""

    stored: ClassVar[bool] = False
    stage: str


@dataclass(frozen=True)
class StageSuspended(Event):
    """A signal (SIGSTOP) has stopped processes of a stage, or they go on again. Looked for where no step is made."""

    stage: str
    suspended: bool


@dataclass(frozen=True)
class StreamOpening(Event):
    """A program that uses `workflow.stage` begins to open a stream: from now on its own records report on this end."""

    stream: str
    stage: str
    side: Side


@dataclass(frozen=True)
class StreamOffered(Event):
    """The writer is in open and waits for its readers."""

    stream: str
    stage: str


@dataclass(frozen=True)
class StreamTransport(Event):
    """The data plane that ADIOS2 chose, under the name in its log (evpath: TCP); `why` it is not the preferred one."""

    stream: str
    stage: str
    plane: str
    why: str = ""


@dataclass(frozen=True)
class TransportFault(Event):
    """What a `line` in the stderr of a stage says: it got, and dropped, a message for another process (`misdirected`),
    or could not fetch data from the memory of its writer (`unreachable`).
    """

    stage: str
    fault: Fault
    line: str


@dataclass(frozen=True)
class StreamOpened(Event):
    """One end is open."""

    stream: str
    stage: str
    side: Side


@dataclass(frozen=True)
class StreamProgress(Event):
    """Steps and bytes so far at one end."""

    stream: str
    stage: str
    side: Side
    steps: int
    bytes: int


@dataclass(frozen=True)
class StreamWaiting(Event):
    """A program is (or is no longer) inside a call on a stream that returns only when the other end has acted: it opens
    the stream, or asks for step `steps`, or writes that one into a full queue. Programs of `workflow.stage` report it.
    """

    stored: ClassVar[bool] = False
    stream: str
    stage: str
    side: Side
    steps: int
    waits: bool


@dataclass(frozen=True)
class StreamTrouble(Event):
    """Something is wrong at one of the stage's streams: `failed` (the other end is gone), `timeout`, `misplaced` (the
    program wrote a file in its place), `copies` (processes that are no ranks of one program write it) or `other`."""

    stream: str
    stage: str
    trouble: Trouble
    text: str


@dataclass(frozen=True)
class StreamHint(Event):
    """What a stage does otherwise than planned with a stream that it writes. It fails nothing, and may be why the
    readers wait or lack steps."""

    stream: str
    stage: str
    text: str


@dataclass(frozen=True)
class StageCut(Event):
    """A program that uses `workflow.stage` ends before its work is done, because the run is to be stopped."""

    stage: str


@dataclass(frozen=True)
class StreamClosed(Event):
    """One end is closed after `steps` steps; `complete` is False when the program left it before its end."""

    stream: str
    stage: str
    side: Side
    steps: int
    complete: bool
    bytes: int = 0


@dataclass(frozen=True)
class StageExited(Event):
    """The process of a stage ended, by itself (`code`) or by a signal. `note`: what else is known.

    After a failure: which writers of the stage were `alive` with all their processes, and which were `dying`: some of
    their ranks were gone, their launcher was not. Others have ended, or cannot be seen from here.
    `cpu_s`: the CPU time of all its processes; None where the system does not tell, e.g. of ranks on other nodes.
    """

    stage: str
    code: int | None
    signal: int | None
    note: str = ""
    alive: list[str] = field(default_factory=list)
    dying: list[str] = field(default_factory=list)
    cpu_s: float | None = None


@dataclass(frozen=True)
class RanksEnded(Event):
    """A launcher, or the scheduler through it, has said how ranks of a stage ended; the launcher may still run.

    `words`: the line that says so. `host` and `ranks` (`1`, `0-3`) as printed, "" where the line names none.
    `number`: the signal of ranks that were killed, the exit code of ranks that exited.
    """

    stage: str
    cause: EndCause
    words: str
    host: str = ""
    ranks: str = ""
    number: int | None = None


@dataclass(frozen=True)
class StageKilled(Event):
    """A stage has ended by a SIGKILL that the supervisor did not send; None and "" stand for what cannot be read.

    `peak_bytes`: the largest resident memory of one of its processes; `limit_bytes`: of its cgroup, or else the memory
    of the node. `cgroup_kills`: how many processes of its cgroup the kernel has killed for lack of memory since the
    stage was started; `cgroup_is_own`: whether only processes of this stage were seen in its cgroup. `is_here`: whether
    all its processes ran on this node. `guard`: which guard has killed them, and why; "" where none has.
    """

    stage: str
    is_here: bool = True
    peak_bytes: int | None = None
    limit_bytes: int | None = None
    cgroup: str = ""
    cgroup_kills: int | None = None
    cgroup_is_own: bool = False
    guard: str = ""


@dataclass(frozen=True)
class NodeSeen(RunWarning):
    """The guard on a node of the allocation has said its first word, or the first after a silence of `silence_s`
    seconds. `node` is the plan's index.
    """

    node: int
    host: str
    silence_s: float = 0.0

    @property
    def warns(self) -> bool:
        """Whether the silence was reported."""
        return self.silence_s >= REPORTED_S

    @property
    def text(self) -> str:
        """For users."""
        if not self.warns:
            return f"node {self.host} reports"
        return f"node {self.host} gave no sign of life for {self.silence_s:.0f} s; nothing was ended because of that"


@dataclass(frozen=True)
class NodeSilent(RunWarning):
    """The guard on a node has missed a word, and has said nothing for `silence_s` seconds: the node may be lost. A
    second one reports a silence that lasts."""

    node: int
    host: str
    silence_s: float = 0.0

    @property
    def warns(self) -> bool:
        """Whether it lasts."""
        return self.silence_s >= REPORTED_S

    @property
    def text(self) -> str:
        """For users."""
        return f"node {self.host} is silent since {self.silence_s:.0f} s"


@dataclass(frozen=True)
class NodeLost(Event):
    """The guard on a node has said nothing for `silence_s`, while others have. `last`: what it was known to run.

    `why`: what made it a verdict before the limit of `deadlines.node`: something that waited for the node has failed,
    or the scheduler says so; "" after the limit.
    """

    node: int
    host: str
    silence_s: float
    last: str
    why: str = ""

    @property
    def silent_since(self) -> float:
        """When its last sign of life came (Unix s)."""
        return self.t - self.silence_s


@dataclass(frozen=True)
class NodesUnwatched(RunWarning):
    """A warning: guards of nodes could not be started, have ended, or see no heartbeat in the run directory; the run
    goes on."""

    text: str


@dataclass(frozen=True)
class NoRankStarted(Event):
    """A launcher has started no rank of a stage within the time that the streams have to be open."""

    stage: str
    launcher: str


@dataclass(frozen=True)
class FewerWriters(RunWarning):
    """A warning: a file has fewer writers than its stage has ranks."""

    stream: str
    stage: str
    writers: int
    ranks: int

    @property
    def text(self) -> str:
        """For users."""
        return (
            f"{self.stream} has {self.writers} writer{'' if self.writers == 1 else 's'}, and {self.stage} {self.ranks} "
            "ranks: what the others have is missing, unless the program itself gathers it"
        )


@dataclass(frozen=True)
class ProcessesLeft(RunWarning):
    """A warning: a stage has ended with exit code 0, and processes that it has started have not. `programs`: a name for
    each; `killed`: they were ended with the run."""

    stage: str
    programs: list[str]
    killed: bool

    @property
    def text(self) -> str:
        """For users."""
        is_one = len(self.programs) == 1
        what = f"{len(self.programs)} process{'' if is_one else 'es'}"
        names = ", ".join(dict.fromkeys(self.programs))
        if self.killed:
            were = "was" if is_one else "were"
            return f"at the end {what} {were} killed that {self.stage} had left running ({names})"
        return (
            f"{self.stage} has ended, {what} that it started still run{'s' if is_one else ''} ({names}), to be killed "
            "at the end of the run: let the program wait for what it starts (in a shell, `wait`)"
        )


@dataclass(frozen=True)
class GuardActed(RunWarning):
    """The guard on a node has ended all processes of the run there. `why`: what it had missed."""

    host: str
    why: str

    @property
    def text(self) -> str:
        """For users."""
        return f"the guard on {self.host} has ended all processes of the run there: {self.why}"


@dataclass(frozen=True)
class LoopPaused(RunWarning):
    """The supervisor has seen nothing for the last `seconds`: no limit of a stage counts them.

    `stopped_s`: so long of that its process was stopped; else one pass took so long, for an unknown reason.
    """

    seconds: float
    stopped_s: float = 0.0

    @property
    def text(self) -> str:
        """For users."""
        if self.stopped_s >= self.seconds / 2:
            return f"the supervisor was stopped for {self.seconds:.0f} s (SIGSTOP, or its job was suspended)"
        return (
            f"the supervisor saw nothing for {self.seconds:.0f} s: it waited for a file system, copied large files, or "
            "had no CPU; nothing was ended because of that"
        )


@dataclass(frozen=True)
class NodeRanks(RunWarning):
    """A warning: ranks of a stage are not where the plan has them, as a node's guard sees them. `ranks`: [rank, process
    id, processors that it may use]; `text` is for users.
    """

    node: int
    host: str
    stage: str
    ranks: list[tuple[int, int, str]]
    text: str


@dataclass(frozen=True)
class SchedulerSaid(Event):
    """What the scheduler says of the job that the run is in: its state in the scheduler's word, and the whole line."""

    job: str
    state: str
    raw: str = ""


@dataclass(frozen=True)
class StopPlanned(Event):
    """The allocation ends at `end`, and the run is to be stopped at `at` (both Unix seconds) if it has not ended."""

    at: float
    end: float


@dataclass(frozen=True)
class Interrupted(Event):
    """A request to stop the run: Ctrl-C, SIGTERM, or a closed terminal."""

    signal: str


@dataclass(frozen=True)
class Requested(Event):
    """A request in the run's control file: to stop as by Ctrl-C, or to kill all that runs; `by` is `user@host`."""

    request: Literal["stop", "kill"]
    by: str


@dataclass(frozen=True)
class SteeringAsked(Event):
    """Somebody asks for new values of a stage: `user@host`, or another stage. `step`: the first one that is to be
    computed with them, counted from 0; None: the next one."""

    id: str
    stage: str
    values: dict[str, bool | int | float | str]
    by: str
    step: int | None = None


@dataclass(frozen=True)
class StageSteered(Event):
    """A stage computes this step and those that follow with `new` values instead of the `old` ones, on all ranks.

    `exact` is False for a program that reads them from a file: it takes them at about this step.
    """

    id: str
    stage: str
    step: int
    old: dict[str, bool | int | float | str]
    new: dict[str, bool | int | float | str]
    by: str
    exact: bool = True


@dataclass(frozen=True)
class SteeringRefused(Event):
    """A stage does not get the values that were asked for; it goes on as before."""

    id: str
    stage: str
    values: dict[str, bool | int | float | str]
    by: str
    reason: str


@dataclass(frozen=True)
class Tick(Event):
    """Time passed."""

    stored: ClassVar[bool] = False


@dataclass(frozen=True)
class RecordsLost(RunWarning):
    """Records of a stage could not be written, or of the supervisor where `stage` is empty; the run goes on."""

    stage: str
    text: str


@dataclass(frozen=True)
class Cleaned(Event):
    """Files that were removed, or marked as ended; relative to the run directory."""

    paths: list[str]


class Clock:
    """Gives the times of one run's events: Unix seconds at its start, counted on by the monotonic clock.

    A wall clock can be set: by hours, forwards or backwards. Deadlines must not pass, or fail to pass, because of that.
    `offset_s` is what is added to the monotonic clock.
    """

    def __init__(self) -> None:
        self.offset_s = time.time() - time.monotonic()

    def now(self) -> float:
        """Unix seconds, as if nobody had set the wall clock since."""
        return time.monotonic() + self.offset_s


def bring_between(events: Iterable[Event], earliest: float, latest: float) -> list[Event]:
    """The events, with their times moved into these bounds where they lie outside. Pure.

    A stage writes times of its own wall clock, which may differ from the run's: it may have been set, or be that of
    another node. What was not in a file at `earliest` and was there at `latest` has happened between these times.
    """
    return [
        event if earliest <= event.t <= latest else replace(event, t=min(max(event.t, earliest), latest))
        for event in events
    ]
