"""What the stages do, as events: read bit by bit from the files that they write. Looks at sizes first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from workflow.formats.sides import Side
from workflow.plan.plan_model import EndPlan, StagePlan
from workflow.run.events import (
    Event,
    StreamClosed,
    StreamOffered,
    StreamOpened,
    StreamOpening,
    StreamProgress,
    StreamTransport,
    StreamTrouble,
    Trouble,
)
from workflow.run.observe.bp_index import Index, is_blank, read_index
from workflow.run.observe.sst_log import Fact, SstLog
from workflow.run.state import visibility

Poll = Callable[[float], Iterator[Event]]  # time now → what is new


@dataclass
class Tail:
    """The new whole lines of a growing file."""

    path: Path
    offset: int = 0

    def read(self) -> str:
        """What was added since the last call, up to the last newline; "" when nothing was."""
        try:
            if self.path.stat().st_size <= self.offset:
                return ""
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read()
        except OSError:
            return ""
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole.decode("utf-8", errors="replace")


@dataclass
class Follower:
    """All that can be seen of one stage. `plan` has its run directory filled in."""

    plan: StagePlan
    folder: Path
    _polls: list[Poll] = field(default_factory=list)

    @cached_property
    def _metrics(self) -> MetricsFollower:
        return MetricsFollower(self.plan.name, Tail(self.folder / "metrics.jsonl"))

    def __post_init__(self) -> None:
        # First, so that of what a program reports itself nothing is taken from elsewhere.
        self._polls.append(self._metrics.poll)
        if self.plan.observed == "evidence" and any(end.engine == "SST" for end in self.plan.ends):
            self._polls.append(SstFollower(self.plan, Tail(self.folder / "stderr.log"), self._metrics.reported).poll)
        elif any(end.engine == "SST" and end.side == "write" for end in self.plan.ends):
            self._polls.append(PlaneFollower(self.plan, Tail(self.folder / "stderr.log")).poll)
        for end in self.plan.ends:
            counted = visibility(self.plan, end)[1]
            if end.side == "write" and end.engine == "SST" and not (counted and self.plan.observed == "evidence"):
                self._polls.append(ContactFollower(self.plan.name, end).poll)
            elif end.engine in ("BP5", "BP4") and visibility(self.plan, end)[0] and self.plan.observed == "evidence":
                self._polls.append(IndexFollower(self.plan.name, end).poll)

    def poll(self, now: float) -> list[Event]:
        """What is new."""
        return [event for poll in self._polls for event in poll(now)]

    def last(self, now: float, succeeded: bool) -> list[Event]:
        """What is new, and what could not be seen before the stage ended."""
        events = self.poll(now)
        for end in self.plan.ends:
            if (end.stream, end.side) in self._metrics.reported:
                continue
            if succeeded and end.side == "write" and not visibility(self.plan, end)[1] and end.engine != "SST":
                exists = Path(end.path).exists()
                events.append(StreamClosed(now, end.stream, self.plan.name, "write", 0, exists))
        return events


@dataclass
class MetricsFollower:
    """A stage that uses `workflow.stage` says all by itself."""

    stage: str
    tail: Tail
    reported: set[tuple[str, Side]] = field(default_factory=set)  # the streams opened with `workflow.stage`
    _bytes: dict[tuple[str, Side], int] = field(default_factory=dict)

    def poll(self, _now: float) -> Iterator[Event]:
        """The new records as events, at the stage's own times; the steps of one end in one event."""
        steps: dict[tuple[str, Side], StreamProgress] = {}
        for line in self.tail.read().splitlines():
            try:
                record = json.loads(line)
                event = self._event(record)
            except (ValueError, KeyError, TypeError):
                continue  # a line of a later version
            if isinstance(event, StreamProgress):
                steps[event.stream, event.side] = event
            elif event is not None:
                yield from steps.values()
                steps.clear()
                yield event
        yield from steps.values()

    def _event(self, record: dict[str, Any]) -> Event | None:
        kind, t = record["kind"], float(record["t"])
        if kind not in ("opening", "open", "step", "close", "error"):
            return None
        stream = str(record["stream"])
        if kind == "error":
            text = str(record["error"])
            return StreamTrouble(t, stream, self.stage, trouble_of(str(record.get("type", "")), text), text)
        side: Side = "write" if record["side"] == "write" else "read"
        if kind == "opening":
            self.reported.add((stream, side))
            return StreamOpening(t, stream, self.stage, side)
        if kind == "open":
            return StreamOpened(t, stream, self.stage, side)
        if kind == "close":
            # Ranks that read in parallel add up in the end what they have read.
            self._bytes[stream, side] = total = self._bytes.get((stream, side), 0) + sum(record.get("bytes", []))
            return StreamClosed(t, stream, self.stage, side, int(record["steps"]), bool(record["complete"]), total)
        self._bytes[stream, side] = total = self._bytes.get((stream, side), 0) + int(record["bytes"] or 0)
        return StreamProgress(t, stream, self.stage, side, int(record["step"]) + 1, total)


def trouble_of(error: str, text: str) -> Trouble:
    """The kind of an error of `workflow.stage`, by its type or, where that is not said, by its text."""
    if error == "StreamTimeout" or (not error and "within" in text):
        return "timeout"
    if error == "StreamFailed" or (not error and ("died" in text or "broke off" in text)):
        return "failed"
    return "other"


@dataclass
class SstFollower:
    """A program of the user's own, by SST's log."""

    plan: StagePlan
    tail: Tail
    reported: set[tuple[str, Side]] = field(default_factory=set)  # seen better elsewhere
    log: SstLog = field(default_factory=SstLog)

    def poll(self, now: float) -> Iterator[Event]:
        """The new facts as events; the steps of one end in one event."""
        steps: dict[tuple[str, Side], Event] = {}
        for fact in self.log.feed(self.tail.read()):
            end = end_of(fact, self.plan)
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
    """The data planes of a stage that says all else by itself, until all of them are known."""

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
            end = end_of(fact, self.plan)
            if fact.kind == "plane" and end is not None:
                self._known.add(end.stream)
                yield to_event(fact, end.stream, self.plan.name, now)


def end_of(fact: Fact, plan: StagePlan) -> EndPlan | None:
    """The end that the log speaks of: the only one, or the one of that path."""
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
    """The contact file of an SST stream: from then on its writer waits for readers."""

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
        # A file closed without a step has one of nothing. It counts only once others follow.
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
