"""Control messages between the two ends of an SSC stream, beside the data: who opens, sends, reads or closes.

They go through MPI_COMM_WORLD, which in a launch of several stages belongs to this package, and are waited for without
occupying a core.
"""

from __future__ import annotations

import time
from enum import IntEnum
from typing import Any

import numpy as np

from workflow.formats.stage_file import StreamEnd
from workflow.stage import settings
from workflow.stage.ranks.communicator import note_opened, pause
from workflow.stage.stage_errors import StageError
from workflow.stage.telemetry import process_metrics
from workflow.stage.timeouts import open_timeout

_FIRST_TAG = 1000


class Message(IntEnum):
    """What one end of a stream announces to the other."""

    OPENING = 1  # both: about to open
    STEP = 2  # writer: about to send a step
    STEP_WITH_HEADER = 3  # writer: the same, and a header with what SSC cannot send follows
    EMPTY_STEP = 4  # writer: about to send a step that does not count
    CLOSING = 5  # writer: about to close
    GETTING = 6  # reader: about to get arrays
    GOT = 7  # reader: has got them
    RELEASED = 8  # reader: is done with the step


class Partner:
    """The ranks at the other end of a stream, as one reader stage and the writer see each other.

    Every rank here receives from one rank there, and sends to those that receive from it.
    """

    def __init__(self, end: StreamEnd, reader: str) -> None:
        from mpi4py import MPI

        group = settings.current().group
        assert group is not None
        self._world = MPI.COMM_WORLD
        writer = group.streams[end.stream][0]
        own, other = (writer, reader) if end.side == "write" else (reader, writer)
        first, count = group.ranks[own]
        self.first, number = group.ranks[other]
        rank = self._world.Get_rank() - first
        self._source = self.first + rank % number
        self._destinations = [self.first + each for each in range(number) if each % count == rank]
        lines = sorted((name, each) for name, ends in group.streams.items() for each in ends[1:])
        self.tag = _FIRST_TAG + 2 * lines.index((end.stream, reader))
        self._received = np.zeros(1, np.int32)
        self._sent: list[tuple[Any, Any]] = []
        note_opened(end.stream)

    def send(self, message: Message) -> None:
        """Send to the other end. Does not wait."""
        self._sent = [(request, kept) for request, kept in self._sent if not request.Test()]
        text = np.array([message], np.int32)
        self._sent += [(self._world.Isend(text, rank, self.tag), text) for rank in self._destinations]

    def receive(self, timeout_s: float, *, busy: bool = False) -> Message | None:
        """The next message of the other end; None when none arrives within `timeout_s`.

        `busy`: poll without pauses, so that MPI progresses the transfers of this process. Occupies a core.
        """
        begin = time.monotonic()
        while not self.has_message():
            waited = time.monotonic() - begin
            if waited >= timeout_s:
                return None
            if not busy:
                pause(waited)
        self._world.Recv(self._received, self._source, self.tag)
        return Message(int(self._received[0]))

    def has_message(self) -> bool:
        """Whether a message of the other end waits to be received."""
        return bool(self._world.Iprobe(self._source, self.tag))

    def send_header(self, header: Any) -> None:
        """From the first rank here to the first rank there. Does not wait."""
        self._sent.append((self._world.isend(header, self.first, self.tag + 1), None))

    def receive_header(self) -> Any:
        """On the first rank here, after `STEP_WITH_HEADER`."""
        return self._world.recv(source=self.first, tag=self.tag + 1)


def readers_of(end: StreamEnd) -> list[str]:
    """The stages that read this stream. Raises StageError for a stream that does not belong to this launch line."""
    group = settings.current().group
    if group is None or end.stream not in group.streams:
        raise StageError(
            f"stream {end.stream}: SSC couples programs that one launch line has started, which `wf run` does for "
            "streams with `via: ssc`"
        )
    return list(group.streams[end.stream][1:])


def meet(end: StreamEnd, reader: str) -> Partner:
    """The other end of the stream, once it is about to open the stream as well.

    Raises StreamTimeout when it does not come within `end.open_timeout_s`.
    """
    partner = Partner(end, reader)
    partner.send(Message.OPENING)
    if partner.receive(end.open_timeout_s) is None:
        error = open_timeout(end, "its writer" if end.side == "read" else reader)
        process_metrics().error(end.stream, error)
        raise error
    return partner
