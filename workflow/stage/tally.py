"""How many bytes the ranks of a reader have read."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np


class Tally:
    """The bytes of each step: this rank's own as it goes, and those of all ranks together in the end.

    Adding them up step by step made the faster ranks wait for the others, by up to a tenth where they only read.
    """

    def __init__(self, comm: Any | None) -> None:
        self._comm = comm
        self._mine = 0
        self._steps = array("q")

    def add(self, nbytes: int) -> None:
        """This rank has read so much more in this step."""
        self._mine += nbytes

    def end_step(self) -> int:
        """What this rank has read in the step."""
        mine, self._mine = self._mine, 0
        if self._comm is not None:
            self._steps.append(mine)
        return mine

    def of_all(self) -> list[int] | None:
        """What all ranks have read in each step, on rank 0; None without other ranks. Collective."""
        if self._comm is None:
            return None
        own = np.array(self._steps, np.int64)
        total = np.zeros_like(own)
        self._comm.Reduce(own, total)
        return [int(each) for each in total]
