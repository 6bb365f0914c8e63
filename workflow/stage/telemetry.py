"""What this stage did, one JSON object a line, for the supervisor and the report. Rank 0 writes.

Every line is written at once, in one write to a file opened for appending (some microseconds): nothing is
lost or torn when the stage is killed, and the supervisor sees each step when it happens. The lines are described in
`workflow.formats.metrics_lines`. No error while they are written ends the program.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workflow.formats.json_lines import LineWriter
from workflow.formats.metrics_lines import FULL_STEPS, METRICS_VERSION, PROGRESS_FILE, VERSION_KEY, interval_s
from workflow.formats.run_clock import keep_time_of, steady_time
from workflow.formats.sides import EndOfStream, Side
from workflow.stage import settings
from workflow.stage.ranks import rank

# Longer than any line of totals, without the name of its stream.
_TOTALS_SIZE = 370


@dataclass
class Sums:
    """What several steps took together; bytes are None when those of one step are not known yet.

    `device_s`: copying to and from a device; a line has it where there was some.
    """

    steps: int = 0
    bytes: int | None = 0
    wait_s: float = 0.0
    io_s: float = 0.0
    compute_s: float = 0.0
    device_s: float = 0.0

    def add(self, nbytes: int | None, wait_s: float, io_s: float, compute_s: float, device_s: float) -> None:
        """One step more."""
        self.steps += 1
        self.bytes = None if self.bytes is None or nbytes is None else self.bytes + nbytes
        self.wait_s += wait_s
        self.io_s += io_s
        self.compute_s += compute_s
        self.device_s += device_s

    def fields(self, more_bytes: int = 0) -> str:
        """As part of a line of JSON. By hand: this runs at every step, and json.dumps takes as long as the write."""
        known = "null" if self.bytes is None else self.bytes + more_bytes
        text = (
            f'"bytes": {known}, "wait_s": {self.wait_s:.6f}, "io_s": {self.io_s:.6f}, "compute_s": {self.compute_s:.6f}'
        )
        return f'{text}, "device_s": {self.device_s:.6f}' if self.device_s else text


@dataclass
class EndRecord:
    """What has been recorded of one end of a stream. `names`: stream and side as part of a line of JSON."""

    names: str
    place: int  # of the line of totals, in its file
    size: int
    total: Sums = field(default_factory=Sums)  # steps and bytes: since the end was opened
    steps_before: int = 0  # a stream may be opened again
    bytes_before: int = 0
    lines: int = 0
    begin: float = 0.0
    gathered: Sums = field(default_factory=Sums)  # not in a line yet
    since: float = 0.0
    due: float = 0.0
    unknown: list[int] = field(default_factory=list)  # steps of each line whose bytes are not known yet
    complete: bool | None = None
    waits: bool = False  # whether the program is inside a call that returns only when the other end has acted

    def to_totals(self, t: float) -> str:
        """The line of totals, of its constant length."""
        complete = {None: "null", True: "true", False: "false"}[self.complete]
        text = (
            f'{{"kind": "total", "steps": {self.total.steps}, "steps_before": {self.steps_before}, {self.names}, '
            f'"t": {t:.6f}, {self.total.fields(self.bytes_before)}, "complete": {complete}, '
            f'"waits": {"true" if self.waits else "false"}, "check": {self.total.steps}}}'
        )
        return text.ljust(self.size - 1) + "\n"


class Metrics:
    """The records of one process, and the clock that splits its time into computing and the rest."""

    def __init__(self, path: str | None) -> None:
        self._lines: LineWriter | None = None
        if path:
            self._lines = LineWriter(Path(path), lambda error: _report(error, path), _to_note)
        self._progress: int | None = None
        self._ends: dict[EndOfStream, EndRecord] = {}
        self._left = time.perf_counter()
        self._computing = 0.0

    def enter(self) -> float:
        """An I/O call begins: what passed since the last one ended was computing. Returns the time."""
        now = time.perf_counter()
        self._computing += now - self._left
        return now

    def leave(self) -> float:
        """An I/O call ends. Returns the time."""
        self._left = time.perf_counter()
        return self._left

    def take_computing(self) -> float:
        """Seconds of computing since the last call, over all streams of the stage."""
        seconds, self._computing = self._computing, 0.0
        return seconds

    def start(self, **fields: Any) -> None:
        """The first line: what runs."""
        self.write("start", **{VERSION_KEY: METRICS_VERSION}, **fields)

    def write(self, kind: str, **fields: Any) -> None:
        """Append one line. Does nothing without a run, or on other ranks than 0."""
        if self._lines is not None:
            self._lines.append(json.dumps({"kind": kind, "t": round(steady_time(), 6), **fields}) + "\n")

    def error(self, stream: str, error: Exception) -> None:
        """The line of an error on a stream."""
        self._flush_all()
        for name, side in self._ends:
            if name == stream:
                self.returns(name, side)
        self.write("error", stream=stream, type=type(error).__name__, error=str(error))

    def opening(self, stream: str, side: Side, *, waits: bool = False) -> None:
        """The line that says what is being opened, since that may last: `waits` for the other end."""
        if self._lines is None:
            return
        end = self._end(stream, side)
        end.steps_before += end.total.steps
        end.bytes_before += end.total.bytes or 0
        end.total.steps, end.total.bytes, end.complete = 0, 0, None
        end.unknown.clear()
        self.write("opening", stream=stream, side=side)
        end.waits = waits and _is_only_thread()
        self._put_totals(end, steady_time())

    def blocks(self, stream: str, side: Side) -> None:
        """A call begins that may last until the other end acts."""
        if self._lines is not None and _is_only_thread():
            end = self._end(stream, side)
            end.waits = True
            self._put_totals(end, steady_time())

    def returns(self, stream: str, side: Side) -> None:
        """Such a call has ended. After one that wrote a step `step` is enough: the step shows it."""
        end = self._ends.get((stream, side))
        if end is not None and end.waits:
            end.waits = False
            self._put_totals(end, steady_time())

    def step(
        self, stream: str, side: Side, nbytes: int | None, wait_s: float, io_s: float, device_s: float = 0.0
    ) -> None:
        """A step is finished. `nbytes` is None while only all ranks together know it."""
        compute_s = self.take_computing()
        if self._lines is None:
            self._end(stream, side).total.add(nbytes, wait_s, io_s, compute_s, device_s)
            return
        end, t = self._end(stream, side), steady_time()
        end.waits = False
        end.total.add(nbytes, wait_s, io_s, compute_s, device_s)
        if end.lines < FULL_STEPS:
            end.begin = end.begin or t
            end.lines += 1
            one = Sums(1, nbytes, wait_s, io_s, compute_s, device_s)
            self._append_steps(end, one, f'{{"kind": "step", "t": {t:.6f}, {end.names}, "step": {end.total.steps - 1}')
            end.since, end.due = t, t + interval_s(t - end.begin)
            if self._lines.is_behind:
                self._put_totals(end, t)
            return
        end.gathered.add(nbytes, wait_s, io_s, compute_s, device_s)
        if t >= end.due:
            self._flush(end, t)
        self._put_totals(end, t)

    def spent(self, stream: str, side: Side) -> tuple[float, float, float]:
        """Seconds of this rank: moving the data of all steps of an end, of a writer with its waiting; copying to and
        from a device for this end; and computing, of the whole stage, until now."""
        total = self._end(stream, side).total
        moving = total.io_s + (total.wait_s if side == "write" else 0.0)
        return moving, total.device_s, sum(end.total.compute_s for end in self._ends.values()) + self._computing

    def close(
        self,
        stream: str,
        side: Side,
        *,
        steps: int,
        error: str,
        nbytes: Sequence[int] | None = None,
        ranks: dict[str, Any] | None = None,
        **more: bool,
    ) -> None:
        """An end is closed; `error` marks it as left incomplete. `nbytes`: of each step, where they were not known;
        `ranks`: from `rank_times`."""
        if self._lines is None:
            return
        end, t = self._end(stream, side), steady_time()
        end.waits = False
        self._flush(end, t)
        known: dict[str, Any] = {}
        if nbytes is not None:
            known["bytes"] = _sums_by_line(nbytes, end.unknown)
            end.total.bytes = sum(nbytes)
        if ranks is not None:
            known["ranks"] = ranks
        self.write("close", stream=stream, side=side, steps=steps, complete=not error, error=error, **more, **known)
        end.complete = not error
        self._put_totals(end, t)

    def finish(self) -> None:
        """The last line: the program ends."""
        self._flush_all()
        self.write("end", compute_s=round(self.take_computing(), 6))
        if self._lines is not None:
            self._lines.flush()

    def _end(self, stream: str, side: Side) -> EndRecord:
        key = (stream, side)
        if key not in self._ends:
            names = f'"stream": {json.dumps(stream)}, "side": "{side}"'
            place = sum(end.size for end in self._ends.values())
            self._ends[key] = EndRecord(names, place, _TOTALS_SIZE + len(names))
        return self._ends[key]

    def _append_steps(self, end: EndRecord, sums: Sums, head: str) -> None:
        assert self._lines is not None
        if sums.bytes is None:
            end.unknown.append(sums.steps)
        self._lines.append(f"{head}, {sums.fields()}}}\n")

    def _flush(self, end: EndRecord, t: float) -> None:
        """Write the line of the steps that were gathered."""
        if end.gathered.steps:
            head = (
                f'{{"kind": "steps", "t": {t:.6f}, {end.names}, "step": {end.total.steps - 1}, '
                f'"count": {end.gathered.steps}, "since": {end.since:.6f}'
            )
            self._append_steps(end, end.gathered, head)
            end.gathered, end.since, end.due = Sums(), t, t + interval_s(t - end.begin)

    def _flush_all(self) -> None:
        for end in self._ends.values():
            self._flush(end, steady_time())

    def _put_totals(self, end: EndRecord, t: float) -> None:
        """Rewrite the line of totals, in place: on a full disk that needs no space."""
        assert self._lines is not None
        try:
            if self._progress is None:
                self._progress = os.open(
                    self._lines.path.with_name(PROGRESS_FILE), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644
                )
            os.pwrite(self._progress, end.to_totals(t).encode(), end.place)
        except OSError as error:
            self._lines.note_error(error)


def _is_only_thread() -> bool:
    """Whether no other thread of Python runs: it could act on a stream while this one waits."""
    return threading.active_count() == 1


def _report(error: OSError, path: str) -> None:
    text = f"warning: cannot write {path}: {error.strerror}; the program continues, and tries again later"
    # Not by sys.stderr, which may be a file on the same disk: it would keep what it cannot write, and Python would exit
    # with 120 when that fails again at the end.
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode())


def _sums_by_line(nbytes: Sequence[int], steps: Sequence[int]) -> list[int]:
    """The bytes of each line that was written without: of so many steps each."""
    sums, first = [], 0
    for count in steps:
        sums.append(sum(nbytes[first : first + count]))
        first += count
    return sums


def _to_note(dropped: int) -> str:
    return json.dumps({"kind": "lost", "t": round(steady_time(), 6), "lines": dropped}) + "\n"


_metrics: Metrics | None = None


def process_metrics() -> Metrics:
    """The metrics of this process."""
    global _metrics
    if _metrics is None:
        if rank() == 0 and settings.current().run_dir:
            keep_time_of(settings.current().run_dir)
        _metrics = Metrics(settings.current().metrics if rank() == 0 else None)
    return _metrics
