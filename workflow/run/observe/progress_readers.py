"""What the stages do, as events, read from the growing files that they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from workflow.formats.bp_index import Index, is_blank, read_index
from workflow.formats.json_lines import Tail
from workflow.formats.metrics_lines import METRICS_FILE
from workflow.formats.sides import EndOfStream, Side
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.plan_model import EndPlan, StagePlan
from workflow.run.observe.launcher_words import LauncherWords
from workflow.run.observe.metrics_follower import MetricsFollower
from workflow.run.observe.missed_stream import MissedStreams, another_stream
from workflow.run.observe.sst_log import Fact, SstLog
from workflow.run.observe.transport_faults import TransportFaultFollower
from workflow.run.state.events import (
    Event,
    RanksEnded,
    StreamClosed,
    StreamOffered,
    StreamOpened,
    StreamOpening,
    StreamProgress,
    StreamTransport,
    StreamTrouble,
    StreamWaiting,
)
from workflow.run.state.run_state import visibility

Poll = Callable[[float], Iterator[Event]]  # time now → what is new


@dataclass
class Follower:
    """All that can be seen of one stage. `plan` has its run directory filled in."""

    plan: StagePlan
    folder: Path
    visibility_s: float = 0.0  # how long records may take to become visible here
    # Steps and bytes of earlier attempts, of ends whose records begin anew with each attempt.
    before: Mapping[EndOfStream, tuple[int, int]] = field(default_factory=dict)
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

    @cached_property
    def _missed(self) -> MissedStreams:
        return MissedStreams(self.plan)

    @property
    def said(self) -> Sequence[RanksEnded]:
        """What its launcher has said of the ends of its ranks."""
        return self._words.said

    def __post_init__(self) -> None:
        # First, so that of what a program reports itself nothing is taken from elsewhere.
        self._polls.append(self._metrics.poll)
        by_evidence = self.plan.observed == "evidence"
        if by_evidence and (_logged(self.plan, "write") or _logged(self.plan, "read")):
            self._polls.append(SstFollower(self.plan, Tail(self.folder / "stderr.log"), self._metrics.reported).poll)
            self._polls.append(self._missed.poll)
        elif _logged(self.plan, "write"):
            self._polls.append(PlaneFollower(self.plan, Tail(self.folder / "stderr.log")).poll)
        if any(end.traits.over_network for end in self.plan.ends):
            self._polls.append(self._faults.poll)
        if self._words.patterns:
            self._polls.append(self._words.poll)
        for end in self.plan.ends:
            live, counted = visibility(self.plan, end)
            if end.side == "write" and end.traits.contact_suffix and not (counted and by_evidence):
                self._polls.append(ContactFollower(self.plan.name, end).poll)
            elif end.traits.counted_by == "index" and live and by_evidence:
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
        if succeeded and self.plan.observed == "evidence":
            events += self._missed.last(now)
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
        return not reported and end.side == "write" and not visibility(self.plan, end)[1] and not end.traits.in_memory

    def _noted(self, events: list[Event]) -> list[Event]:
        if self.before:
            events = [self._counted_on(event) for event in events]
        for event in events:
            if isinstance(event, StreamOffered | StreamOpening | StreamOpened | StreamClosed):
                self._missed.opened(event.stream)
            if isinstance(event, StreamClosed):
                self._closed.add((event.stream, event.side))
            elif isinstance(event, StreamOpening):
                self._closed.discard((event.stream, event.side))
        return events

    def _counted_on(self, event: Event) -> Event:
        """An event with the steps and bytes of earlier attempts."""
        if not isinstance(event, StreamProgress | StreamClosed | StreamWaiting):
            return event
        steps, size = self.before.get((event.stream, event.side), (0, 0))
        if isinstance(event, StreamWaiting):
            return replace(event, steps=event.steps + steps)
        return replace(event, steps=event.steps + steps, bytes=event.bytes + size)


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
            if fact.side == "write" and fact.kind in ("offered", "opened") and not is_same_name(fact.name, end):
                yield another_stream(self.plan, end, fact.name, now)
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
        """An event per stream that it writes and logs."""
        written = {end.stream for end in _logged(self.plan, "write")}
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
    ends = _logged(plan, fact.side)
    if len(ends) == 1:
        return ends[0]
    whole = [end for end in ends if _stream_path(fact.name, end) == _stream_path(end.path, end)]
    same = [end for end in ends if is_same_name(fact.name, end)]
    return next(iter(whole + same), None)


def _logged(plan: StagePlan, side: Side) -> list[EndPlan]:
    """The ends on one side of which the stage's log tells."""
    return [end for end in plan.ends if end.traits.counted_by == "log" and end.side == side]


def is_same_name(name: str, end: EndPlan) -> bool:
    """Whether a program that opens this name, from whichever folder, opens this stream."""
    return Path(_stream_path(name, end)).name == Path(_stream_path(end.path, end)).name


def _stream_path(name: str, end: EndPlan) -> str:
    """What ADIOS2 opens, from the name of the stream or of its contact file."""
    return name.removesuffix(end.traits.contact_suffix)


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
    """The contact file of a stream: once the file exists, its writer waits for readers."""

    stage: str
    end: EndPlan
    _seen: bool = False

    def poll(self, now: float) -> Iterator[Event]:
        """One event, once."""
        if not self._seen and Path(self.end.path + self.end.traits.contact_suffix).exists():
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
