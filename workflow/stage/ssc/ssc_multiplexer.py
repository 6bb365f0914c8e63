"""The streams that a stage reads by SSC: while it waits for one, the writers of the others are answered.

A writer that sends a step or closes is inside SSC until its readers come. It may do so in another stream than the one
that the reader asks for, and each would wait for the other. So a reader that waits enters SSC for whoever has spoken.
SSC's calls are collective over the reader's ranks: rank 0 chooses whose turn it is, and all do as it says.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import numpy as np

from workflow.stage.ranks.communicator import own_communicator
from workflow.stage.ranks.idle_wait import rest
from workflow.stage.ranks.mpmd_ranks import Partner

_TAG = 900
_NOBODY = -1


class Line(Protocol):
    """A stream that is open for reading."""

    @property
    def partner(self) -> Partner:
        """Its writer. That says nothing while the reader is in a step of the stream, or after its end."""

    def answer(self) -> None:
        """Take what the writer has said, and enter SSC with it. Collective."""

    @property
    def left(self) -> bool:
        """Whether the program is through with it: what comes passes unread."""

    def finish(self) -> None:
        """Let what is left of it pass, and close it. Collective."""


_lines: dict[int, Line] = {}
_count = 0


def add(line: Line) -> int:
    """The number of this line, the same on all ranks, for they open their streams in the same order."""
    global _count
    _count += 1
    _lines[_count] = line
    return _count


def remove(number: int) -> None:
    """This line is not answered any more. Idempotent."""
    _lines.pop(number, None)


def finish_all() -> None:
    """Close those that the program is through with, unless it still reads another one. Collective."""
    if all(line.left for line in _lines.values()):
        for line in list(_lines.values()):
            line.finish()


def answer_one(number: int, timeout_s: float) -> bool:
    """Wait until the writer of this line or of another speaks, and answer it. False when none does for so long."""
    comm = own_communicator()
    if comm is None or comm.Get_rank() == 0:
        chosen = _choose(number, timeout_s)
        for rank in range(1, 1 if comm is None else comm.Get_size()):
            comm.Send(np.array([chosen], np.int32), rank, _TAG)
    else:
        chosen = _told(comm)
    if chosen != _NOBODY:
        _lines[chosen].answer()
    return chosen != _NOBODY


def _choose(number: int, timeout_s: float) -> int:
    begin = time.monotonic()
    others = [each for each in _lines if each != number]
    while True:
        for each in (number, *others):
            if _lines[each].partner.speaks():
                return each
        waited = time.monotonic() - begin
        if waited >= timeout_s:
            return _NOBODY
        rest(waited)


def _told(comm: Any) -> int:
    """What rank 0 has chosen."""
    begin, chosen = time.monotonic(), np.zeros(1, np.int32)
    while not comm.Iprobe(0, _TAG):
        rest(time.monotonic() - begin)
    comm.Recv(chosen, 0, _TAG)
    return int(chosen[0])
