"""The ranks of this stage. mpi4py is imported only where there are several ranks, or a launcher started this one."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from workflow.distribution import decomposition
from workflow.stage import settings
from workflow.stage.stage_errors import StageError
from workflow.stage.uncaught_errors import abort_together

# Waiting for MPI messages without occupying a core.
#
# MPI's own calls spin while they wait. Here a wait may last as long as a step's computation, on cores that other
# stages use.

# The shortest sleep of the system takes some 50 µs: while the partner answers faster than that, polling is cheaper.
# Yielding the core instead costs milliseconds on a busy machine.
_SPIN_S = 1e-4
_LONGEST_PAUSE_S = 5e-3


def pause(waited_s: float) -> None:
    """Sleep between two polls, for a small part of the time waited so far; not at all during the first 0.1 ms."""
    if waited_s > _SPIN_S:
        time.sleep(min(_LONGEST_PAUSE_S, waited_s / 50))


def idle_barrier(comm: Any) -> None:
    """A barrier over `comm` whose waiting ranks sleep between polls."""
    request, begin = comm.Ibarrier(), time.monotonic()
    while not request.Test():
        time.sleep(min(_LONGEST_PAUSE_S, (time.monotonic() - begin) / 50))


# This stage's ranks in a launch line that starts several stages (MPMD).
#
# MPI_COMM_WORLD holds the ranks of all these stages and is used by this package alone. It is split per stage, so that
# no stage waits for a slow one; at exit the stages wait for each other.

_opened: set[str] = set()


def stage_ranks() -> Any:
    """The communicator of this stage's ranks. Collective over these alone.

    Raises StageError when MPI gave this process another rank than the plan.
    """
    from mpi4py import MPI

    current, world = settings.current(), MPI.COMM_WORLD
    assert current.group is not None
    first, count = current.group.ranks[current.stage]
    planned = sum(ranks for _, ranks in current.group.ranks.values())
    rank, found = world.Get_rank(), world.Get_size()
    if found != planned or not first <= rank < first + count:
        raise StageError(
            f"stage {current.stage} was planned as ranks {first} to {first + count - 1} of {planned}, but MPI has "
            f"started it as rank {rank} of {found}: the launcher and mpi4py belong to different MPI libraries "
            "(`wf doctor` shows both)"
        )
    atexit.register(_leave)
    return world.Create_group(world.group.Incl(range(first, first + count)), tag=first)


def note_opened(stream: str) -> None:
    """This stage has opened the stream: the stages at its other ends do not wait for this one any more."""
    _opened.add(stream)


def _leave() -> None:
    """At exit: wait until all stages of the launch have come so far, because MPI_Finalize waits and spins.

    A stage that never opened one of its streams exits at once instead: the others would wait for it without limit.
    """
    from mpi4py import MPI

    current = settings.current()
    assert current.group is not None
    missing = [
        name for name, ends in current.group.streams.items() if current.stage in ends and name not in _opened
    ]  # fmt: skip
    sys.stdout.flush()
    if missing:
        sys.stderr.write(f"error: stage {current.stage} exits without having opened {', '.join(missing)}\n")
        sys.stderr.flush()
        os._exit(1)
    idle_barrier(MPI.COMM_WORLD)


# Variables that launchers set for their ranks: MPICH, Cray and Slurm (PMI), PMIx, Open MPI, PALS.
_LAUNCHED = ("PMI_SIZE", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "PALS_RANKID")


@lru_cache(maxsize=1)
def communicator() -> Any:
    """All ranks of this stage, or None for one rank that no launcher started.

    `mpi4py.MPI.COMM_WORLD`; where one launch line starts several stages (`via: ssc`), this stage's part of it.
    With several ranks an uncaught exception ends all of them, with the traceback of the rank that raised it, instead
    of leaving the others waiting. Raises StageError when MPI's number of ranks is not the planned one: the launcher
    then belongs to another MPI than mpi4py.
    """
    current = settings.current()
    planned = current.ranks
    if current.group is not None:
        part = stage_ranks()
        abort_together(part)
        return part
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
