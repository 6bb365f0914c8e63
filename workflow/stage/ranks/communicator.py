"""The ranks of this stage. mpi4py is imported only where there are several ranks, or a launcher started this one."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from workflow.stage import settings
from workflow.stage.ranks.uncaught_errors import abort_together
from workflow.stage.stage_errors import StageError

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
        from workflow.stage.ranks.mpmd_ranks import stage_ranks  # only such launches pay for the import

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
