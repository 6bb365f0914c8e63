"""Waiting asleep for what MPI brings. MPI's own waiting spins, and here it may last for a step's whole computation."""

from __future__ import annotations

import time
from typing import Any

# While a partner is quick, sleeping would take longer than it: the system's shortest sleep is some 50 µs. Yielding
# instead costs milliseconds on a busy machine.
_SPIN_S = 1e-4
_LONGEST_PAUSE_S = 5e-3


def rest(waited_s: float) -> None:
    """A pause between two looks, a small part of what the wait has lasted."""
    if waited_s > _SPIN_S:
        time.sleep(min(_LONGEST_PAUSE_S, waited_s / 50))


def wait_patiently(comm: Any) -> None:
    """A barrier whose waiting ranks sleep between looks, so that they leave their cores to other stages."""
    request, begin = comm.Ibarrier(), time.monotonic()
    while not request.Test():
        time.sleep(min(_LONGEST_PAUSE_S, (time.monotonic() - begin) / 50))
