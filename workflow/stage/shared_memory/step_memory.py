"""Memory of a writing rank that readers on the same node map.

It has no name in a file system (memfd_create): it is gone with the last process that uses it, whatever ends that, and
the size of /dev/shm does not limit it. Readers open it by `/proc/PID/fd/FD`, which the system allows to processes of
the same user. All of it is reserved before it is used: a machine without room for it is an error here, not a SIGBUS.
"""

from __future__ import annotations

import mmap
import os
from typing import Any, NamedTuple

import numpy as np

from workflow.formatting import size
from workflow.stage.stage_errors import StageError, StreamFailed
from workflow.stage.variables import ALIGNED, Array

_LEAST = 1 << 16


class PlaceInSegment(NamedTuple):
    """Where a block is: in the segment of this number, from this byte on."""

    segment: int
    offset: int


class MemorySegment:
    """A piece of memory that others can map."""

    def __init__(self, number: int, nbytes: int) -> None:
        self.number, self.nbytes = number, -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self.fd = os.memfd_create("wf-step")
        try:
            os.posix_fallocate(self.fd, 0, self.nbytes)
        except OSError as error:
            os.close(self.fd)
            text = f"no room in memory for {size(self.nbytes)} more of this step: {error.strerror}"
            raise StageError(f"{text}; a smaller `queue: {{limit: …}}` takes less") from error
        self.memory = mmap.mmap(self.fd, self.nbytes)

    def close(self) -> None:
        """Free it, as soon as no reader and no array uses it any more."""
        os.close(self.fd)


class StepMemory:
    """The memory of one step of one rank, used again for later steps: so its pages are there already."""

    def __init__(self) -> None:
        self.segments: list[MemorySegment] = []
        self._used = 0  # bytes of the last segment

    def take(self, shape: tuple[int, ...], kind: str, number: int) -> tuple[Array, PlaceInSegment]:
        """Room for an array, and where it is. `number`: of a new segment, if one is needed."""
        dtype = np.dtype(kind)
        nbytes = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        if not self.segments or self._used + nbytes > self.segments[-1].nbytes:
            self.segments.append(MemorySegment(number, max(nbytes, _LEAST)))
            self._used = 0
        segment, offset = self.segments[-1], self._used
        self._used = -(-(offset + nbytes) // ALIGNED) * ALIGNED
        array: Array = np.frombuffer(segment.memory, dtype, nbytes // dtype.itemsize, offset).reshape(shape)
        return array, PlaceInSegment(segment.number, offset)

    def clear(self, number: int) -> list[int]:
        """Forget what is in it. Of several segments one is made, with this number: the next step needs as much.

        Returns the numbers of those that are no more.
        """
        self._used = 0
        if len(self.segments) < 2:
            return []
        gone, nbytes = [each.number for each in self.segments], sum(each.nbytes for each in self.segments)
        self.free()
        self.segments = [MemorySegment(number, nbytes)]
        return gone

    def free(self) -> None:
        """Give all of it back."""
        for segment in self.segments:
            segment.close()
        self.segments = []


class MappedMemory:
    """The memory of writing ranks, as a reader maps it: each segment once."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._mapped: dict[tuple[int, int], mmap.mmap] = {}

    def map(self, pid: int, segments: list[Any]) -> None:
        """Map segments, [number, file descriptor, bytes] each, of the process `pid`. Raises StreamFailed."""
        for number, fd, nbytes in segments:
            if (pid, number) in self._mapped:
                continue
            try:
                opened = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                raise StreamFailed(f"stream {self._stream}: its writer has ended, and its memory with it") from None
            except OSError as error:
                raise StageError(
                    f"stream {self._stream}: the memory of its writer, process {pid}, cannot be opened: "
                    f"{error.strerror}; `via: sst` needs no common memory"
                ) from error
            try:
                self._mapped[pid, number] = mmap.mmap(opened, nbytes, mmap.MAP_SHARED, mmap.PROT_READ)
            finally:
                os.close(opened)

    def array(self, pid: int, place: PlaceInSegment, shape: tuple[int, ...], kind: str) -> Array:
        """An array in it, read-only."""
        dtype = np.dtype(kind)
        count = int(np.prod(shape, dtype=np.int64))
        found: Array = np.frombuffer(self._mapped[pid, place.segment], dtype, count, place.offset).reshape(shape)
        return found

    def forget(self, pid: int, numbers: list[int]) -> None:
        """Unmap these segments, as soon as no array uses them any more."""
        for number in numbers:
            self._mapped.pop((pid, number), None)
