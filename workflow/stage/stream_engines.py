"""What a reader and a writer need of an engine, whatever the engine is.

| implementation | in |
|---|---|
| an ADIOS2 engine of this process | `adios/read_engine`, `adios/write_engine` |
| an engine of rank 0, for all ranks | `adios/serial_gather` |
| an HDF5 file through h5py | `hdf5` |
| memory that both ends share | `shared_memory/` |
| two engines, one after the other | `joined_engine` |
| a file that a running run writes | `adios/followed_engine` |
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import zip_longest
from typing import Any, Protocol, runtime_checkable

from workflow.distribution.boxes import Shape
from workflow.stage.variables import Array, BlockData, BlockTable, Info, Selection


class StepStatus(Enum):
    """The result of waiting for a step."""

    READY = "ready"
    LATE = "late"  # the timeout has passed
    ENDED = "ended"  # the writer has closed the stream
    FAILED = "failed"  # the writer is gone and has not closed the stream


class ReadEngine(Protocol):
    """One stream or file opened for reading."""

    def begin(self, timeout_s: float) -> StepStatus:
        """Wait for the next step. Collective, with the same result on all ranks."""

    def end(self) -> int | None:
        """Release the step. Collective. Returns, on rank 0, the bytes that all ranks read in it, if already known."""

    def bytes_of_all(self) -> list[int] | None:
        """On rank 0 the bytes that all ranks read, per step, where `end` returns None; else None. Collective."""

    def close(self) -> None:
        """Close the stream."""

    def abandon(self) -> None:
        """Close the stream in whatever state it is. Not collective."""

    def variables(self) -> dict[str, Info]:
        """The variables of this step."""

    def info(self, name: str) -> Info | None:
        """One variable of this step; None if the step does not have it."""

    def blocks(self, names: Sequence[str]) -> dict[str, BlockTable]:
        """The blocks that the writer's ranks put, of those variables for which they are known.

        Collective where one rank reads for all.
        """

    def attributes(self) -> Mapping[str, Array | list[str]]:
        """All attributes, as one-dimensional arrays or lists of strings; single values are 0-dimensional arrays."""

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """The values of all these boxes, fetched together. Collective where one rank reads for all."""


class WriteEngine(Protocol):
    """One stream or file opened for writing."""

    def begin(self) -> None:
        """Begin a step. Collective."""

    def put(self, block: BlockData) -> None:
        """Write a block, a scalar or a string that only this rank writes."""

    def put_share(self, block: BlockData) -> None:
        """Write this rank's block of an array that all ranks write. Collective where one rank writes for all."""

    def put_local(self, name: str, blocks: Sequence[BlockData]) -> None:
        """Write this rank's blocks of an array without a global shape. Collective where one rank writes for all."""

    def end(self) -> None:
        """End the step and send it, or write it to the file. Collective."""

    def close(self) -> None:
        """End the stream. Collective."""

    def abandon(self) -> None:
        """Leave the stream without an end: complete steps stay, an open step is lost. Not collective."""

    def attribute(self, name: str, value: Array | list[str]) -> None:
        """Define an attribute, or give it a new value, from this step on."""


# Pins memory for a device; returns what undoes it, or None where that cannot be done.
Pin = Callable[[Array], Callable[[], None] | None]


class SharedSegment(Protocol):
    """Memory that a writer shares with its readers, as this process has mapped it."""

    def will_copy(self, nbytes: int, pin: Pin) -> None:
        """A device is about to copy so many bytes from it, or to it.

        It is pinned when that pays, once, until it is unmapped.
        """


@runtime_checkable
class GivesRoom(Protocol):
    """A write engine whose memory programs may fill themselves."""

    def room(self, shape: Shape, kind: str) -> tuple[Array, SharedSegment]:
        """Memory of this step, as an array, and what it is a part of. What is put there need not be copied."""


@runtime_checkable
class SharesMemory(Protocol):
    """A read engine whose `get` returns arrays in memory of the writer, where `shared` ones are wanted."""

    def segment_of(self, wanted: Selection) -> SharedSegment | None:
        """The memory in which this box lies in one piece; None where it does not."""


class ByteCounter:
    """Bytes read per step. With several ranks in parallel the sums are formed once, when the stream is closed.

    Adding them up at each step made the faster ranks wait for the others: up to a tenth of the time of programs that
    only read.
    """

    def __init__(self, comm: Any | None) -> None:
        self._comm = comm
        self._bytes = 0
        self._steps = array("q")

    def add(self, nbytes: int) -> None:
        """This rank has read `nbytes` more in this step."""
        self._bytes += nbytes

    def end_step(self) -> int | None:
        """The bytes of the step; None where other ranks have read as well."""
        nbytes, self._bytes = self._bytes, 0
        if self._comm is None:
            return nbytes
        self._steps.append(nbytes)
        return None

    def of_all(self) -> list[int] | None:
        """On rank 0 the bytes that all ranks have read, per step; None with one rank. Collective."""
        parts = self._comm.gather(self._steps) if self._comm is not None else None
        return None if parts is None else [sum(each) for each in zip_longest(*parts, fillvalue=0)]
