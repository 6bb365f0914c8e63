"""Writing and reading through SSC, ADIOS2's engine for programs that one MPI launch line has started.

SSC (2.12.1, source/adios2/engine/ssc) synchronises its two ends in collective calls without a limit: nothing times
out, and the end that comes first spins. So the ends first announce each call (`Message`), wait for each other
idle and with a limit, and enter SSC's calls when both are there. Readers of several streams: `next_writer`.

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
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any

import numpy as np

from workflow.distribution.boxes import volume
from workflow.formats.stage_file import StreamEnd
from workflow.stage import settings
from workflow.stage.adios.read_engine import AdiosReadEngine
from workflow.stage.adios.write_engine import AdiosWriteEngine
from workflow.stage.ranks import note_opened, own_communicator, pause
from workflow.stage.stage_errors import StageError
from workflow.stage.stream_engines import StepStatus
from workflow.stage.telemetry import process_metrics
from workflow.stage.timeouts import open_timeout
from workflow.stage.variables import Array, BlockData, BlockTable, Info, Selection

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

    def put_local(self, name: str, blocks: Sequence[BlockData]) -> None:
        """See `WriteEngine`. `holds_local_blocks` says that SSC has none."""
        raise NotImplementedError

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


class SscReadEngine(AdiosReadEngine):
    """One engine opened for reading by this process, in a launch line with its writer."""

    def __init__(self, end: StreamEnd) -> None:
        reader = settings.current().stage
        readers_of(end)
        end = replace(end, path=f"{end.path}.{reader}")
        self.partner = meet(end, reader)
        super().__init__(end)
        self._ask(0.0)
        self._engine.EndStep()
        self._held = self._ended = False  # a step that SSC still has open; the writer has closed
        self.discarding = False  # the program has closed the stream: further steps are read and dropped
        self._begun: Message | None = None  # the message of a step that began before the program asked for it
        self._number = _add(self)
        self._values: dict[str, Array] = {}
        self._known: dict[str, Array | list[str]] = {}

    def begin(self, timeout_s: float) -> StepStatus:
        """See `ReadEngine`."""
        begin = time.monotonic()
        while self._begun is None and not self._ended:
            if not _serve_one(self._number, timeout_s - (time.monotonic() - begin)):
                return StepStatus.LATE
        if self._ended:
            return StepStatus.ENDED
        self._values, message, self._begun = {}, self._begun, None
        self._receive_header(message)
        return StepStatus.READY

    def end(self) -> int | None:
        """See `ReadEngine`. SSC's own EndStep waits for the writer's next step, so it is called when that comes."""
        self._release()
        return self._counter.end_step()

    def close(self) -> None:
        """See `ReadEngine`. SSC cannot close in the middle of a stream: the rest is received and dropped.

        While this process reads other streams of the launch as well, that happens beside them, at the latest when the
        last one is closed: one writer may write both, and wait until a step of the other stream is released.
        """
        self.discarding = True
        if self._begun is not None:
            self._discard_step()
        if self._ended:
            self.finish()
        _finish_all()

    def abandon(self) -> None:
        """See `ReadEngine`. Closing would need the writer: the end of the process ends all of the launch."""
        _remove(self._number)

    def variables(self) -> dict[str, Info]:
        """See `ReadEngine`."""
        return {**super().variables(), **{name: _info(value) for name, value in self._values.items()}}

    def info(self, name: str) -> Info | None:
        """See `ReadEngine`."""
        value = self._values.get(name)
        return super().info(name) if value is None else _info(value)

    def blocks(self, names: Sequence[str]) -> dict[str, BlockTable]:
        """See `ReadEngine`."""
        single = {name: BlockTable() for name in names if name in self._values}
        return {**single, **super().blocks([name for name in names if name not in self._values])}

    def attributes(self) -> dict[str, Array | list[str]]:
        """See `ReadEngine`."""
        return dict(self._known)

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """See `ReadEngine`."""
        arrays = self._get_arrays([each for each in wanted if each.name not in self._values])
        found = [self._values[each.name].copy() if each.name in self._values else next(arrays) for each in wanted]
        single = (self._values[each.name] for each in wanted if each.name in self._values)
        self._counter.add(sum(value.nbytes for value in single if value.dtype.kind != "U"))
        return found

    def _get_arrays(self, wanted: Sequence[Selection]) -> Iterator[Array]:
        """The arrays. The writer's ranks leave MPI when their readers are done, so all ranks here finish together."""
        if not wanted:
            return iter([])
        self.partner.send(Message.GETTING)
        found = super().get(wanted)
        if self._comm is not None:
            self._comm.Barrier()
        self.partner.send(Message.GOT)
        return iter(found)

    def serve(self) -> None:
        """Receive the writer's message and enter SSC with it; SSC's previous step ends before that. Collective."""
        message = self.partner.receive(math.inf)
        if self._held:
            self._engine.EndStep()
            self._held = False
        self._io.RemoveAllVariables()
        # Not by the status that SSC (2.12.1) returns: it sets `m_StepStatus` only at the end of a stream; before that
        # the value is uninitialised (SscReaderGeneric.cpp): one rank could see an end where the others see a step.
        self._ask(0.0)
        self._ended = message is Message.CLOSING
        if not self._ended:
            self._begun = message
            if self.discarding or message is Message.EMPTY_STEP:
                self._discard_step()

    def finish(self) -> None:
        """Receive and drop the rest of the stream, and close it. Collective."""
        while not self._ended:
            _serve_one(self._number, math.inf)
        _remove(self._number)
        self._engine.Close()

    def _release(self) -> None:
        self.partner.send(Message.RELEASED)
        self._held = True

    def _discard_step(self) -> None:
        message, self._begun = self._begun, None
        if message is Message.STEP_WITH_HEADER and (self._comm is None or self._comm.Get_rank() == 0):
            self.partner.receive_header()
        self._release()

    def _receive_header(self, message: Message | None) -> None:
        """Single values, strings and changed attributes of this step, on all ranks."""
        header: tuple[dict[str, Array], Mapping[str, Array | list[str]]] | None = None
        comm = own_communicator()
        if message is Message.STEP_WITH_HEADER and (comm is None or comm.Get_rank() == 0):
            header = self.partner.receive_header()
        header = header if comm is None else comm.bcast(header)
        if header is not None:
            self._values = header[0]
            self._known.update(header[1])


# The open streams of this process by number. All ranks open their streams in the same order, so the numbers agree.
_open: dict[int, SscReadEngine] = {}
_count = 0


def _add(engine: SscReadEngine) -> int:
    global _count
    _count += 1
    _open[_count] = engine
    return _count


def _remove(number: int) -> None:
    _open.pop(number, None)


def _serve_one(number: int, timeout_s: float) -> bool:
    """Wait for a message on stream `number` or another one, and serve it. False when none comes. Collective."""
    chosen = next_writer({each: engine.partner for each, engine in _open.items()}, number, timeout_s)
    if chosen is not None:
        _open[chosen].serve()
    return chosen is not None


def _finish_all() -> None:
    """Close the streams that the program has closed, unless it still reads another one. Collective."""
    if all(engine.discarding for engine in _open.values()):
        for engine in list(_open.values()):
            engine.finish()


def _info(value: Array) -> Info:
    return Info("string" if value.dtype.kind == "U" else value.dtype.name, value.shape)


_TAG = 900
_NONE = -1


# A writer that sends a step or closes is inside SSC until its readers enter SSC too. A stage that reads several streams
# may be waiting for another one meanwhile, and reader and writer would wait for each other without limit. So while it
# waits for a step of one stream, a reader enters SSC for whichever writer has sent a message.


def next_writer(writers: Mapping[int, Partner], preferred: int, timeout_s: float) -> int | None:
    """The number of a writer that has sent a message, `preferred` first; None when none does within `timeout_s`.

    Collective over the reader's ranks, with the same result: SSC's calls are collective, so rank 0 chooses for all.
    """
    comm = own_communicator()
    if comm is None or comm.Get_rank() == 0:
        chosen = _choose(writers, preferred, timeout_s)
        for rank in range(1, 1 if comm is None else comm.Get_size()):
            comm.Send(np.array([chosen], np.int32), rank, _TAG)
    else:
        chosen = _receive_choice(comm)
    return None if chosen == _NONE else chosen


def _choose(writers: Mapping[int, Partner], preferred: int, timeout_s: float) -> int:
    begin = time.monotonic()
    others = [number for number in writers if number != preferred]
    while True:
        for number in (preferred, *others):
            if writers[number].has_message():
                return number
        waited = time.monotonic() - begin
        if waited >= timeout_s:
            return _NONE
        pause(waited)


def _receive_choice(comm: Any) -> int:
    begin, chosen = time.monotonic(), np.zeros(1, np.int32)
    while not comm.Iprobe(0, _TAG):
        pause(time.monotonic() - begin)
    comm.Recv(chosen, 0, _TAG)
    return int(chosen[0])
