"""How long the ranks of this stage took until they closed a stream: the middle one, and the slowest.

One small message of each rank at the close, which waits for all ranks anyway where they open streams in parallel.
Where rank 0 reads and writes for all of them nothing is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workflow.formats.sides import Side
from workflow.stage.adios.open_engine import is_parallel
from workflow.stage.ranks import own_communicator
from workflow.stage.telemetry import process_metrics


def rank_times(stream: str, side: Side) -> dict[str, Any] | None:
    """The field `ranks` of the close line, on rank 0; None where there is nothing to compare. Collective."""
    if not is_parallel():
        return None
    comm = own_communicator()
    spent = comm.gather(process_metrics().spent(stream, side))
    if spent is None:
        return None
    moving, copying, computing = zip(*spent, strict=True)
    found = {"count": len(spent), "moving_s": _spread(moving), "compute_s": _spread(computing)}
    return {**found, "device_s": _spread(copying)} if any(copying) else found


def _spread(seconds: Sequence[float]) -> dict[str, Any]:
    from statistics import median  # takes 5 ms, and only rank 0 gets here

    slowest = max(seconds)
    return {"median": round(median(seconds), 6), "slowest": round(slowest, 6), "rank": seconds.index(slowest)}
