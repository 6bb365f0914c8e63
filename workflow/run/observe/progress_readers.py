"""What the stages do, as events, read from the growing files that they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from workflow.formats.json_lines import Tail
from workflow.formats.metrics_lines import METRICS_FILE, PROGRESS_FILE, check_metrics_version, end_of, read_progress
from workflow.formats.sides import EndOfStream
from workflow.formats.versions import NewerVersionError
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.plan_model import EndPlan, StagePlan
from workflow.run.events import (
    Event,
    RanksEnded,
    RecordsLost,
    StageCut,
    StreamClosed,
    StreamOffered,
    StreamOpened,
    StreamOpening,
    StreamProgress,
    StreamTransport,
    StreamTrouble,
    StreamWaiting,
    Trouble,
)
from workflow.run.observe.bp_index import Index, is_blank, read_index
from workflow.run.observe.launcher_words import LauncherWords
from workflow.run.observe.sst_log import Fact, SstLog
from workflow.run.observe.transport_faults import TransportFaultFollower
from workflow.run.state import visibility

Poll = Callable[[float], Iterator[Event]]  # time now → what is new


@dataclass
class Follower:
    """All that can be seen of one stage. `plan` has its run directory filled in."""

    plan: StagePlan
    folder: Path
    visibility_s: float = 0.0  # how long records may take to become visible here
    _polls: list[Poll] = field(default_factory=list)
    _closed: set[EndOfStream] = field(default_factory=set)

    @cached_property
    def _metrics(self) -> MetricsFollower:
        return MetricsFollower(self.plan.name, Tail(self.folder / METRICS_FILE), visibility_s=self.visibility_s)

    @cached_property
    def _faults(self) -> TransportFaultFollower:
        return TransportFaultFollower(self.plan.name, Tail(self.folder / "stderr.log"))

    @cached_property
    def _words(self) -> LauncherWords:
        # The launcher of a line of several stages writes elsewhere.
        launch = self.plan.launch
        patterns = LAUNCHERS[launch.launcher].end_patterns if launch.group is None else ()
        return LauncherWords(self.plan.name, patterns, Tail(self.folder / "stderr.log"))

    @property
    def said(self) -> Sequence[RanksEnded]:
        """What its launcher has said of the ends of its ranks."""
        return self._words.said

    def __post_init__(self) -> None:
        # First, so that of what a program reports itself nothing is taken from elsewhere.
        self._polls.append(self._metrics.poll)
        if self.plan.observed == "evidence" and any(end.engine == "SST" for end in self.plan.ends):
            self._polls.append(SstFollower(self.plan, Tail(self.folder / "stderr.log"), self._metrics.reported).poll)
        elif any(end.engine == "SST" and end.side == "write" for end in self.plan.ends):
            self._polls.append(PlaneFollower(self.plan, Tail(self.folder / "stderr.log")).poll)
        if any(end.engine == "SST" for end in self.plan.ends):
            self._polls.append(self._faults.poll)
        if self._words.patterns:
            self._polls.append(self._words.poll)
        for end in self.plan.ends:
            counted = visibility(self.plan, end)[1]
            if end.side == "write" and end.engine == "SST" and not (counted and self.plan.observed == "evidence"):
                self._polls.append(ContactFollower(self.plan.name, end).poll)
            elif end.engine in ("BP5", "BP4") and visibility(self.plan, end)[0] and self.plan.observed == "evidence":
                self._polls.append(IndexFollower(self.plan.name, end).poll)

    def poll(self, now: float) -> list[Event]:
        """What is new."""
        return self._noted([event for poll in self._polls for event in poll(now)])

    def last(self, now: float, succeeded: bool, *, final: bool = True) -> list[Event]:
        """What is new after the stage has ended, and what could not be seen before.

        Files of another node may not be up to date yet: while `is_settled` is false the caller can ask again, with
        `final=False`, until `file_visibility.visibility_s` has passed; then what is missing is missing.
        """
        self._metrics.fresh = self._faults.fresh = True
        events = self.poll(now)
        for end in self.plan.ends if succeeded else []:
            if self._is_handed_over(end) and (end.stream, end.side) not in self._closed:
                exists = Path(end.path).exists()
                if exists or final:
                    size = size_on_disk(Path(end.path))
                    events += self._noted([StreamClosed(now, end.stream, self.plan.name, "write", 0, exists, size)])
        return events

    @property
    def is_settled(self) -> bool:
        """Whether the closing record of every end has been seen, of all ends that are to have one."""
        expected = {
            (end.stream, end.side)
            for end in self.plan.ends
            if visibility(self.plan, end)[1] or self._is_handed_over(end)
        }
        return self._metrics.is_lost or (expected | self._metrics.reported) <= self._closed

    def _is_handed_over(self, end: EndPlan) -> bool:
        """A file of which nothing is seen but that it is there in the end."""
        reported = (end.stream, end.side) in self._metrics.reported
        return not reported and end.side == "write" and not visibility(self.plan, end)[1] and end.engine != "SST"

    def _noted(self, events: list[Event]) -> list[Event]:
        for event in events:
            if isinstance(event, StreamClosed):
                self._closed.add((event.stream, event.side))
            elif isinstance(event, StreamOpening):
                self._closed.discard((event.stream, event.side))
        return events


# A call that lasts longer is reported: of those that return soon nothing need be known.
LONG_CALL_S = 1.0


@dataclass
class OpenCall:
    """A call in which a program waits for the other end of a stream, `steps` after it opened it."""

    steps: int
    since: float
    reported: bool = False


@dataclass
class MetricsFollower:
    """A stage that uses `workflow.stage`, by its own records."""

    stage: str
    tail: Tail
    reported: set[EndOfStream] = field(default_factory=set)  # the streams opened with `workflow.stage`
    closed: set[EndOfStream] = field(default_factory=set)
    is_lost: bool = False  # whether the stage could not write its records
    visibility_s: float = 0.0  # how long records may take to become visible here
    fresh: bool = False  # whether to read the files even if they seem unchanged
    _steps: dict[EndOfStream, int] = field(default_factory=dict)
    _bytes: dict[EndOfStream, int] = field(default_factory=dict)
    _changed: tuple[int, int] = (0, 0)  # time and size of the file of totals
    _empty_polls: int = 0
    _is_newer: bool = False
    # Ends with the step for which their program waits in a call, since when that is seen, and whether it is reported.
    _calls: dict[EndOfStream, OpenCall] = field(default_factory=dict)

    def poll(self, now: float) -> Iterator[Event]:
        """The new records as events, at the stage's own times; the steps of one end in one event."""
        steps: dict[EndOfStream, StreamProgress] = {}
        if self._is_newer:
            return
        for record in self.tail.records(fresh=self.fresh):
            try:
                check_metrics_version(record, self.tail.path)
                event = self._event(record)
            except NewerVersionError as error:
                self.is_lost = self._is_newer = True
                yield RecordsLost(now, self.stage, str(error))
                return
            except (ValueError, KeyError, TypeError, OverflowError):
                continue  # damaged, or a line of a later version
            if isinstance(event, StreamProgress):
                steps[event.stream, event.side] = event
            elif event is not None:
                yield from steps.values()
                steps.clear()
                yield event
        yield from steps.values()
        yield from self._totals(now)
        yield from self._waits(now)

    def _waits(self, now: float) -> Iterator[Event]:
        """The calls that have lasted long, and those reported that have ended.

        On a shared file system the records of another node may be old: there a call must have been seen for longer than
        they can be, so that it was really going on at the same time as those of the other stages.
        """
        for end, call in list(self._calls.items()):
            if end in self.closed or self._steps.get(end, 0) != call.steps:
                del self._calls[end]
            elif not call.reported and now - call.since >= LONG_CALL_S + self.visibility_s:
                call.reported = True
                yield StreamWaiting(now, end[0], self.stage, end[1], call.steps, True)

    def _note_call(self, end: EndOfStream, record: dict[str, Any], now: float) -> Iterator[Event]:
        """What the totals say about a call."""
        call, steps = self._calls.get(end), self._steps.get(end, 0)
        waits = record.get("waits") is True and record["steps"] == steps and end not in self.closed
        if waits and (call is None or call.steps != steps):
            self._calls[end] = OpenCall(steps, now)
        elif call is not None and not waits:
            del self._calls[end]
            if call.reported:
                yield StreamWaiting(now, end[0], self.stage, end[1], call.steps, False)

    def _event(self, record: dict[str, Any]) -> Event | None:
        kind, t = record["kind"], float(record["t"])
        if kind == "lost":
            return RecordsLost(t, self.stage, f"{record['lines']} lines of its metrics could not be written")
        if kind == "cut":
            return StageCut(t, self.stage)
        if kind == "error":
            text, stream = str(record["error"]), str(record["stream"])
            return StreamTrouble(t, stream, self.stage, trouble_of(str(record.get("type", ""))), text)
        if kind not in ("opening", "open", "step", "steps", "close"):
            return None
        end = stream, side = end_of(record)
        if kind == "opening":
            self.reported.add(end)
            self.closed.discard(end)
            return StreamOpening(t, stream, self.stage, side)
        if kind == "open":
            self._calls.pop(end, None)
            return StreamOpened(t, stream, self.stage, side)
        if kind == "close":
            if end in self.closed:
                return None
            self.closed.add(end)
            # Ranks that read in parallel add up in the end what they have read.
            self._bytes[end] = total = self._bytes.get(end, 0) + sum(record.get("bytes", []))
            return StreamClosed(t, stream, self.stage, side, int(record["steps"]), bool(record["complete"]), total)
        self._bytes[end] = total = self._bytes.get(end, 0) + int(record["bytes"] or 0)
        self._steps[end] = int(record["step"]) + 1
        self.closed.discard(end)
        return StreamProgress(t, stream, self.stage, side, self._steps[end], total)

    def _totals(self, now: float) -> Iterator[Event]:
        """What the lines do not say yet, or cannot say."""
        try:
            found = self.tail.path.with_name(PROGRESS_FILE).stat()
        except OSError:
            return
        # Made before the first line, and empty only for a moment unless nothing can be written.
        self._empty_polls = self._empty_polls + 1 if not found.st_size and not self.reported else 0
        if self._empty_polls > 1 and not self.is_lost:
            self.is_lost = True
            yield RecordsLost(now, self.stage, "its metrics cannot be written")
        if not self.fresh and self._changed == (found.st_mtime_ns, found.st_size):
            return
        self._changed = found.st_mtime_ns, found.st_size
        for end, record in read_progress(self.tail.path).items():
            stream, side = end
            try:
                steps, t, complete = int(record["steps"]), float(record["t"]), record["complete"]
                count = self._bytes.get(end, 0) if record["bytes"] is None else int(record["bytes"])
            except (ValueError, KeyError, TypeError, OverflowError):
                continue  # damaged, or a line of a later version
            if end not in self.reported:
                self.reported.add(end)
                yield StreamOpening(t, stream, self.stage, side)
            if steps > self._steps.get(end, 0) and end not in self.closed:
                self._steps[end] = steps
                yield StreamProgress(t, stream, self.stage, side, steps, count)
            if complete is not None and end not in self.closed:
                self.closed.add(end)
                yield StreamClosed(t, stream, self.stage, side, steps, bool(complete), count)
            yield from self._note_call(end, record, now)


def trouble_of(error: str) -> Trouble:
    """The kind of an error of `workflow.stage`, by the name of its type."""
    kinds: dict[str, Trouble] = {"StreamTimeout": "timeout", "StreamFailed": "failed"}
    return kinds.get(error, "other")


@dataclass
class SstFollower:
    """A program of the user's own, by SST's log."""

    plan: StagePlan
    tail: Tail
    reported: set[EndOfStream] = field(default_factory=set)  # its own records are better
    log: SstLog = field(default_factory=SstLog)

    def poll(self, now: float) -> Iterator[Event]:
        """The new facts as events; the steps of one end in one event."""
        steps: dict[EndOfStream, Event] = {}
        for fact in self.log.feed(self.tail.read()):
            end = end_of_fact(fact, self.plan)
            if end is None or (end.stream, end.side) in self.reported:
                continue
            event = to_event(fact, end.stream, self.plan.name, now)
            if fact.kind == "steps":
                steps[end.stream, end.side] = event
                continue
            yield event
        yield from steps.values()


@dataclass
class PlaneFollower:
    """The data planes of a stage whose own records hold everything else, until all planes are known."""

    plan: StagePlan
    tail: Tail
    log: SstLog = field(default_factory=SstLog)
    _known: set[str] = field(default_factory=set)

    def poll(self, now: float) -> Iterator[Event]:
        """An event per stream that it writes by SST."""
        written = {end.stream for end in self.plan.ends if end.engine == "SST" and end.side == "write"}
        if self._known >= written:
            return
        for fact in self.log.feed(self.tail.read()):
            end = end_of_fact(fact, self.plan)
            if fact.kind == "plane" and end is not None:
                self._known.add(end.stream)
                yield to_event(fact, end.stream, self.plan.name, now)


def size_on_disk(path: Path) -> int:
    """Bytes of a file, or of all files of a directory; 0 where it is not there."""
    try:
        files = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
        return sum(each.stat().st_size for each in files)
    except OSError:
        return 0


def end_of_fact(fact: Fact, plan: StagePlan) -> EndPlan | None:
    """The end that a line of the log is about: the only one, or the one of that path."""
    ends = [end for end in plan.ends if end.engine == "SST" and end.side == fact.side]
    if len(ends) == 1:
        return ends[0]
    path = fact.name.removesuffix(".sst")
    whole = [end for end in ends if end.path.removesuffix(".sst") == path]
    same = [end for end in ends if Path(end.path).name.removesuffix(".sst") == Path(path).name]
    return next(iter(whole + same), None)


def to_event(fact: Fact, stream: str, stage: str, now: float) -> Event:
    """A fact of the log as an event of a stream."""
    match fact.kind:
        case "plane":
            plane, _, why = fact.text.partition(": ")
            return StreamTransport(now, stream, stage, plane, why)
        case "offered":
            return StreamOffered(now, stream, stage)
        case "opened":
            return StreamOpened(now, stream, stage, fact.side)
        case "steps":
            return StreamProgress(now, stream, stage, fact.side, fact.steps, 0)
        case "failed":
            return StreamTrouble(now, stream, stage, "failed", f"stream {stream}: the connection to its writer broke")
    return StreamClosed(now, stream, stage, fact.side, fact.steps, fact.complete, fact.bytes)


@dataclass
class ContactFollower:
    """The contact file of an SST stream: once the file exists, its writer waits for readers."""

    stage: str
    end: EndPlan
    _seen: bool = False

    def poll(self, now: float) -> Iterator[Event]:
        """One event, once."""
        if not self._seen and Path(f"{self.end.path}.sst").exists():
            self._seen = True
            yield StreamOffered(now, self.end.stream, self.stage)


@dataclass
class IndexFollower:
    """A BP file that a program of the user's own writes, by its index."""

    stage: str
    end: EndPlan
    _index: Index | None = None
    _steps: int = 0
    _closed: bool = False

    def poll(self, now: float) -> Iterator[Event]:
        """Opened, steps, closed."""
        if self._closed:
            return
        # Read even if the size is the same: closing changes one byte. An index is small, and only what is new is read.
        path = Path(self.end.path) / "md.idx"
        index = read_index(path, self._index)
        if index is None:
            return
        # A file closed without a step holds one empty step, which counts only when others follow.
        steps = 0 if index.steps == 1 and is_blank(path) else index.steps
        if self._index is None:
            yield StreamOpened(now, self.end.stream, self.stage, "write")
        if steps > self._steps:
            yield StreamProgress(now, self.end.stream, self.stage, "write", steps, self._size())
        self._index, self._steps = index, steps
        if not index.active:
            self._closed = True
            yield StreamClosed(now, self.end.stream, self.stage, "write", steps, True, self._size())

    def _size(self) -> int:
        return sum(file.stat().st_size for file in Path(self.end.path).glob("data.*"))
