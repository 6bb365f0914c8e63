"""Arrays that a program with several ranks writes without a shape: only rank 0's is stored, so all must be the same."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow.stage.ranks.communicator import own_communicator
from workflow.stage.stage_errors import StageError

# What another rank than 0 contributes that has written none.
_NOTHING = np.iinfo(np.int64).min


class SameValues:
    """Compares those arrays of a step by their checksums, once a step: one reduction of 16 bytes.

    In each step, because arrays that are the same at first (zeros) may differ later. Another rank than 0 that
    has written none is not compared: a program may write them on rank 0 alone.
    """

    def __init__(self) -> None:
        self._comm: Any = own_communicator()
        self._checksums: dict[str, int] = {}

    def take(self, name: str, values: NDArray[Any]) -> None:
        """Note an array that this rank has written without a shape."""
        if self._comm is not None and values.ndim:
            kind = f"{name} {values.dtype.str} {values.shape}".encode()
            self._checksums[name] = zlib.crc32(np.ascontiguousarray(values).view(np.uint8).data, zlib.crc32(kind))

    def check(self) -> None:
        """Raises StageError on all ranks when an array differs between them. Collective, at the end of a step."""
        if self._comm is None:
            return
        from mpi4py import MPI

        checksums, self._checksums = self._checksums, {}
        # Positive, so that its negative exists; the maximum of both is equal only where all are.
        mine = zlib.crc32(repr(checksums).encode())
        bounds = np.array([mine, -mine] if checksums or self._comm.Get_rank() == 0 else [_NOTHING] * 2, np.int64)
        self._comm.Allreduce(MPI.IN_PLACE, bounds, op=MPI.MAX)
        if bounds[0] == -bounds[1]:
            return
        if different := _different(self._comm.allgather(checksums)):
            raise StageError(
                f"the ranks have different values of {', '.join(map(repr, different))}, written without a shape: only "
                "rank 0's would be stored. Give `shape`, that of the whole array, and `start`, where this rank's part "
                "begins; or write the same array on all ranks, or on rank 0 alone"
            )


def _different(ranks: list[dict[str, int]]) -> list[str]:
    """The names whose checksums differ between the ranks that wrote them, or that rank 0 has not written."""
    names = dict.fromkeys(name for rank in ranks for name in rank)
    found = ({rank[name] for rank in ranks if name in rank} for name in names)
    return [name for name, values in zip(names, found, strict=True) if len(values) > 1 or name not in ranks[0]]
