"""Reading steps from memory that their writer shares."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workflow.distribution.boxes import Block, Shape, is_covered, overlap, volume
from workflow.formats.stage_file import StreamEnd
from workflow.stage import settings
from workflow.stage.adios.serial_gather import together
from workflow.stage.ranks import own_communicator, size
from workflow.stage.shared_memory.attribute_values import from_json
from workflow.stage.shared_memory.reader_sockets import connect
from workflow.stage.shared_memory.step_memory import MappedMemory, PinnedSegment, PlaceInSegment, SegmentName
from workflow.stage.stage_errors import StreamFailed
from workflow.stage.stream_engines import ByteCounter, StepStatus
from workflow.stage.variables import Array, BlockTable, Info, Selection, fresh_array


class SharedMemoryReadEngine:
    """One stream for reading. Each rank has a connection of its own to the writer."""

    def __init__(self, end: StreamEnd) -> None:
        self._comm = own_communicator()
        self._counter = ByteCounter(self._comm)
        self._memory = MappedMemory(end.stream)
        contact = Path(end.path + end.traits.contact_suffix)
        # Ranks of a program that no run has started have no other name in common.
        attempt = together(lambda: secrets.token_hex(8))
        hello = {"reader": settings.current().stage or attempt, "attempt": attempt, "ranks": size()}
        self._writer = connect(end.stream, contact, hello)
        self._next: Any = None  # the message that has come
        self._steps = 0
        self._variables: dict[str, Any] = {}
        self._pids: list[int] = []  # of the writing ranks
        self._attributes: dict[str, Array | list[str]] = {}

    def begin(self, timeout_s: float) -> StepStatus:
        """See `ReadEngine`."""
        if self._next is None:
            self._next = self._writer.take(timeout_s)
        there = self._next is not None or self._writer.closed
        if not timeout_s and self._comm is not None:
            # It may come in between: all ranks must get the same answer.
            there = self._comm.allreduce(int(there)) == self._comm.Get_size()
        if not there:
            return StepStatus.LATE
        message, self._next = self._next, None
        if message is None:
            return StepStatus.FAILED
        if "end" in message:
            return StepStatus.ENDED
        try:
            layout = self._read_layout(message)
        except StreamFailed:  # it has died since
            return StepStatus.FAILED
        self._variables, self._pids = layout["variables"], [pid for pid, _, _ in layout["ranks"]]
        for name, value in layout["attributes"].items():
            self._attributes[name] = from_json(value)
        for pid, segments, gone in layout["ranks"]:
            self._memory.note(pid, (SegmentName(*each) for each in segments), gone)
        return StepStatus.READY

    def _read_layout(self, message: Mapping[str, Any]) -> Any:
        """What is in the step, and where, from the memory of the first writing rank."""
        pid, segment, (offset, length) = message["pid"], SegmentName(*message["segment"]), message["at"]
        self._memory.note(pid, [segment], [])
        text = self._memory.array(pid, PlaceInSegment(segment.number, offset), (length,), "uint8")
        return json.loads(text.tobytes())

    def end(self) -> int | None:
        """See `ReadEngine`."""
        self._steps, self._variables = self._steps + 1, {}
        self._writer.send({"done": self._steps})
        return self._counter.end_step()

    def bytes_of_all(self) -> list[int] | None:
        """See `ReadEngine`."""
        return self._counter.of_all()

    def close(self) -> None:
        """See `ReadEngine`."""
        self.abandon()

    def abandon(self) -> None:
        """See `ReadEngine`."""
        self._writer.close()
        self._memory.clear()

    def variables(self) -> dict[str, Info]:
        """See `ReadEngine`."""
        return {name: _info(kind, shape) for name, (kind, shape, _) in self._variables.items()}

    def info(self, name: str) -> Info | None:
        """See `ReadEngine`."""
        found = self._variables.get(name)
        return None if found is None else _info(found[0], found[1])

    def blocks(self, names: Sequence[str]) -> dict[str, BlockTable]:
        """See `ReadEngine`."""
        return {name: BlockTable(tuple(self._blocks(name)), self._variables[name][1] is None) for name in names}

    def _blocks(self, name: str) -> Iterator[Block]:
        kind, _, blocks = self._variables[name]
        for rank, start, extent, _, _ in blocks if kind != "string" else ():
            yield Block(tuple(start), tuple(extent), rank)

    def attributes(self) -> Mapping[str, Array | list[str]]:
        """See `ReadEngine`."""
        return dict(self._attributes)

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """See `ReadEngine`."""
        return [self._get(each) for each in wanted]

    def segment_of(self, wanted: Selection) -> PinnedSegment | None:
        """See `SharesMemory`."""
        kind, _, blocks = self._variables[wanted.name]
        for block in reversed(blocks):  # of what was written twice the last one counts
            if (part := self._part(wanted, kind, block)) is not None:
                values = part[1]
                in_one = values.shape == wanted.extent and values.flags.c_contiguous
                return self._memory.segment(self._pids[block[0]], PlaceInSegment(*block[3:])) if in_one else None
        return None

    def _get(self, wanted: Selection) -> Array:
        kind, _, blocks = self._variables[wanted.name]
        if kind == "string":
            return np.array(blocks[-1])
        if wanted.block is not None:
            blocks = [blocks[wanted.block]]
        parts = [part for block in blocks if (part := self._part(wanted, kind, block)) is not None]
        # Of what was written twice the last one counts.
        whole = parts[-1][1] if parts and parts[-1][1].shape == wanted.extent else None
        self._counter.add(np.dtype(kind).itemsize * volume(wanted.extent))
        if wanted.shared and whole is not None:
            return whole
        found = fresh_array(wanted.extent, kind) if wanted.into is None else wanted.into
        if whole is None and not is_covered(Block(*wanted[1:3]), tuple(self._blocks(wanted.name))):
            found[...] = 0
        for box, values in parts:
            found[box] = values
        return found

    def _part(self, wanted: Selection, kind: str, block: Sequence[Any]) -> tuple[tuple[slice, ...], Array] | None:
        """What a block has of a box: where in the box it is, and the values, read-only; None: nothing."""
        rank, start, extent, *place = block
        common = overlap(Block(tuple(start), tuple(extent)), Block(wanted.start, wanted.extent))
        if common is None:
            return None
        values = self._memory.array(self._pids[rank], PlaceInSegment(*place), tuple(extent), kind)
        in_block, in_box = (
            tuple(slice(low - first, low - first + length) for low, length, first in zip(*common, begin, strict=True))
            for begin in (start, wanted.start)
        )
        inside: tuple[Any, ...] = (*in_block, ...)  # that of a scalar is an array, too
        return in_box, values[inside]


def _info(kind: str, shape: Shape | None) -> Info:
    return Info(kind, tuple(shape or ()), shape is None)
