"""Writing through SSC, ADIOS2's coupler of programs that one MPI launch line has started; `ssc_source` reads.

SSC (2.12.1, source/adios2/engine/ssc) synchronises its two ends in collective calls without a limit: nothing times
out, and whoever comes first spins. So the ends announce themselves here first (`mpmd.Partner`), wait for each other
asleep and with a limit, and enter SSC's calls when both are there. A reader of several streams: see `turns`.

What else SSC does not do by itself, and how it is had nevertheless:

- It keeps the shape of the first step for ever: the reader forgets all variables before each step.
- A stream closed without a step crashes it, and its first step holds the writer until the reader is through with that:
  both ends pass an empty step when they open, and another one in a stream that has none.
- Strings above 255 bytes and attributes above 1 kB overrun its buffers, and changed attributes do not arrive: strings,
  single values and attributes go in a message of their own. SSC moves the arrays.
- The reader's gets go on only while the writer is inside MPI: it stays there until they are done, and computes then.
- A rank's step of 2 GiB or more overflows its counts: refused.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from workflow.formats.stage_file import StreamEnd
from workflow.stage.adios.write_engine import AdiosTarget
from workflow.stage.data.variables import Array, Block, product
from workflow.stage.ranks.mpmd_ranks import Partner, Word, readers_of
from workflow.stage.stage_errors import StageError, StreamTimeout
from workflow.stage.telemetry import process_metrics

_LARGEST = 2**31 - 2  # bytes of one rank in one step: one more is SSC's own, and MPI counts in int
_LONGEST_NAME = 255
# After a step the writer waits so long for the reader to begin with its gets; most programs do so at once.
_LINGER_S = 0.01


class SscTarget:
    """A stream for writing, in a launch line with its readers: SSC knows only one, so each has an engine of its own."""

    def __init__(self, end: StreamEnd) -> None:
        self._bytes = 0
        self._lines = [_Line(end, reader) for reader in readers_of(end)]

    def begin(self) -> None:
        """See `Target`. Readers may still be at the step before, whose arrays SSC holds: these are kept here."""
        self._bytes = 0

    def put(self, block: Block) -> None:
        """See `Target`."""
        if len(block.name.encode()) > _LONGEST_NAME:
            raise StageError(f"variable {block.name[:40]}…: with SSC a name has at most {_LONGEST_NAME} bytes")
        self._bytes += block.values.nbytes
        if self._bytes > _LARGEST:
            raise StageError(
                f"variable {block.name}: with SSC a rank writes less than 2 GiB a step: more ranks, or `via: sst`"
            )
        # Once for all readers; they need no copies of their own.
        kept = block if block.lent else block._replace(values=np.array(block.values), lent=True)
        for line in self._lines:
            line.put(kept)

    def put_share(self, block: Block) -> None:
        """See `Target`. Empty blocks are left out, except that an array of no elements at all must exist."""
        if block.values.size or not product(block.shape):
            self.put(block)

    def end(self) -> None:
        """See `Target`. Waits until the readers are through with the step before."""
        for line in self._lines:
            line.end()
        for line in self._lines:
            line.linger()

    def close(self) -> None:
        """See `Target`."""
        for line in self._lines:
            line.close()

    def abandon(self) -> None:
        """See `Target`. Closing needs the readers: the end of the process, and so of all of the launch, must do."""

    def attribute(self, name: str, value: Array | list[str]) -> None:
        """See `Target`."""
        for line in self._lines:
            line.attribute(name, value)


class _Line(AdiosTarget):
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
        self._blocks: list[Block] = []
        self._attributes: dict[str, Array | list[str]] = {}

    def put(self, block: Block) -> None:
        """See `Target`. Single values and strings go with the announcement of the step."""
        if block.type == "string" or not block.shape:
            self._values[block.name] = block.values
        else:
            self._blocks.append(block)

    def end(self) -> None:
        """See `Target`."""
        self._send(Word.STEP)

    def linger(self) -> None:
        """Serve the gets that follow at once."""
        self._listen(_LINGER_S, awake=True)

    def close(self) -> None:
        """See `Target`."""
        if not self._steps:
            self._send(Word.EMPTY)
        self._wait_for_reader()
        self._partner.say(Word.END)
        self._engine.Close()

    def attribute(self, name: str, value: Array | list[str]) -> None:
        """See `Target`."""
        self._attributes[name] = value

    def _send(self, word: Word) -> None:
        header = (self._values, self._attributes)
        self._wait_for_reader()
        headed = word is Word.STEP and any(header)
        self._partner.say(Word.HEADED if headed else word)
        if headed:
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

    def _wait_for_reader(self) -> None:
        """Until it is through with the last step."""
        while not self._released:
            self._listen(math.inf)

    def _listen(self, timeout_s: float, *, awake: bool = False) -> None:
        """Take what the reader says, and serve its gets."""
        word = self._partner.hear(timeout_s, awake=awake)
        while word is Word.FETCH:
            word = self._partner.hear(math.inf, awake=True)
        self._released = word is Word.RELEASED


def meet(end: StreamEnd, reader: str) -> Partner:
    """The other end, once it is about to open the stream as well. Raises StreamTimeout."""
    partner = Partner(end, reader)
    partner.say(Word.HERE)
    if partner.hear(end.open_timeout_s) is None:
        other = "its writer" if end.side == "read" else reader
        error = StreamTimeout(f"stream {end.stream}: {other} has not opened it within {end.open_timeout_s:g} s")
        process_metrics().error(end.stream, error)
        raise error
    return partner
