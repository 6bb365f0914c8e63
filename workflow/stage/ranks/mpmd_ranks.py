"""This stage's part of a launch line that starts several stages, and its talk with the others of that line.

The stages are split without any of them waiting for a slow one, and wait for each other asleep: MPI's own waiting
spins, and may last for a step's whole computation. Uses MPI_COMM_WORLD, which in such a line belongs to this package.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from enum import IntEnum
from typing import Any

import numpy as np

from workflow.formats.stage_file import StreamEnd
from workflow.stage import settings
from workflow.stage.ranks.idle_wait import rest, wait_patiently
from workflow.stage.stage_errors import StageError

_FIRST_TAG = 1000

_opened: set[str] = set()


class Word(IntEnum):
    """What the two ends of a stream tell each other beside the data."""

    HERE = 1  # both: about to open
    STEP = 2  # writer: about to send a step
    HEADED = 3  # writer: the same, and what does not fit into arrays follows
    EMPTY = 4  # writer: about to send a step that counts for nothing
    END = 5  # writer: about to close
    FETCH = 6  # reader: about to get arrays
    FETCHED = 7  # reader: has got them
    RELEASED = 8  # reader: done with the step


def own_part() -> Any:
    """The communicator of this stage's ranks. Collective over these alone.

    Raises StageError when MPI has given this process another rank than the plan.
    """
    from mpi4py import MPI

    current, world = settings.current(), MPI.COMM_WORLD
    assert current.group is not None
    first, count = current.group.ranks[current.stage]
    planned = sum(ranks for _, ranks in current.group.ranks.values())
    rank, found = world.Get_rank(), world.Get_size()
    if found != planned or not first <= rank < first + count:
        raise StageError(
            f"stage {current.stage} was planned as ranks {first} to {first + count - 1} of {planned}, but MPI says "
            f"rank {rank} of {found}: its launcher and its mpi4py are not of the same MPI (`wf doctor` shows both)"
        )
    atexit.register(_leave)
    return world.Create_group(world.group.Incl(range(first, first + count)), tag=first)


def readers_of(end: StreamEnd) -> list[str]:
    """The stages that read this stream. Raises StageError for a stream that is not of this launch line."""
    group = settings.current().group
    if group is None or end.stream not in group.streams:
        raise StageError(
            f"stream {end.stream}: SSC joins programs that one launch line has started, which `wf run` does for "
            "streams with `via: ssc`"
        )
    return list(group.streams[end.stream][1:])


class Partner:
    """The ranks at the other end of a stream, of one reader. Each has one here that tells it things, and tells some."""

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
        self._hears = self.first + rank % number
        self._tells = [self.first + each for each in range(number) if each % count == rank]
        lines = sorted((name, each) for name, ends in group.streams.items() for each in ends[1:])
        self.tag = _FIRST_TAG + 2 * lines.index((end.stream, reader))
        self._heard = np.zeros(1, np.int32)
        self._sent: list[tuple[Any, Any]] = []
        _opened.add(end.stream)

    def say(self, word: Word) -> None:
        """Tell the other end. Does not wait."""
        self._sent = [(request, kept) for request, kept in self._sent if not request.Test()]
        text = np.array([word], np.int32)
        self._sent += [(self._world.Isend(text, rank, self.tag), text) for rank in self._tells]

    def hear(self, timeout_s: float, *, awake: bool = False) -> Word | None:
        """What the other end says next; None when it says nothing for so long.

        `awake`: let MPI go on with whatever it is asked for meanwhile, at the price of a busy core.
        """
        begin = time.monotonic()
        while not self.speaks():
            waited = time.monotonic() - begin
            if waited >= timeout_s:
                return None
            if not awake:
                rest(waited)
        self._world.Recv(self._heard, self._hears, self.tag)
        return Word(int(self._heard[0]))

    def speaks(self) -> bool:
        """Whether the other end has said something that is not heard yet."""
        return bool(self._world.Iprobe(self._hears, self.tag))

    def send_header(self, header: Any) -> None:
        """From the first rank here to the first there; does not wait."""
        self._sent.append((self._world.isend(header, self.first, self.tag + 1), None))

    def take_header(self) -> Any:
        """On the first rank here, after `HEADED`."""
        return self._world.recv(source=self.first, tag=self.tag + 1)


def _leave() -> None:
    """At exit: wait, asleep, until all have come so far, because leaving MPI waits too. Nobody must leave too early."""
    from mpi4py import MPI

    current = settings.current()
    assert current.group is not None
    missing = [
        name for name, ends in current.group.streams.items() if current.stage in ends and name not in _opened
    ]  # fmt: skip
    sys.stdout.flush()
    if missing:
        sys.stderr.write(f"error: stage {current.stage} exits and has not opened {', '.join(missing)}\n")
        sys.stderr.flush()
        os._exit(1)
    wait_patiently(MPI.COMM_WORLD)
