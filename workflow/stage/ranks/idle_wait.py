"""Waiting for MPI messages without occupying a core.

MPI's own calls spin while they wait. Here a wait may last as long as a step's computation, on cores that other
stages use.
"""

from __future__ import annotations

import time
from typing import Any

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
