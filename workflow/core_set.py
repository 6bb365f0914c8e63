"""Sets of cores as Slurm and Linux write them, `0-7,16`, and which cores of this machine those of a plan are.

The plan counts cores as the site does. Where a process may use all cores that the plan has, the numbers are the same.
Where it may use others, as in a job that shares a node or on a machine of which `taskset` leaves a part, the plan's
cores are counted among those: not on a site with reserved cores, whose numbers mean particular cores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_PART = re.compile(r"^(\d+)(?:-(\d+))?$")
# Far above any node; a range with a digit too many must not fill the memory.
MOST_CORES = 65536


def parse_cores(text: str) -> tuple[int, ...]:
    """`0-7,16` → (0, 1, …, 7, 16), sorted. Raises ValueError for anything else, and for a core that comes twice."""
    cores: list[int] = []
    for part in text.split(",") if text.strip() else []:
        match = _PART.match(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first or last >= MOST_CORES:
            raise ValueError(f'expected cores such as `0-7,16`, got "{text}"')
        cores += range(first, last + 1)
    if len(set(cores)) < len(cores):
        twice = next(core for core in cores if cores.count(core) > 1)
        raise ValueError(f'core {twice} comes twice in "{text}"; write it once')
    return tuple(sorted(cores))


def format_cores(cores: Iterable[int]) -> str:
    """(0, 1, …, 7, 16) → `0-7,16`."""
    ranges: list[list[int]] = []
    for core in sorted(cores):
        if ranges and core == ranges[-1][1] + 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


class CoresMissingError(ValueError):
    """The plan has cores that may not be used here."""


def real_cores(planned: Sequence[int], allowed: Sequence[int], by_index: bool) -> list[int]:
    """The numbers here of the plan's cores: all that it uses on this node, so that all stages are counted in one way.

    `allowed` are those that processes may use here. Raises CoresMissingError where there are too few.
    """
    if set(planned) <= set(allowed):
        return list(planned)
    if by_index and max(planned, default=0) < len(allowed):
        return [sorted(allowed)[core] for core in planned]
    missing = sorted(set(planned) - set(range(len(allowed)) if by_index else allowed))
    numbers = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
    here = ", ".join(map(str, sorted(allowed)[:8])) + (", …" if len(allowed) > 8 else "")
    raise CoresMissingError(f"the plan has core {numbers}, and cores that may be used here are {here}")
