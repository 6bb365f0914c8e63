"""Which arrays of a step belong to particles, by name and shape alone.

Particles are what has a `position`: `position` [N, 2 or 3] in one variable, or `position/x`, `position/y`, … [N]
as openPMD streams have it. Whatever lies beside it with N rows belongs to the same species, whose name is that of
the folder: `ions/position`, `/data/particles/ions/position/x`. Everything else is a field, and what was a field in
one step stays one: the number of particles may come to be the length of any array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from workflow.stage import Info

AXES = ("x", "y", "z")
DEFAULT_SPECIES = "particles"


class Component(NamedTuple):
    """One number per particle: a column of a variable, or all of it. `axis` is "" for a scalar record."""

    record: str
    axis: str
    variable: str
    column: int | None


def find_species(arrays: Mapping[str, Info], fields: set[str] | None = None) -> dict[str, tuple[int, list[Component]]]:
    """Folder of each species → (number of its particles, its components).

    `fields` are the variables that were none of particles in an earlier step; those of this step are added to it.
    """
    fields = set() if fields is None else fields
    found: dict[str, tuple[int, list[Component]]] = {}
    for name, info in arrays.items():
        folder = _folder(name, info)
        if folder is None or folder in found:
            continue
        number = info.shape[0]
        below = {each: kind for each, kind in arrays.items() if each.startswith(folder) and each not in fields}
        components = [part for each, kind in below.items() for part in components_of(each, kind, folder, number)]
        found[folder] = number, components
    fields |= set(arrays) - {part.variable for _, components in found.values() for part in components}
    return found


def _folder(name: str, info: Info) -> str | None:
    """What stands before `position`, with its slash; None when this is no position."""
    parts = name.split("/")
    if parts[-1] == "position" and len(info.shape) == 2 and info.shape[1] in (2, 3):
        return name[: -len("position")]
    if parts[-2:-1] == ["position"] and parts[-1] in AXES and len(info.shape) == 1:
        return name[: -len("position/x")]
    return None


def components_of(name: str, info: Info, folder: str, number: int) -> Iterator[Component]:
    """The components that an array below `folder` gives to `number` particles; none when it has other rows."""
    record, _, axis = name[len(folder) :].partition("/")
    if not info.shape or info.shape[0] != number or "/" in axis:
        return
    if len(info.shape) == 1:
        yield Component(record, axis, name, None)
    elif len(info.shape) == 2 and info.shape[1] in (2, 3) and not axis:
        for column in range(info.shape[1]):
            yield Component(record, AXES[column], name, column)


def species_name(folder: str) -> str:
    """The last folder of the path."""
    return folder.strip("/").rpartition("/")[2] or DEFAULT_SPECIES
