"""Sets of cores as Slurm and Linux write them: `0-7,16`. Only the standard library: ranks on compute nodes use it."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
