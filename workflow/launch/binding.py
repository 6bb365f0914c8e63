"""Which cores of this machine the cores of the plan are. Only the standard library: one of its users runs on each rank.

The plan counts cores as the site does. Where a process may use all cores that the plan has, the numbers are the same.
Where it may use others, as in a job that shares a node or on a machine of which `taskset` leaves a part, the plan's
cores are counted among those: not on a site with reserved cores, whose numbers mean particular cores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


class CoresMissingError(ValueError):
    """The plan has cores that may not be used here."""


def real_cores(wanted: Iterable[int], planned: Collection[int], allowed: Sequence[int], by_index: bool) -> list[int]:
    """The numbers here of the plan's cores `wanted`.

    `planned` are all cores that the plan uses on this node, so that all stages are counted in one way; `allowed` are
    those that processes may use here. Raises CoresMissingError where there are too few.
    """
    if set(planned) <= set(allowed):
        return list(wanted)
    if by_index and max(planned, default=0) < len(allowed):
        return [sorted(allowed)[core] for core in wanted]
    missing = sorted(set(planned) - set(range(len(allowed)) if by_index else allowed))
    numbers = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
    here = ", ".join(map(str, sorted(allowed)[:8])) + (", …" if len(allowed) > 8 else "")
    raise CoresMissingError(f"the plan has core {numbers}, and cores that may be used here are {here}")
