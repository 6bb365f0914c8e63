"""What this stage did, one JSON object a line, for the supervisor and the report. Rank 0 writes.

Every line goes out at once in one write to a file opened for appending (some microseconds): nothing is
lost or torn when the stage is killed, and the supervisor sees each step when it happens.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from workflow.stage import settings
from workflow.stage.ranks.communicator import rank


class Metrics:
    """The metrics file of one process, and the clock that splits its time into computing and the rest."""

    def __init__(self, path: str | None) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o644) if path else None
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
        """Seconds of computing since this was last asked, over all streams of the stage."""
        seconds, self._computing = self._computing, 0.0
        return seconds

    def write(self, kind: str, **fields: Any) -> None:
        """Append one line. Does nothing without a run, or on other ranks than 0."""
        if self._file is not None:
            line = {"kind": kind, "t": round(time.time(), 6), **fields}
            os.write(self._file, (json.dumps(line) + "\n").encode())

    def error(self, stream: str, error: Exception) -> None:
        """The line of an error that a stream met."""
        self.write("error", stream=stream, type=type(error).__name__, error=str(error))

    def step(self, ends: str, step: int, nbytes: int | None, wait_s: float, io_s: float) -> None:
        """The line of a finished step. `ends`: the JSON text that names stream and side; None: not known yet."""
        compute_s = self.take_computing()
        if self._file is not None:
            # By hand: this runs at every step, and json.dumps takes as long as the write.
            known = "null" if nbytes is None else nbytes
            text = (
                f'{{"kind": "step", "t": {time.time():.6f}, {ends}, "step": {step}, "bytes": {known}, '
                f'"wait_s": {wait_s:.6f}, "io_s": {io_s:.6f}, "compute_s": {compute_s:.6f}}}\n'
            )
            os.write(self._file, text.encode())


_metrics: Metrics | None = None


def process_metrics() -> Metrics:
    """The metrics of this process."""
    global _metrics
    if _metrics is None:
        _metrics = Metrics(settings.current().metrics if rank() == 0 else None)
    return _metrics
