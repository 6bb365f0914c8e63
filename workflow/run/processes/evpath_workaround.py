"""Process ids far enough apart, because ADIOS2 makes wrong connections otherwise.

EVPath, SST's network layer, names each process by a random number whose seed is its process id plus the time in
seconds when it opens its first stream (ADIOS2 2.12.1, thirdparty/EVPath cm.c, CManager_create and CMinternal_get_conn).
Two stages started together have ids one or two apart, and often open their streams a second or two apart. Then both
get the same name, and a stage connected to both sends messages to the wrong one, which prints
"CM - No handler for incoming data" and waits for ever. Seen in 7 of 100 runs of a chain of three stages. The plan says
which stages need it: not those whose ADIOS2 has the patch of `make adios2-mpi` (docs/decisions/0022-evpath-ids.md).

The system assigns ids in order, also to threads, and a thread is cheap: threads use up some ids between two stages.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

from workflow.run.processes.process_reaper import stat_fields

# Safe when stages open their streams within so many seconds of each other. Takes about 5 ms.
GAP = 300
# How long a launcher may take to start its ranks here; hydra takes some 15 ms.
_RANKS_S = 0.2
_LOOK_S = 0.001


def use_up_ids(count: int = GAP) -> None:
    """Advance the system's next process id by at least `count` (until it wraps around).

    By threads of the C library that run `getpid`. Python's threads wait for each other and took up to ten times
    as long.
    """
    library = ctypes.CDLL(None)
    thread = ctypes.c_ulong()
    deadline = time.monotonic() + _RANKS_S
    while count and time.monotonic() < deadline:
        if library.pthread_create(ctypes.byref(thread), None, library.getpid, None):
            time.sleep(_LOOK_S)  # as many as allowed exist right now
        else:
            library.pthread_detach(thread)
            count -= 1


def wait_for_ranks(launcher: int, ranks: int) -> None:
    """Return when a local launcher has started its ranks, so that ids used up from now on come after theirs."""
    deadline = time.monotonic() + _RANKS_S
    while time.monotonic() < deadline and Path(f"/proc/{launcher}").exists():
        if sum(len(_children(proxy)) for proxy in _children(launcher)) >= ranks:
            return
        time.sleep(_LOOK_S)


def has_children(launcher: int) -> bool:
    """Whether a local launcher has living children."""
    return any(not _is_dead(pid) for pid in _children(launcher))


def living_ranks(launcher: int) -> int:
    """How many ranks of a local launcher live: the children of its proxies."""
    return sum(not _is_dead(rank) for proxy in _children(launcher) for rank in _children(proxy))


def descendants(pid: int) -> list[int]:
    """All processes that a local launcher has started, and theirs."""
    children = _children(pid)
    return children + [other for child in children for other in descendants(child)]


def _is_dead(pid: int) -> bool:
    try:
        return stat_fields(Path(f"/proc/{pid}/stat").read_bytes())[0] in (b"Z", b"X")
    except OSError:
        return True


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (OSError, ValueError):
        return []
