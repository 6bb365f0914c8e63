"""Reading through SSC. Its properties, and how they are dealt with: `ssc_writer`."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from workflow.formats.stage_file import StreamEnd
from workflow.stage import settings
from workflow.stage.adios.read_engine import AdiosReadEngine
from workflow.stage.data.variables import Array, BlockTable, Info, Selection
from workflow.stage.ranks.communicator import own_communicator, pause
from workflow.stage.ssc.ssc_messages import Message, Partner, meet, readers_of
from workflow.stage.stream_engines import StepStatus


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
