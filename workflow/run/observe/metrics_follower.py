"""A stage that uses `workflow.stage`, followed by the records that it writes of itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from workflow.formats.json_lines import Tail
from workflow.formats.metrics_lines import PROGRESS_FILE, check_metrics_version, end_of, read_progress
from workflow.formats.sides import EndOfStream
from workflow.formats.typed_fields import from_fields
from workflow.formats.versions import OtherVersionError
from workflow.run.state.events import (
    Event,
    RecordsLost,
    StageCut,
    StageSteered,
    SteeringAsked,
    SteeringRefused,
    StreamClosed,
    StreamOpened,
    StreamOpening,
    StreamProgress,
    StreamTrouble,
    StreamWaiting,
    Trouble,
)

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
    _is_other_version: bool = False
    # Ends with the step for which their program waits in a call, since when that is seen, and whether it is reported.
    _calls: dict[EndOfStream, OpenCall] = field(default_factory=dict)

    def poll(self, now: float) -> Iterator[Event]:
        """The new records as events, at the stage's own times; the steps of one end in one event."""
        steps: dict[EndOfStream, StreamProgress] = {}
        if self._is_other_version:
            return
        for record in self.tail.records(fresh=self.fresh):
            try:
                check_metrics_version(record, self.tail.path)
                event = self._event(record)
            except OtherVersionError as error:
                self.is_lost = self._is_other_version = True
                yield RecordsLost(now, self.stage, str(error))
                return
            except (ValueError, KeyError, TypeError, OverflowError):
                continue  # damaged
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
        if kind in _STEERING:
            return _steering(self.stage, t, record)
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
                continue  # damaged
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


_STEERING: dict[str, type[SteeringAsked | StageSteered | SteeringRefused]] = {
    "steer": SteeringAsked, "steered": StageSteered, "refused": SteeringRefused,
}  # fmt: skip


def _steering(stage: str, t: float, record: dict[str, Any]) -> Event:
    """What a stage has taken or refused of what was asked of it, or asks of another stage. Raises TypeError for
    a record that is damaged."""
    about = {"by": f"stage {stage}"} if record["kind"] == "steer" else {"stage": stage}
    return from_fields(_STEERING[record["kind"]], {**record, **about, "t": t})


def trouble_of(error: str) -> Trouble:
    """The kind of an error of `workflow.stage`, by the name of its type."""
    kinds: dict[str, Trouble] = {"StreamTimeout": "timeout", "StreamFailed": "failed"}
    return kinds.get(error, "other")
