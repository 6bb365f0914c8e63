"""The append-only file of a run's events: one JSON object a line, `{"event": "stage_started", "t": …, …}`.

A full disk takes no line more, but the content of a file can be overwritten there. So space for the verdict is reserved
in `verdict.reserved`: it is there from the start of a run to its verdict, and after it only where `events.jsonl` could
not take the verdict.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from workflow.errors import RunError
from workflow.formats.event_names import EVENTS_FILE as EVENTS_FILE
from workflow.formats.json_lines import LineWriter, to_record
from workflow.formats.metrics_lines import interval_s
from workflow.formats.sides import Side
from workflow.formats.typed_fields import from_fields
from workflow.formats.versions import OtherVersionError, check_version
from workflow.run.state.events import (
    EVENTS_VERSION,
    Event,
    RecordsLost,
    RunStarted,
    RunWarning,
    StreamClosed,
    StreamProgress,
)
from workflow.run.state.lifecycle_events import RunFinished

RESERVE_FILE = "verdict.reserved"
# More than a verdict has: its reason and the words of the scheduler.
_RESERVED_BYTES = 16_384
# Longer than any event.
_TAIL_BYTES = 65_536
# The longest interval between two lines of progress of one end: so old may its counts in the file be.
LONGEST_INTERVAL_S = 150.0
# In Unix seconds, the year 5138: a later one is damage.
_LATEST_S = 1e11
# How often to look whether progress that was held back is due.
DUE_CHECK_S = 1.0


def _name(kind: type[Event]) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).lower()


# Of all kinds: both modules that define some are imported here.
NAMES: dict[type[Event], str] = {
    kind: _name(kind) for kind in (*Event.__subclasses__(), *RunWarning.__subclasses__()) if kind is not RunWarning
}
KINDS: dict[str, type[Event]] = {name: kind for kind, name in NAMES.items()}


def to_line(event: Event) -> str:
    """One line of the file, with its newline."""
    return json.dumps({"event": NAMES[type(event)], **dataclasses.asdict(event)}, ensure_ascii=False) + "\n"


def from_record(record: dict[str, Any]) -> Event | None:
    """The event of a record; None when it is of a kind or a shape that this version does not know."""
    kind = KINDS.get(str(record.get("event")))
    if kind is None:
        return None
    try:
        event = from_fields(kind, record)
    except TypeError:
        return None
    return event if abs(event.t) < _LATEST_S else None


class StoredEvent(NamedTuple):
    """An event with its line in the file, without the newline."""

    line: str
    event: Event

    @classmethod
    def of(cls, event: Event) -> StoredEvent:
        """With the line that it would have."""
        return cls(to_line(event).rstrip("\n"), event)


def read_events(run_dir: Path) -> Iterator[Event]:
    """The events of a run, oldest first: those of `read_stored`."""
    return (stored.event for stored in read_stored(run_dir))


def read_stored(run_dir: Path) -> Iterator[StoredEvent]:
    """The events of a run with their lines, oldest first.

    A last line without its newline is still being written, or its writer was killed: it is left out, and
    so are lines that cannot be read. Raises RunError when the run has no events file, or one of a newer version.
    """
    path = run_dir / EVENTS_FILE
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise RunError(f"{run_dir}: no events: {error.strerror}", "was this run ever started?") from error
    finished = False
    for stored in to_stored(text[: text.rfind("\n") + 1], path):
        finished = finished or isinstance(stored.event, RunFinished)
        yield stored
    if not finished and (verdict := reserved_verdict(run_dir)) is not None:
        yield StoredEvent.of(verdict)


def reserved_verdict(run_dir: Path) -> RunFinished | None:
    """The verdict of a run whose disk was full at its end; None where there is none."""
    record = _reserved_record(run_dir)
    verdict = None if record is None else from_record(record)
    return verdict if isinstance(verdict, RunFinished) else None


def to_stored(lines: str, path: Path) -> Iterator[StoredEvent]:
    """The events of these whole lines of a file. Raises RunError when they are of another version."""
    for line in lines.split("\n"):
        record = to_record(line)
        if record is None:
            continue
        if record.get("event") == NAMES[RunStarted]:
            _check_events_version(record, path)
        event = from_record(record)
        if event is not None:
            yield StoredEvent(line, event)


def _check_events_version(record: dict[str, Any], path: Path) -> None:
    """Raises RunError when `run_started` states another version."""
    try:
        check_version(record, "events_version", EVENTS_VERSION, path)
    except OtherVersionError as error:
        raise RunError(str(error)) from error


class EventLog:
    """Appends events to the run's file; no error of the file system is raised (see `LineWriter`).

    Of the progress of one end it writes less and less often, so that the file of a long run stays small: an event at
    intervals that grow with the time, up to 150 s, and the last one before the verdict. Progress counts from the
    beginning, so that nothing is missing from the totals. Progress that was held back is written when its interval is
    over, with whichever event comes then (`Tick` at the latest). Nothing is written after the verdict.
    """

    def __init__(self, run_dir: Path) -> None:
        self.path = run_dir / EVENTS_FILE
        _reserve(run_dir)
        self._problem: OSError | None = None
        self._lines = LineWriter(self.path, self._note, self._to_note)
        self._began: float | None = None
        self._t = 0.0
        self._written: dict[tuple[str, str, Side], float] = {}
        self._held: dict[tuple[str, str, Side], StreamProgress] = {}
        self._checked = 0.0
        self._finished = False

    def write(self, event: Event) -> None:
        """Append one event, unless it is of a kind that is not stored, and the progress that is due."""
        if self._finished:
            return
        if event.t - self._checked >= DUE_CHECK_S:
            self._checked = event.t
            self._write_due(event.t)
        if not event.stored:
            return
        self._t = event.t
        self._began = self._began or event.t
        if isinstance(event, StreamProgress) and self._is_early(event):
            return
        if isinstance(event, StreamClosed):
            self._held.pop((event.stream, event.stage, event.side), None)
        elif isinstance(event, RunFinished):
            self._finished = True
            for held in self._held.values():
                self._lines.append(to_line(held))
        self._lines.append(to_line(event))
        if isinstance(event, RunFinished) and self._lines.is_behind:
            _fill_reserve(self.path.parent, to_line(event))

    def sync(self) -> bool:
        """Whether all events so far are on the disk."""
        return self._lines.sync()

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
        if not self._lines.is_behind:
            release_reserve(self.path.parent)

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


def _reserve(run_dir: Path) -> None:
    """Take the room. Without it, as on a disk that is full at once, a run goes on all the same."""
    with contextlib.suppress(OSError):
        (run_dir / RESERVE_FILE).write_bytes(b" " * _RESERVED_BYTES)


def _fill_reserve(run_dir: Path, line: str) -> None:
    """Write the line of the verdict over the blanks."""
    data = line.encode()
    with contextlib.suppress(OSError), (run_dir / RESERVE_FILE).open("r+b", buffering=0) as file:
        if len(data) <= _RESERVED_BYTES:
            file.write(data.ljust(_RESERVED_BYTES))


def release_reserve(run_dir: Path) -> None:
    """The verdict is where it belongs."""
    with contextlib.suppress(OSError):
        (run_dir / RESERVE_FILE).unlink(missing_ok=True)


def _reserved_record(run_dir: Path) -> dict[str, Any] | None:
    """The verdict that `events.jsonl` could not take; None where there is none."""
    try:
        return to_record((run_dir / RESERVE_FILE).read_bytes())
    except OSError:
        return None


@dataclass(frozen=True)
class StartAndVerdict:
    """When a run was started, how it ended; None for what has not happened. `t`: of its verdict, or of its last event,
    in Unix seconds."""

    started: RunStarted | None = None
    finished: RunFinished | None = None
    t: float | None = None


def read_start_and_verdict(run_dir: Path) -> StartAndVerdict:
    """By the first line and the end of the file: cheap enough for many runs, and to be read often.

    Nothing is written after the verdict. Where something is all the same, the first verdict counts, as in the reducer.
    """
    try:
        with (run_dir / EVENTS_FILE).open("rb") as file:
            first = to_record(file.readline())
            file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return StartAndVerdict()
    started = from_record(first) if first else None
    records = [record for record in map(to_record, lines) if record is not None]
    verdicts = (each for each in records if each.get("event") == NAMES[RunFinished])
    last = next(verdicts, records[-1] if records else {})
    finished, t = from_record(last), last.get("t")
    if not isinstance(finished, RunFinished) and (reserved := reserved_verdict(run_dir)) is not None:
        finished, t = reserved, reserved.t
    return StartAndVerdict(
        started if isinstance(started, RunStarted) else None,
        finished if isinstance(finished, RunFinished) else None,
        float(t) if isinstance(t, int | float) else None,
    )
