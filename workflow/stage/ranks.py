"""The ranks of this stage. mpi4py is imported only where there are several ranks, or a launcher started this one."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from workflow.distribution import decomposition
from workflow.stage import settings
from workflow.stage.stage_errors import StageError
from workflow.stage.uncaught_errors import abort_together

_LONGEST_PAUSE_S = 5e-3


def idle_barrier(comm: Any) -> None:
    """A barrier over `comm` whose waiting ranks sleep between polls.

    MPI's own calls spin while they wait. Here a wait may last as long as a step's computation, on cores that other
    stages use.
    """
    request, begin = comm.Ibarrier(), time.monotonic()
    while not request.Test():
        time.sleep(min(_LONGEST_PAUSE_S, (time.monotonic() - begin) / 50))


# Variables that launchers set for their ranks: MPICH, Cray and Slurm (PMI), PMIx, Open MPI, PALS.
_LAUNCHED = ("PMI_SIZE", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "PALS_RANKID")


@lru_cache(maxsize=1)
def communicator() -> Any:
    """All ranks of this stage, or None for one rank that no launcher started.

    With several ranks it is `mpi4py.MPI.COMM_WORLD`, and an uncaught exception ends all of them, with the traceback of
    the rank that raised it, instead of leaving the others waiting. Raises StageError when MPI's number of ranks is not
    the planned one: the launcher then belongs to another MPI than mpi4py.
    """
    current = settings.current()
    planned = current.ranks
    if planned == 1 or (planned is None and not any(name in os.environ for name in _LAUNCHED)):
        return None
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if planned is not None and comm.Get_size() != planned:
        raise StageError(
            f"stage {current.stage} was planned with {planned} ranks, but MPI has {comm.Get_size()}: "
            "the launcher and mpi4py belong to different MPI libraries (`wf doctor` shows both)"
        )
    if comm.Get_size() > 1:
        abort_together(comm)
    return comm


def rank() -> int:
    """This process's rank within its stage, from 0."""
    comm = communicator()
    return 0 if comm is None else int(comm.Get_rank())


def size() -> int:
    """Number of ranks of this stage."""
    comm = communicator()
    return 1 if comm is None else int(comm.Get_size())


@lru_cache(maxsize=1)
def own_communicator() -> Any:
    """A duplicate of `communicator()` for this package's own messages; None with one rank.

    The first call is collective over the ranks.
    """
    comm = communicator()
    return None if comm is None or comm.Get_size() == 1 else comm.Dup()


# Domain decomposition: one block of a length or of a grid for each rank of this stage. Lengths are in elements.


def block(length: int, parts: int | None = None, index: int | None = None) -> tuple[int, int]:
    """(start, count) of block `index` when `length` elements are divided into `parts` blocks.

    By default this rank's block of as many as there are ranks. Counts differ by at most one, the larger ones first;
    with more parts than elements some blocks are empty. Raises ValueError when index is not in 0..parts-1 or length is
    negative.
    """
    return decomposition.block(length, size() if parts is None else parts, rank() if index is None else index)


def grid(shape: Sequence[int], ranks: int | None = None) -> tuple[int, ...]:
    """Number of blocks along each axis, with product `ranks` (by default this stage's), with the least surface.

    Among equal surfaces the one that cuts the slower (first) axes is chosen: such blocks are contiguous in memory and
    in files. Raises ValueError when no division gives every rank at least one element.
    """
    return decomposition.grid(shape, size() if ranks is None else ranks)


def block_of(
    shape: Sequence[int], parts: Sequence[int], rank: int | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(start, count) per axis of the block of `rank` (by default this one), with `parts` blocks along each axis.

    Ranks count along the last axis first. Raises ValueError when rank is not in 0..product(parts)-1 or when `shape`
    and `parts` have different lengths.
    """
    return decomposition.block_of(shape, parts, _rank_or_own(rank))


def _rank_or_own(given: int | None) -> int:
    """`given`, or the rank of this process."""
    return rank() if given is None else given
