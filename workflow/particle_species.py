"""Which arrays of a step belong to particles, by name and shape alone. Pure; standard library only.

A species is found by its `position`: one variable [N, 2 or 3], or `position/x`, `position/y`, … [N] as in openPMD
streams. Arrays in the same folder with N rows belong to the same species, which is named after the folder:
`ions/position`, `/data/particles/ions/position/x`. All other arrays are fields. An array that was a field in one step
stays a field: in a later step the number of particles may happen to equal its length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

AXES = ("x", "y", "z")
DEFAULT_SPECIES = "particles"
_Shape = tuple[int, ...]


class ParticleComponent(NamedTuple):
    """One number per particle: a column of a variable, or all of it. `axis` is "" for a scalar record."""

    record: str
    axis: str
    variable: str
    column: int | None


def find_species(
    shapes: Mapping[str, _Shape], fields: set[str] | None = None
) -> dict[str, tuple[int, list[ParticleComponent]]]:
    """Folder of each species → (number of its particles, its components).

    `shapes`: of the arrays of a step, by name; `fields`: the variables that were fields in an earlier step; those of
    this step are added.
    """
    fields = set() if fields is None else fields
    found: dict[str, tuple[int, list[ParticleComponent]]] = {}
    for name, shape in shapes.items():
        folder = _folder(name, shape)
        if folder is None or folder in found:
            continue
        number = shape[0]
        below = {each: its for each, its in shapes.items() if each.startswith(folder) and each not in fields}
        components = [part for each, its in below.items() for part in components_of(each, its, folder, number)]
        found[folder] = number, components
    fields |= set(shapes) - {part.variable for _, components in found.values() for part in components}
    return found


def _folder(name: str, shape: _Shape) -> str | None:
    """The path before `position`, with its slash; None when this variable is no position."""
    parts = name.split("/")
    if parts[-1] == "position" and len(shape) == 2 and shape[1] in (2, 3):
        return name[: -len("position")]
    if parts[-2:-1] == ["position"] and parts[-1] in AXES and len(shape) == 1:
        return name[: -len("position/x")]
    return None


def components_of(name: str, shape: _Shape, folder: str, number: int) -> Iterator[ParticleComponent]:
    """The components in an array below `folder` for `number` particles; none when it has another number of rows."""
    record, _, axis = name[len(folder) :].partition("/")
    if not shape or shape[0] != number or "/" in axis:
        return
    if len(shape) == 1:
        yield ParticleComponent(record, axis, name, None)
    elif len(shape) == 2 and shape[1] in (2, 3) and not axis:
        for column in range(shape[1]):
            yield ParticleComponent(record, AXES[column], name, column)


def species_name(folder: str) -> str:
    """The last folder of the path."""
    return folder.strip("/").rpartition("/")[2] or DEFAULT_SPECIES
