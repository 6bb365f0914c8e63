"""The two rates of a stream, each defined once: the live display, `wf status`, the report and its tables use these.

*Throughput* is what a user waits for: bytes over the time of the stream. *Transfer rate* is what the transport does:
bytes over the time spent in I/O.
"""

from __future__ import annotations

from collections.abc import Iterable

THROUGHPUT = (
    "throughput: data ÷ the time of the stream, from its opening to its close (to its last step while it is open)"
)
TRANSFER_RATE = (
    "transfer rate: data ÷ the time spent in I/O: of a writer from begin_step to the return of end_step, where it may "
    "wait for room in the queue; of a reader its loads and end_step, without the wait for the next step"
)


def throughput(count: float | None, opened: float | None, last: float | None) -> float | None:
    """`count` bytes (or steps) over the time of the stream, per second. `last`: its close, or its last step.

    Times are Unix seconds. None where one of the three is unknown, nothing was moved, or no time passed.
    """
    if not count or opened is None or last is None or last <= opened:
        return None
    return count / (last - opened)


def transfer_rate(count: int | None, io_s: float | None) -> float | None:
    """`count` bytes over the time spent in I/O, in bytes per second. None where one of them is unknown or 0."""
    return count / io_s if count and io_s else None


def bytes_moved(written: int | None, read: Iterable[int | None]) -> int | None:
    """Bytes of a stream: what was written, or else what the reader that read most has read. None: unknown."""
    return written or max((count for count in read if count), default=None)
