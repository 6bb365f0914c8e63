"""Writing through SSC, ADIOS2's engine for programs that one MPI launch line has started.

SSC (2.12.1, source/adios2/engine/ssc) synchronises its two ends in collective calls without a limit: nothing times
out, and the end that comes first spins. So the ends first announce each call (`ssc_messages`), wait for each other
idle and with a limit, and enter SSC's calls when both are there. Readers of several streams: `ssc_reader`.

Other properties of SSC, and how they are dealt with:

- The shapes of the first step stay for ever: the reader removes all variables before each step.
- A stream closed without a step crashes, and the first step holds the writer until the reader is done with it: both
  ends exchange an empty step when they open, and another one in a stream without steps.
- Strings above 255 bytes and attributes above 1 kB overrun its buffers, and changed attributes do not arrive: strings,
  single values and attributes are sent in a header message of our own. SSC moves the arrays.
- The reader's gets progress only while the writer is inside MPI: the writer stays there until they are done.
- A step of 2 GiB or more per rank overflows its counts: refused.
- The status that BeginStep returns is uninitialised memory except at the end: the reader goes by the message instead.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from workflow.distribution import volume
from workflow.formats.stage_file import StreamEnd
from workflow.stage.adios.write_engine import AdiosWriteEngine
from workflow.stage.data.variables import Array, BlockData
from workflow.stage.ssc.ssc_messages import Message, meet, readers_of
from workflow.stage.stage_errors import StageError

_MOST_BYTES = 2**31 - 2  # of one rank in one step: one byte is SSC's own, and MPI counts in int
_LONGEST_NAME = 255
# How long the writer waits after a step for the reader to begin with its gets; most programs do so at once.
_LINGER_S = 0.01


class SscWriteEngine:
    """A stream for writing, in a launch line with its readers. SSC has one reader, so each has an engine of its own."""

    def __init__(self, end: StreamEnd) -> None:
        self._bytes = 0
        self._connections = [_ReaderConnection(end, reader) for reader in readers_of(end)]

    def begin(self) -> None:
        """See `WriteEngine`. Readers may still use the step before, whose arrays SSC refers to: they are kept here."""
        self._bytes = 0

    def put(self, block: BlockData) -> None:
        """See `WriteEngine`."""
        if len(block.name.encode()) > _LONGEST_NAME:
            raise StageError(f"variable {block.name[:40]}…: with SSC a name has at most {_LONGEST_NAME} bytes")
        self._bytes += block.values.nbytes
        if self._bytes > _MOST_BYTES:
            raise StageError(
                f"variable {block.name}: with SSC a rank can write less than 2 GiB per step; use more ranks, or "
                "`via: sst`"
            )
        # One copy for all readers.
        kept = block if block.lent else block._replace(values=np.array(block.values), lent=True)
        for connection in self._connections:
            connection.put(kept)

    def put_share(self, block: BlockData) -> None:
        """See `WriteEngine`. Empty blocks are left out, unless the whole array has no elements."""
        if block.values.size or not volume(block.shape):
            self.put(block)

    def end(self) -> None:
        """See `WriteEngine`. Waits until the readers are done with the step before."""
        for connection in self._connections:
            connection.end()
        for connection in self._connections:
            connection.linger()

    def close(self) -> None:
        """See `WriteEngine`."""
        for connection in self._connections:
            connection.close()

    def abandon(self) -> None:
        """See `WriteEngine`. Closing would need the readers: the end of the process ends all of the launch."""

    def attribute(self, name: str, value: Array | list[str]) -> None:
        """See `WriteEngine`."""
        for connection in self._connections:
            connection.attribute(name, value)


class _ReaderConnection(AdiosWriteEngine):
    """One engine opened for writing by this process, and its reader."""

    def __init__(self, end: StreamEnd, reader: str) -> None:
        end = replace(end, path=f"{end.path}.{reader}")
        self._partner = meet(end, reader)
        super().__init__(end)
        self._engine.BeginStep()
        self._engine.EndStep()
        self._steps = 0
        self._released = True
        self._values: dict[str, Array] = {}
        self._blocks: list[BlockData] = []
        self._attributes: dict[str, Array | list[str]] = {}

    def put(self, block: BlockData) -> None:
        """See `WriteEngine`. Single values and strings are sent in the header of the step."""
        if block.type == "string" or not block.shape:
            self._values[block.name] = block.values
        else:
            self._blocks.append(block)

    def end(self) -> None:
        """See `WriteEngine`."""
        self._send(Message.STEP)

    def linger(self) -> None:
        """Serve the gets of a reader that begins with them at once."""
        self._listen(_LINGER_S, busy=True)

    def close(self) -> None:
        """See `WriteEngine`."""
        if not self._steps:
            self._send(Message.EMPTY_STEP)
        self._wait_for_release()
        self._partner.send(Message.CLOSING)
        self._engine.Close()

    def attribute(self, name: str, value: Array | list[str]) -> None:
        """See `WriteEngine`."""
        self._attributes[name] = value

    def _send(self, message: Message) -> None:
        header = (self._values, self._attributes)
        self._wait_for_release()
        has_header = message is Message.STEP and any(header)
        self._partner.send(Message.STEP_WITH_HEADER if has_header else message)
        if has_header:
            self._partner.send_header(header)
        self._engine.BeginStep()
        for block in self._blocks:
            super().put(block)
        self._engine.EndStep()
        self._values, self._attributes = {}, {}
        self._blocks.clear()
        self._lent.clear()
        self._steps += 1
        self._released = False

    def _wait_for_release(self) -> None:
        """Return when the reader is done with the last step."""
        while not self._released:
            self._listen(math.inf)

    def _listen(self, timeout_s: float, *, busy: bool = False) -> None:
        """Receive the reader's messages, and stay inside MPI while it gets arrays."""
        message = self._partner.receive(timeout_s, busy=busy)
        while message is Message.GETTING:
            message = self._partner.receive(math.inf, busy=True)
        self._released = message is Message.RELEASED
