"""Memory of a writing rank that readers on the same node map.

It has no name in a file system (memfd_create): it is gone with the last process that uses it, whatever ends that, and
the size of /dev/shm does not limit it. Readers open it by `/proc/PID/fd/FD`, which the system allows to processes of
the same user, and compare the inode: numbers of processes and of open files are used again. It is reserved before it is
used, so that a node without room is an error here, and not a SIGBUS; where a memory limit of the batch system is
reached, the system may kill the writer instead.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from workflow.formatting import size
from workflow.stage.stage_errors import StageError, StreamFailed
from workflow.stage.stream_engines import Pin
from workflow.stage.variables import ALIGNED, Array

# The number of memfd_create among the system's calls, by machine.
_CALLS = {"x86_64": 319, "aarch64": 279, "riscv64": 279, "ppc64le": 360, "s390x": 350}
_CLOSE_ON_EXEC = 1
_LEAST = 1 << 16
_FEW = 4


class SegmentName(NamedTuple):
    """What a reader needs to map a segment. `number`: among all that this process has had for the stream."""

    number: int
    fd: int
    inode: int
    nbytes: int


class PlaceInSegment(NamedTuple):
    """Where a block is: in the segment of this number, from this byte on."""

    segment: int
    offset: int


class PinnedSegment:
    """Memory of a segment, as this process has mapped it.

    A device that copies from it, or to it, pins it. That costs about as much as one copy of all of it, so it is done
    when it pays: when half as many bytes as it has were copied, in all steps together. A short run that takes only
    small variables to a device does not pin what lies beside them, a long one does. What is unmapped while it is pinned
    would be taken for pinned wherever something else is mapped there: so it is unpinned before, whatever ends its use.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self.memory = memory
        self._copied, self._asked = 0, False

    def will_copy(self, nbytes: int, pin: Pin) -> None:
        """See `SharedSegment`."""
        self._copied += nbytes
        if self._asked or 2 * self._copied < len(self.memory):
            return
        self._asked = True
        unpin = pin(np.frombuffer(self.memory, np.uint8))
        if unpin is not None:
            weakref.finalize(self, unpin)


class MemorySegment(PinnedSegment):
    """A piece of memory that others can map. Raises StageError where there is no room."""

    def __init__(self, number: int, nbytes: int) -> None:
        nbytes = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            fd = _unnamed_file("wf-step")
        except OSError as error:
            text = f"this system gives no memory that others can map: {error.strerror}"
            raise StageError(f"{text}; use `via: sst` with `transport: tcp`") from error
        try:
            os.posix_fallocate(fd, 0, nbytes)
            super().__init__(mmap.mmap(fd, nbytes))
        except OSError as error:
            os.close(fd)
            text = f"no room in memory for {size(nbytes)} more of this step: {error.strerror}"
            raise StageError(f"{text}; a smaller `queue: {{limit: …}}` takes less") from error
        self.name = SegmentName(number, fd, os.fstat(fd).st_ino, nbytes)

    def close(self) -> None:
        """Free it, as soon as no reader and no array uses it any more."""
        os.close(self.name.fd)


class TakenRoom(NamedTuple):
    """Memory for an array, where it is, and the segment that it is in."""

    array: Array
    place: PlaceInSegment
    segment: MemorySegment


class StepMemory:
    """The memory of one step of one rank, used again for later steps: so its pages are there already."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers  # for new segments
        self._segments: list[MemorySegment] = []
        self._used = 0  # bytes of the last segment
        self._filled = 0  # bytes of all

    @property
    def names(self) -> list[SegmentName]:
        """Its segments."""
        return [segment.name for segment in self._segments]

    def take(self, shape: tuple[int, ...], kind: str) -> TakenRoom:
        """Room for an array, in the last segment."""
        dtype = np.dtype(kind)
        nbytes = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        if not self._segments or self._used + nbytes > self._segments[-1].name.nbytes:
            # From some on half as much as there is already: so they stay few, however many arrays there are.
            have = sum(segment.name.nbytes for segment in self._segments) if len(self._segments) >= _FEW else 0
            self._segments.append(MemorySegment(next(self._numbers), max(nbytes, _LEAST, have // 2)))
            self._used = 0
        segment, offset = self._segments[-1], self._used
        self._used = -(-(offset + nbytes) // ALIGNED) * ALIGNED
        self._filled += self._used - offset
        array: Array = np.frombuffer(segment.memory, dtype, nbytes // dtype.itemsize, offset).reshape(shape)
        return TakenRoom(array, PlaceInSegment(segment.name.number, offset), segment)

    def clear(self) -> list[int]:
        """Forget what is in it. Of several segments one is made: the next step needs as much.

        Returns the numbers of those that are no more.
        """
        filled, self._used, self._filled = self._filled, 0, 0
        if len(self._segments) < 2:
            return []
        gone = [name.number for name in self.names]
        self.free()
        self._segments = [MemorySegment(next(self._numbers), filled)]
        return gone

    def free(self) -> None:
        """Give all of it back."""
        for segment in self._segments:
            segment.close()
        self._segments = []


class MappedMemory:
    """The memory of writing ranks, as a reader maps it: each segment once, when something in it is asked for."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._names: dict[tuple[int, int], SegmentName] = {}
        self._mapped: dict[tuple[int, int], PinnedSegment] = {}

    def note(self, pid: int, names: Iterable[SegmentName], gone: Iterable[int]) -> None:
        """What segments the process `pid` has, and which it has no more: these are unmapped when no array uses them."""
        for number in gone:
            self._mapped.pop((pid, number), None)
            self._names.pop((pid, number), None)
        for name in names:
            self._names[pid, name.number] = name

    def array(self, pid: int, place: PlaceInSegment, shape: tuple[int, ...], kind: str) -> Array:
        """An array in it, read-only. Raises StreamFailed where the writer has ended."""
        dtype = np.dtype(kind)
        count = int(np.prod(shape, dtype=np.int64))
        found: Array = np.frombuffer(self.segment(pid, place).memory, dtype, count, place.offset).reshape(shape)
        return found

    def segment(self, pid: int, place: PlaceInSegment) -> PinnedSegment:
        """The segment that a place is in. Raises StreamFailed where the writer has ended."""
        key = pid, place.segment
        if key not in self._mapped:
            self._mapped[key] = PinnedSegment(self._map(pid, self._names[key]))
        return self._mapped[key]

    def clear(self) -> None:
        """Unmap all, as soon as no array uses it any more."""
        self._names, self._mapped = {}, {}

    def _map(self, pid: int, name: SegmentName) -> mmap.mmap:
        try:
            opened = os.open(f"/proc/{pid}/fd/{name.fd}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if _has_ended(pid) or isinstance(error, FileNotFoundError):
                raise StreamFailed("its writer has ended, and its memory with it") from None
            raise StageError(
                f"stream {self._stream}: the memory of its writer, process {pid}, cannot be opened: {error.strerror}; "
                "`via: sst` with `transport: tcp` needs no common memory"
            ) from error
        try:
            if os.fstat(opened).st_ino != name.inode:  # it has closed this one since
                raise StreamFailed("its writer has left it, and its memory is gone")
            return mmap.mmap(opened, name.nbytes, mmap.MAP_SHARED, mmap.PROT_READ)
        except OSError as error:
            raise StageError(f"stream {self._stream}: its memory cannot be mapped: {error.strerror}") from error
        finally:
            os.close(opened)


def _unnamed_file(name: str) -> int:
    """A file in memory, by memfd_create. Raises OSError.

    A Python that was built with an old glibc has no function for it, as those of miniforge and uv before 2026, although
    the system that it runs on has the call.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    number = _CALLS.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, "this Python has no os.memfd_create")
    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.syscall(ctypes.c_long(number), name.encode(), ctypes.c_uint(_CLOSE_ON_EXEC)))
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd


def _has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for its parent to notice its end."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"
