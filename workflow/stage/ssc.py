"""Reading and writing through SSC, ADIOS2's coupler of programs that one MPI launch line has started.

SSC (2.12.1, source/adios2/engine/ssc) synchronises its two ends in collective calls without a limit: nothing times
out, and whoever comes first spins. So the ends announce themselves here first (`mpmd.Partner`), wait for each other
asleep and with a limit, and enter SSC's calls when both are there.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from workflow.stage import settings
from workflow.stage.communicator import own_communicator
from workflow.stage.errors import StageError, StreamTimeout
from workflow.stage.metrics import process_metrics
from workflow.stage.mpmd import Partner, Word, readers_of
from workflow.stage.settings import End
from workflow.stage.shares import Blocks
from workflow.stage.source import AdiosSource, Status
from workflow.stage.target import AdiosTarget
from workflow.stage.variables import Array, Block, Info, Selection, product

_LARGEST = 2**31 - 2  # bytes of one rank in one step: one more is SSC's own, and MPI counts in int
_LONGEST_NAME = 255
# After a step the writer waits so long for the reader to begin with its gets; most programs do so at once.
_LINGER_S = 0.01


class SscTarget:
    """A stream for writing, in a launch line with its readers: SSC knows only one, so each has an engine of its own."""

    def __init__(self, end: End) -> None:
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

    def __init__(self, end: End, reader: str) -> None:
        end = replace(end, path=f"{end.path}.{reader}")
        self._partner = _meet(end, reader)
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


class SscSource(AdiosSource):
    """One engine opened for reading by this process, in a launch line with its writer."""

    def __init__(self, end: End) -> None:
        reader = settings.current().stage
        readers_of(end)
        end = replace(end, path=f"{end.path}.{reader}")
        self._partner = _meet(end, reader)
        super().__init__(end)
        self._ask(0.0)
        self._engine.EndStep()
        self._held = self._ended = False  # a step that SSC has still open; the writer has closed
        self._values: dict[str, Array] = {}
        self._known: dict[str, Array | list[str]] = {}

    def begin(self, timeout_s: float) -> Status:
        """See `Source`."""
        while (word := self._next(timeout_s)) is Word.EMPTY:
            self._enter()
            self.end()
        if word is None:
            return Status.LATE
        self._values = {}
        status = self._enter()
        self._ended = status is Status.ENDED
        if not self._ended:
            self._take_header(word)
        return status

    def end(self) -> int:
        """See `Source`. SSC's own end waits for the writer's next step, and is left until that comes."""
        self._partner.say(Word.RELEASED)
        self._held = True
        total, self._bytes = self._bytes, 0
        return total if self._comm is None else self._comm.reduce(total) or 0

    def close(self) -> None:
        """See `Source`. SSC has no way out in the middle: what is left of the stream passes unread."""
        while not self._ended:
            if self.begin(math.inf) is Status.READY:
                self.end()
        self._engine.Close()

    def abandon(self) -> None:
        """See `Source`. Closing needs the writer: the end of the process, and so of all of the launch, must do."""

    def variables(self) -> dict[str, Info]:
        """See `Source`."""
        return {**super().variables(), **{name: _info(value) for name, value in self._values.items()}}

    def info(self, name: str) -> Info | None:
        """See `Source`."""
        value = self._values.get(name)
        return super().info(name) if value is None else _info(value)

    def blocks(self, names: Sequence[str]) -> dict[str, Blocks]:
        """See `Source`."""
        alone = {name: Blocks() for name in names if name in self._values}
        return {**alone, **super().blocks([name for name in names if name not in self._values])}

    def attributes(self) -> dict[str, Array | list[str]]:
        """See `Source`."""
        return dict(self._known)

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """See `Source`."""
        arrays = self._fetch([each for each in wanted if each.name not in self._values])
        found = [self._values[each.name].copy() if each.name in self._values else next(arrays) for each in wanted]
        alone = (self._values[each.name] for each in wanted if each.name in self._values)
        self._bytes += sum(value.nbytes for value in alone if value.dtype.kind != "U")
        return found

    def _fetch(self, wanted: Sequence[Selection]) -> Iterator[Array]:
        """The arrays. All ranks are served until the last has its own, for their writers then leave."""
        if not wanted:
            return iter([])
        self._partner.say(Word.FETCH)
        found = super().get(wanted)
        if self._comm is not None:
            self._comm.Barrier()
        self._partner.say(Word.FETCHED)
        return iter(found)

    def _next(self, timeout_s: float) -> Word | None:
        """What the writer is about to do: send a step, or close. In both cases SSC's last step ends first."""
        word = self._partner.hear(timeout_s)
        if self._held and word is not None:
            self._engine.EndStep()
            self._held = False
        return word

    def _enter(self) -> Status:
        self._io.RemoveAllVariables()
        return self._ask(0.0)

    def _take_header(self, word: Word) -> None:
        """Single values, strings and changed attributes of this step, on all ranks."""
        header: tuple[dict[str, Array], Mapping[str, Array | list[str]]] | None = None
        comm = own_communicator()
        if word is Word.HEADED and (comm is None or comm.Get_rank() == 0):
            header = self._partner.take_header()
        header = header if comm is None else comm.bcast(header)
        if header is not None:
            self._values = header[0]
            self._known.update(header[1])


def _meet(end: End, reader: str) -> Partner:
    """The other end, once it is about to open the stream as well. Raises StreamTimeout."""
    partner = Partner(end, reader)
    partner.say(Word.HERE)
    if partner.hear(end.open_timeout_s) is None:
        other = "its writer" if end.side == "read" else reader
        error = StreamTimeout(f"stream {end.stream}: {other} has not opened it within {end.open_timeout_s:g} s")
        process_metrics().error(end.stream, error)
        raise error
    return partner


def _info(value: Array) -> Info:
    return Info("string" if value.dtype.kind == "U" else value.dtype.name, value.shape)
