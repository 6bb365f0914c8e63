"""How many bytes the ranks of a reader have read."""

from __future__ import annotations

from array import array
from itertools import zip_longest
from typing import Any


class Tally:
    """The bytes that were read in each step: known at its end to one rank alone, of several ranks when all are done.

    Adding them up step by step made the faster ranks wait for the others, by up to a tenth where they only read.
    """

    def __init__(self, comm: Any | None) -> None:
        self._comm = comm
        self._mine = 0
        self._steps = array("q")

    def add(self, nbytes: int) -> None:
        """This rank has read so much more in this step."""
        self._mine += nbytes

    def end_step(self) -> int | None:
        """The bytes of the step; None where other ranks have read as well."""
        mine, self._mine = self._mine, 0
        if self._comm is None:
            return mine
        self._steps.append(mine)
        return None

    def of_all(self) -> list[int] | None:
        """What all ranks have read in each step, on rank 0; None without other ranks. Collective."""
        parts = self._comm.gather(self._steps) if self._comm is not None else None
        return None if parts is None else [sum(each) for each in zip_longest(*parts, fillvalue=0)]
