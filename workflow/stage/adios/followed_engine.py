"""Reading a file that a running run writes, from outside of that run: its writer does not know this reader.

A spool that keeps the newest steps only has no data of older ones. The run notes that in its events before it removes
them, so whoever finds no note after reading a step has read valid data.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from workflow.formats.bp_index import Index, read_index
from workflow.formats.event_names import RUN_FINISHED, STEPS_DROPPED
from workflow.formats.json_lines import Tail
from workflow.formats.lease_file import DEAD_S, LEASE_FILE
from workflow.formats.stage_file import StreamEnd
from workflow.formats.stop_file import is_to_stop
from workflow.stage import settings
from workflow.stage.adios.read_engine import AdiosReadEngine
from workflow.stage.stage_errors import StepRemoved, StreamFailed, StreamTimeout
from workflow.stage.stream_engines import StepStatus
from workflow.stage.telemetry import process_metrics
from workflow.stage.variables import Array, Selection

# How often to look for events of the run, while no step comes.
_LOOK_S = 0.5
_POLL_S = 0.05
# A directory of a file system of the network may be shown so late.
_LATE_S = 60.0


class FollowedRun:
    """What the records of a run say of one of its streams: from which step on it is kept, and whether it still comes.

    `kept_from`: the first step of which the data are there; `has_ended`: the run has its verdict.
    """

    def __init__(self, events: Path, stream: str) -> None:
        self.kept_from, self.has_ended = 0, False
        self._stream, self._events, self._lease = stream, Tail(events), events.parent / LEASE_FILE
        self._beat, self._seen = b"", time.monotonic()

    def look(self) -> None:
        """Read the new events."""
        for record in self._events.records(fresh=True):
            if record.get("event") == STEPS_DROPPED and record.get("stream") == self._stream:
                self.kept_from = max(self.kept_from, int(record["first"]))
            self.has_ended |= record.get("event") == RUN_FINISHED

    def is_lost(self) -> bool:
        """Whether its supervisor has shown no sign of life for so long that it is dead. Ask again and again."""
        try:
            beat = self._lease.read_bytes()
        except OSError:
            return False  # nothing is known of a file without a run
        if beat != self._beat:
            self._beat, self._seen = beat, time.monotonic()
        return time.monotonic() - self._seen > DEAD_S


def _read_index(end: StreamEnd, known: Index | None = None) -> Index:
    return read_index(Path(end.path) / "md.idx", known) or Index()


def await_file(end: StreamEnd, run: FollowedRun) -> int:
    """The number of the newest step, when the file has one. Raises StreamFailed when the run ends before,
    StreamTimeout after `end.open_timeout_s`."""
    begin = time.monotonic()
    while not (steps := _read_index(end).steps):
        run.look()
        if run.has_ended or run.is_lost():
            raise StreamFailed(f"stream {end.stream}: the run has ended")
        if time.monotonic() - begin >= end.open_timeout_s:
            text = f"stream {end.stream}: no step in {end.path} within {end.open_timeout_s:g} s"
            raise StreamTimeout(text)
        time.sleep(_POLL_S)
    run.look()
    return end.before + steps - 1


def _attributes_of_first_step(end: StreamEnd) -> Mapping[str, Array | list[str]]:
    """Most programs set them there, and a reader that begins later does not get them."""
    reader = AdiosReadEngine(replace(end, first_step=end.before))
    try:
        return reader.attributes() if reader.begin(0.0) is StepStatus.READY else {}
    finally:
        reader.abandon()


class FollowedReadEngine(AdiosReadEngine):
    """The steps of such a file from `end.first_step` on. It ends when its writer has closed it, or the run has ended.

    `removed`: how many steps were left out because the run had removed them. A reader that has not come to the newest
    step for `behind_s` seconds goes on with it.
    """

    def __init__(self, end: StreamEnd, run: FollowedRun, behind_s: float | None = None) -> None:
        self._first_attributes = _attributes_of_first_step(end)
        # To read over the steps before would take 50 µs for each. Without attributes that were set in those but the
        # first: what only looks on can do without, unlike a stage that is started again.
        begin = {"SelectSteps": f"{end.first_step - end.before}:n"}
        super().__init__(replace(end, before=end.first_step, parameters={**end.parameters, **begin}))
        self.removed = 0
        self._end, self._run = end, run
        self._now, self._index, self._gone = end.first_step, Index(), False
        self._behind_s, self._caught_up, self._next = behind_s, time.monotonic(), end.first_step

    def is_left_out(self, step: int) -> bool:
        """Whether the loop goes on without this step, the present one: its data are gone, or it is too old."""
        return self.is_removed(step) or self._is_too_old(step)

    def _is_too_old(self, step: int) -> bool:
        if self._behind_s is None:
            return False
        if step < self._next:
            return True
        newest, now = self._newest(), time.monotonic()
        if step < newest and now - self._caught_up > self._behind_s:
            self._next = newest
            return True
        if step in (newest, self._next):
            self._caught_up = now
        return False

    def _newest(self) -> int:
        """The number of the newest step."""
        self._index = _read_index(self._end, self._index)
        return self._end.before + self._index.steps - 1

    def is_removed(self, step: int) -> bool:
        """Whether the data of this step, the present one, are gone. Reads the new events of the run."""
        self._run.look()
        self._gone |= step < self._run.kept_from
        return self._gone

    def begin(self, timeout_s: float) -> StepStatus:
        """See `ReadEngine`. It ends also while it waits: when the run of this process, another one, is to end."""
        self._gone, began, own = False, time.monotonic(), settings.current().run_dir
        ended_at: float | None = None
        had_read_all = self._behind_s is not None and self._newest() < self._now
        while True:
            status = super().begin(min(_LOOK_S, timeout_s))
            now = time.monotonic()
            if had_read_all:  # who waits is not late
                self._caught_up = now
            if status is not StepStatus.LATE or (now - began >= timeout_s and ended_at is None):
                return status
            if ended_at is not None and (self._has_read_all() or now - ended_at > _LATE_S):
                return StepStatus.ENDED
            if ended_at is None and self._run.is_lost():
                return StepStatus.FAILED
            if own and is_to_stop(own):
                return StepStatus.ENDED
            self._run.look()
            # Steps that were written before the run ended are read first.
            ended_at = now if self._run.has_ended and ended_at is None else ended_at

    def _has_read_all(self) -> bool:
        return self._end.before + _read_index(self._end).steps <= self._now

    def end(self) -> int | None:
        """See `ReadEngine`."""
        self._now, self.removed = self._now + 1, self.removed + self._gone
        return super().end()

    def attributes(self) -> Mapping[str, Array | list[str]]:
        """See `ReadEngine`."""
        return {**self._first_attributes, **super().attributes()}

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """See `ReadEngine`. Raises StepRemoved when the step was removed before all of it was read."""
        try:
            found = super().get(wanted)
        except RuntimeError as error:  # a hole is no compressed block
            if self.is_removed(self._now):
                raise self._too_late() from error
            raise
        if self.is_removed(self._now):
            raise self._too_late()
        return found

    def _too_late(self) -> StepRemoved:
        """Who is so late goes on with the newest step: the oldest that is kept is about to be removed."""
        self._run.kept_from = max(self._run.kept_from, self._newest())
        return StepRemoved(f"stream {self._end.stream}: the run has removed step {self._now} while it was read")

    def close(self) -> None:
        """See `ReadEngine`."""
        self._note_removed()
        super().close()

    def abandon(self) -> None:
        """See `ReadEngine`."""
        self._note_removed()
        super().abandon()

    def _note_removed(self) -> None:
        if self.removed:
            process_metrics().write("removed", stream=self._end.stream, steps=self.removed)
