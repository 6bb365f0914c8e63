"""What happened in a run, as typed events, and the append-only file that holds them: `events.jsonl`.

Facts are what the supervisor saw, decisions what `workflow.run.lifecycle` made of them. Times `t` are Unix
seconds. The file holds one JSON object a line, `{"event": "stage_started", "t": …, …}`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from workflow.errors import RunError
from workflow.formats.sides import Side

Deadline = Literal["start", "step", "run"]
Trouble = Literal["failed", "timeout", "other"]
Outcome = Literal["succeeded", "failed", "interrupted"]
EVENTS_FILE = "events.jsonl"


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


@dataclass(frozen=True)
class StageStarted(Event):
    """Its process runs; `pid` leads its process group."""

    stage: str
    pid: int


@dataclass(frozen=True)
class StreamOpening(Event):
    """A program that uses `workflow.stage` begins to open a stream: from now on it tells of this end by itself."""

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
    """The data plane that ADIOS2 took, in its own word (evpath is TCP); `why` it is not the one preferred, if so."""

    stream: str
    stage: str
    plane: str
    why: str = ""


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
class StreamTrouble(Event):
    """The stage met an error on one of its streams: `failed` (the other end is gone), `timeout` or `other`."""

    stream: str
    stage: str
    trouble: Trouble
    text: str


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
    """Its process ended, by itself (`code`) or by a signal. `note`: what is known beyond that."""

    stage: str
    code: int | None
    signal: int | None
    note: str = ""


@dataclass(frozen=True)
class Interrupted(Event):
    """Somebody wants the run to stop: Ctrl-C, a termination request, a lost terminal."""

    signal: str


@dataclass(frozen=True)
class Tick(Event):
    """Time passed."""

    stored: ClassVar[bool] = False


@dataclass(frozen=True)
class StageOpen(Event):
    """All its streams are open."""

    stage: str


@dataclass(frozen=True)
class StageSucceeded(Event):
    """It ended, its streams are complete and the counts agree."""

    stage: str


@dataclass(frozen=True)
class StageFailed(Event):
    """It did not do what the plan says; `reason` is for people."""

    stage: str
    reason: str


@dataclass(frozen=True)
class StageStopped(Event):
    """It ended because the run was stopped, or was never started."""

    stage: str


@dataclass(frozen=True)
class DeadlinePassed(Event):
    """Nothing happened for too long; `diagnosis` says who waits for whom, `stage` for whom all wait."""

    deadline: Deadline
    diagnosis: str
    stage: str


@dataclass(frozen=True)
class StopRequested(Event):
    """All stages are asked to end; `stage` is the one at fault, if any."""

    reason: str
    stage: str = ""


@dataclass(frozen=True)
class Cleaned(Event):
    """Files that were removed, or marked as ended; relative to the run directory."""

    paths: list[str]


@dataclass(frozen=True)
class RunFinished(Event):
    """The verdict."""

    state: Outcome
    exit_code: int
    reason: str
    stage: str


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
    so are lines that cannot be read. Raises RunError when the run has no events file.
    """
    try:
        text = (run_dir / EVENTS_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RunError(f"{run_dir}: no events: {error.strerror}", "was this run ever started?") from error
    for line in text.split("\n")[:-1]:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        event = from_record(record) if isinstance(record, dict) else None
        if event is not None:
            yield event


class EventLog:
    """Appends events. Each line goes out in one write, so that a reader or a crash never sees half of one."""

    def __init__(self, run_dir: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(run_dir / EVENTS_FILE, flags, 0o644)

    def write(self, event: Event) -> None:
        """Append one event, unless it is of a kind that is not stored."""
        if event.stored:
            os.write(self._file, to_line(event).encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
