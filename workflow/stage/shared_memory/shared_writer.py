"""Writing steps into memory that readers on the same node map.

Each rank has the memory of `queue.limit` + 1 steps. A step is filled, its layout is gathered on the first rank, and
that one tells the readers where it is. Its memory is used again when all readers have finished the step, or are gone:
a reader that dies, or stops, never hurts the writer.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from workflow.distribution.boxes import Shape, volume
from workflow.formats.stage_file import StreamEnd
from workflow.stage.adios.serial_gather import together
from workflow.stage.ranks import own_communicator
from workflow.stage.shared_memory.attribute_values import to_json
from workflow.stage.shared_memory.reader_sockets import Listener, MessageSocket, wait_for_any
from workflow.stage.shared_memory.step_memory import PinnedSegment, PlaceInSegment, StepMemory
from workflow.stage.stage_errors import RanksDiffer
from workflow.stage.variables import Array, BlockData


class SharedMemoryWriteEngine:
    """One stream for writing, on all ranks. Opening it waits for the readers."""

    def __init__(self, end: StreamEnd) -> None:
        self._comm = own_communicator()
        self._rank = 0 if self._comm is None else int(self._comm.Get_rank())
        self._limit, self._discards = end.queue
        self._free: list[StepMemory] = []
        self._held: dict[int, StepMemory] = {}  # step → its memory, until all readers have finished it
        self._numbers = count()  # of segments
        self._now = StepMemory(self._numbers)
        self._layout: dict[str, list[Any]] = {}
        self._rooms: dict[int, PlaceInSegment] = {}  # address of an array in the memory of this step → its place
        self._attributes: dict[str, Any] = {}  # those that readers do not know yet
        self._sent = 0  # how many steps
        self._gone: list[int] = []  # segments that readers may forget
        self._readers: list[MessageSocket] = []
        self._done: dict[MessageSocket, int] = {}
        self._listener: Listener | None = None  # of the first rank
        together(lambda: self._accept(end))

    def begin(self) -> None:
        """See `WriteEngine`."""
        self._layout, self._rooms = {}, {}
        self._now = self._free.pop() if self._free else StepMemory(self._numbers)

    def put(self, block: BlockData) -> None:
        """See `WriteEngine`."""
        name, kind, values, _, start = block[:5]
        shape = None if block.local else block.shape
        _, _, blocks = self._layout.setdefault(name, [kind, shape, []])
        self._layout[name][1] = shape
        if kind == "string":
            blocks.append(str(values[()]))
            return
        place = self._rooms.get(_address(values)) if block.lent else None
        if place is None:
            room, _ = self.room(values.shape, kind)
            np.copyto(room, values)
            place = self._rooms[_address(room)]
        blocks.append([self._rank, start, values.shape, *place])

    def room(self, shape: Shape, kind: str) -> tuple[Array, PinnedSegment]:
        """See `GivesRoom`."""
        taken = self._now.take(shape, kind)
        self._rooms[_address(taken.array)] = taken.place
        return taken.array, taken.segment

    def put_share(self, block: BlockData) -> None:
        """See `WriteEngine`. Empty blocks are left out, unless the whole array has no elements."""
        if block.values.size or not volume(block.shape):
            self.put(block)

    def put_local(self, name: str, blocks: Sequence[BlockData]) -> None:
        """See `WriteEngine`."""
        del name
        for block in blocks:
            self.put(block._replace(start=(0,) * block.values.ndim))

    def end(self) -> None:
        """See `WriteEngine`. Waits while the queue is full, or drops the step.

        Raises RanksDiffer, on all ranks, where a variable has another type or shape on some of them.
        """
        mine = (os.getpid(), self._now.names, self._gone), self._layout
        of_all = [mine] if self._comm is None else self._comm.gather(mine)
        finished = together(lambda: self._send(of_all))
        if finished is None:
            self._give_back(self._now)
            return
        self._gone = []
        self._held[self._sent] = self._now
        self._sent += 1
        for step in [step for step in self._held if step < finished]:
            self._give_back(self._held.pop(step))

    def close(self) -> None:
        """See `WriteEngine`. Waits until the readers have finished all steps: their data are in this process."""
        together(self._send_end)
        self.abandon()

    def abandon(self) -> None:
        """See `WriteEngine`."""
        for reader in self._readers:
            reader.close()
        self._readers = []
        if self._listener is not None:
            self._listener.close()
        for memory in [self._now, *self._free, *self._held.values()]:
            memory.free()
        self._free, self._held = [], {}

    def attribute(self, name: str, value: Array | list[str]) -> None:
        """See `WriteEngine`."""
        self._attributes[name] = to_json(value)

    def _accept(self, end: StreamEnd) -> None:
        self._listener = Listener(Path(end.path + end.traits.contact_suffix))
        self._readers = self._listener.accept(int(end.parameters.get("RendezvousReaderCount", "1")))
        self._done = dict.fromkeys(self._readers, 0)

    def _send_end(self) -> None:
        self._send_all({"end": True})
        self._wait_for_room(self._sent, 0)

    def _send_all(self, message: Any) -> None:
        for reader in self._readers:
            reader.send(message)

    def _send(self, of_all: Sequence[Any]) -> int | None:
        """Tell the readers where the step is, and wait for room. Returns how many steps all of them have finished;
        None: the queue is full, and the step is dropped."""
        self._take_answers(0.0)
        if self._discards and self._sent - self._finished(self._sent) >= self._limit:
            return None
        variables: dict[str, list[Any]] = {}
        for _, layout in of_all:
            for name, (kind, shape, blocks) in layout.items():
                one = variables.setdefault(name, [kind, shape, []])
                if [kind, shape] != one[:2]:
                    raise RanksDiffer(f"variable {name}: one rank has {one[0]} {one[1]}, another one {kind} {shape}")
                one[2] += blocks
        layout = {"ranks": [memory for memory, _ in of_all], "variables": variables, "attributes": self._attributes}
        # Sockets hold little: what may be long is in the memory, and written once for all readers.
        encoded = json.dumps(layout, separators=(",", ":")).encode()
        text = self._now.take((len(encoded),), "uint8")
        text.array[:] = np.frombuffer(encoded, np.uint8)
        self._attributes = {}
        at = {"pid": os.getpid(), "segment": text.segment.name, "at": [text.place.offset, len(encoded)]}
        self._send_all({"step": self._sent, **at})
        sent = self._sent + 1
        self._wait_for_room(sent, self._limit or sent)
        return self._finished(sent)

    def _wait_for_room(self, sent: int, limit: int) -> None:
        """Wait until at most so many of the steps that were sent are not finished."""
        while sent - self._finished(sent) > limit:
            self._take_answers(math.inf)

    def _finished(self, sent: int) -> int:
        """How many of the steps that were sent all readers have finished; all, where no reader is left."""
        return min((self._done[reader] for reader in self._readers), default=sent)

    def _take_answers(self, timeout_s: float) -> None:
        """What the readers have finished since, after a wait for one that says something, or is gone."""
        wait_for_any(self._readers, timeout_s)
        for reader in [*self._readers]:
            reader.flush()
            while (message := reader.take(0.0)) is not None:
                self._done[reader] = message["done"]
            if reader.closed:
                reader.close()
                self._readers.remove(reader)

    def _give_back(self, memory: StepMemory) -> None:
        self._gone += memory.clear()
        self._free.append(memory)


def _address(values: Array) -> int:
    return int(values.__array_interface__["data"][0])
