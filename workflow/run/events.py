"""What happened in a run, as typed events, and the append-only file that holds them: `events.jsonl`.

Facts are what the supervisor observed, decisions are what `workflow.run.lifecycle` derived from them. Times `t` are
Unix seconds. The file holds one JSON object a line, `{"event": "stage_started", "t": …, …}`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from workflow.errors import RunError
from workflow.formats.json_lines import LineWriter, to_record
from workflow.formats.metrics_lines import interval_s
from workflow.formats.sides import Side
from workflow.formats.versions import NewerVersionError, check_version
from workflow.launch.rank_ends import EndCause

Deadline = Literal["start", "step", "run"]
Trouble = Literal["failed", "timeout", "other"]
# stopped: in order, before the end of the allocation.
Outcome = Literal["succeeded", "failed", "interrupted", "stopped"]
Fault = Literal["misdirected", "unreachable"]
# What ended a run that did not succeed, where that is more than the failure of a program; "" where it is not.
RunCause = Literal["", EndCause, "lost_steps", "end_of_allocation", "requeued", "supervisor_killed"]
EVENTS_FILE = "events.jsonl"
# Version 3 has the CPU time of stages (`stage_cpu`, and `cpu_s` of `stage_exited`), and the calls in which stages wait
# (`stream_waiting`). Version 2 states its version, and has less and less progress; version 1 has two lines of an end a
# second.
EVENTS_VERSION = 3
# The longest interval between two lines of progress of one end: so old may its counts in the file be.
LONGEST_INTERVAL_S = 150.0
# How often to look whether progress that was held back is due.
DUE_CHECK_S = 1.0


@dataclass(frozen=True)
class Event:
    """Base of all events. `stored` is False for those that only drive the lifecycle."""

    stored: ClassVar[bool] = True
    t: float


@dataclass(frozen=True)
class RunStarted(Event):
    """The supervisor begins."""

    run: str
    plan_version: int
    pid: int
    host: str
    events_version: int = 1
    # All times of events are the monotonic clock plus this: a wall clock that is set later changes none of them.
    clock_offset_s: float = 0.0
    # How long records of a stage on another node may take to become visible to the supervisor.
    visibility_s: float = 0.0
    proves: bool = False  # stages start when the placement is proved (`ProofTaken`)


@dataclass(frozen=True)
class ProofTaken(Event):
    """The placement was compared with the plan before the stages start (proof.json has all of it).

    `state`: `proved`, `differs` (warnings only), `refused`. `differences` are texts for users, errors first; `stage` is
    that of the first.
    """

    state: Literal["proved", "differs", "refused"]
    nodes: int
    ranks: int
    seconds: float
    differences: list[str] = field(default_factory=list)
    stage: str = ""


@dataclass(frozen=True)
class AllocationReceived(Event):
    """What the run has: `hosts` is their number, `end_time` in Unix seconds (None: no limit, or not known).

    `source` and `job` are those of `launch.allocation`; `notes` say what is not known, or less than the site has.
    """

    source: str
    job: str
    hosts: int
    end_time: float | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class StageStarted(Event):
    """The process of a stage runs; `pid` leads its process group, `argv` is the line that started it.

    Of stages that one line starts, the first one has it.
    """

    stage: str
    pid: int
    argv: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class StageCpu(Event):
    """The CPU time that all processes of a stage have used since its start. Of stages that keep no metrics only.

    `ready_s`: how long they were ready to run while other processes had the CPU; 0 where the system does not tell.
    """

    stage: str
    cpu_s: float
    ready_s: float = 0.0


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
    """The stage met an error on one of its streams: `failed` (the other end is gone), `timeout` or `other`."""

    stream: str
    stage: str
    trouble: Trouble
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
    of the node. `cgroup_kills`, `node_kills`: how many processes of its cgroup, and of this node, the kernel has killed
    for lack of memory since the stage was started; `cgroup_is_own`: whether only processes of this stage were seen in
    its cgroup. `log`: what the kernel's log has about its processes. `is_here`: whether all its processes ran on this
    node.
    """

    stage: str
    is_here: bool = True
    peak_bytes: int | None = None
    limit_bytes: int | None = None
    cgroup: str = ""
    cgroup_kills: int | None = None
    cgroup_is_own: bool = False
    node_kills: int | None = None
    log: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class NodeSeen(Event):
    """The guard on a node of the allocation has said its first word, or the first after a silence. `node` is the plan's
    index.
    """

    node: int
    host: str


@dataclass(frozen=True)
class NodeSilent(Event):
    """The guard on a node has missed a word: the node may be lost."""

    node: int
    host: str


@dataclass(frozen=True)
class NodeLost(Event):
    """The guard on a node has said nothing for `silence_s`, while others have. `last`: what it was known to run."""

    node: int
    host: str
    silence_s: float
    last: str


@dataclass(frozen=True)
class NodesUnwatched(Event):
    """A warning: guards of nodes could not be started, have ended, or see no heartbeat in the run directory; the run
    goes on."""

    text: str


@dataclass(frozen=True)
class NodeRanks(Event):
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
class Tick(Event):
    """Time passed."""

    stored: ClassVar[bool] = False


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
class StageStopped(Event):
    """A stage ended because the run was stopped, or was never started."""

    stage: str


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
class StageSilent(Event):
    """A warning: nothing has moved since `since`; `diagnosis` says who waits for whom, `stage` for whom all wait."""

    stage: str
    since: float
    diagnosis: str


@dataclass(frozen=True)
class RecordsLost(Event):
    """Records of a stage could not be written, or of the supervisor where `stage` is empty; the run goes on."""

    stage: str
    text: str


@dataclass(frozen=True)
class StopRequested(Event):
    """All stages are to end; `stage` is the one that failed first, if any."""

    reason: str
    stage: str = ""
    cause: RunCause = ""


@dataclass(frozen=True)
class Cleaned(Event):
    """Files that were removed, or marked as ended; relative to the run directory."""

    paths: list[str]


@dataclass(frozen=True)
class RunFinished(Event):
    """The verdict. `words`: what the scheduler, or the launcher, has said of its cause."""

    state: Outcome
    exit_code: int
    reason: str
    stage: str
    cause: RunCause = ""
    words: list[str] = field(default_factory=list)


def _name(kind: type[Event]) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).lower()


NAMES: dict[type[Event], str] = {kind: _name(kind) for kind in Event.__subclasses__()}
KINDS: dict[str, type[Event]] = {name: kind for kind, name in NAMES.items()}


def to_line(event: Event) -> str:
    """One line of the file, with its newline."""
    return json.dumps({"event": NAMES[type(event)], **dataclasses.asdict(event)}, ensure_ascii=False) + "\n"


def from_record(record: dict[str, Any]) -> Event | None:
    """The event of a record; None when it is of a kind or a shape that this version does not know."""
    kind = KINDS.get(str(record.get("event")))
    if kind is None:
        return None
    names = {field.name for field in dataclasses.fields(kind)}
    try:
        return kind(**{key: value for key, value in record.items() if key in names})
    except TypeError:
        return None


def read_events(run_dir: Path) -> Iterator[Event]:
    """The events of a run, oldest first.

    A last line without its newline is still being written, or its writer was killed: it is left out, and
    so are lines that cannot be read. Raises RunError when the run has no events file, or one of a newer version.
    """
    path = run_dir / EVENTS_FILE
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RunError(f"{run_dir}: no events: {error.strerror}", "was this run ever started?") from error
    records = (to_record(line) for line in text.split("\n")[:-1])
    yield from to_events((record for record in records if record is not None), path)


def to_events(records: Iterable[dict[str, Any]], path: Path) -> Iterator[Event]:
    """The events of these records of a file. Raises RunError when they are of a newer version."""
    for record in records:
        if record.get("event") == NAMES[RunStarted]:
            _check_events_version(record, path)
        event = from_record(record)
        if event is not None:
            yield event


def _check_events_version(record: dict[str, Any], path: Path) -> None:
    """Raises RunError when `run_started` states a newer version."""
    try:
        check_version(record, "events_version", EVENTS_VERSION, path)
    except NewerVersionError as error:
        raise RunError(str(error)) from error


class EventLog:
    """Appends events to the run's file; no error of the file system is raised (see `LineWriter`).

    Of the progress of one end it writes less and less often, so that the file of a long run stays small: an event at
    intervals that grow with the time, up to 150 s, and the last one before the verdict. Progress counts from the
    beginning, so that nothing is missing from the totals. Progress that was held back is written when its interval is
    over, with whichever event comes then (`Tick` at the latest).
    """

    def __init__(self, run_dir: Path) -> None:
        self.path = run_dir / EVENTS_FILE
        self._problem: OSError | None = None
        self._lines = LineWriter(self.path, self._note, self._to_note)
        self._began: float | None = None
        self._t = 0.0
        self._written: dict[tuple[str, str, Side], float] = {}
        self._held: dict[tuple[str, str, Side], StreamProgress] = {}
        self._checked = 0.0

    def write(self, event: Event) -> None:
        """Append one event, unless it is of a kind that is not stored, and the progress that is due."""
        if event.t - self._checked >= DUE_CHECK_S:
            self._checked = event.t
            self._write_due(event.t)
        if not event.stored:
            return
        self._t = event.t
        self._began = self._began or event.t
        if isinstance(event, RunStarted):
            event = dataclasses.replace(event, events_version=EVENTS_VERSION)
        elif isinstance(event, StreamProgress) and self._is_early(event):
            return
        elif isinstance(event, StreamClosed):
            self._held.pop((event.stream, event.stage, event.side), None)
        elif isinstance(event, RunFinished):
            for held in self._held.values():
                self._lines.append(to_line(held))
        self._lines.append(to_line(event))

    def take_problem(self) -> RecordsLost | None:
        """The first error of this file as an event, once."""
        error, self._problem = self._problem, None
        if error is None:
            return None
        text = f"{self.path.name} cannot be written: {error.strerror}; the run goes on"
        return RecordsLost(self._t, "", text)

    def close(self) -> None:
        """Try once more to write what could not be written, and close the file."""
        self._lines.close()

    def _write_due(self, now: float) -> None:
        interval = self._interval_s(now)
        for key, event in list(self._held.items()):
            if now - self._written[key] >= interval:
                del self._held[key]
                self._written[key] = now
                self._lines.append(to_line(event))

    def _interval_s(self, now: float) -> float:
        return min(LONGEST_INTERVAL_S, interval_s(now - (self._began or now)))

    def _is_early(self, event: StreamProgress) -> bool:
        key = (event.stream, event.stage, event.side)
        last = self._written.get(key)
        if last is not None and event.t - last < self._interval_s(event.t):
            self._held[key] = event
            return True
        self._written[key] = event.t
        self._held.pop(key, None)
        return False

    def _note(self, error: OSError) -> None:
        self._problem = error

    def _to_note(self, dropped: int) -> str:
        return to_line(RecordsLost(self._t, "", f"{dropped} lines of {self.path.name} could not be written"))
