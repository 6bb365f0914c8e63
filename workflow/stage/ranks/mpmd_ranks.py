"""This stage's ranks in a launch line that starts several stages (MPMD).

MPI_COMM_WORLD holds the ranks of all these stages and is used by this package alone. It is split per stage, so that
no stage waits for a slow one; at exit the stages wait for each other.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

from workflow.stage import settings
from workflow.stage.ranks.idle_wait import idle_barrier
from workflow.stage.stage_errors import StageError

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
