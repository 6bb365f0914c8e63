"""Steps as groups `Step#n` of an H5Part file, and H5Block's fields.

Layout: A. Adelmann et al., "Progress on H5Part: a portable high performance parallel data interface for
electromagnetics simulations": one dataset per number of a particle, all of one length, directly in the group of the
step; a field is a group below `Block` with one three-dimensional dataset per component, `0`, `1`, `2`. `__Origin__`
and `__Spacing__` of fields: H5hut, h5core/h5b_attribs.h.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from components.archive.tree import DatasetSource, Described, FileAttributes, Tree
from workflow.particle_species import AXES, ParticleComponent, components_of, find_species

# The names that readers of H5Part files expect.
_RECORDS = {"position": AXES, "momentum": ("px", "py", "pz"), "velocity": ("vx", "vy", "vz")}


class H5Part:
    """The layout H5Part with particles alone, or (`fields`) H5Block with fields and any particles."""

    def __init__(self, fields: bool = False) -> None:
        self._fields = fields
        self._known_fields: set[str] = set()
        self._general = FileAttributes()

    def tree(self, step: Described) -> Tree:
        """See `Layout`. Raises SystemExit when it is not clear which arrays hold one number per particle."""
        tree, group = Tree(), f"/Step#{step.number}"
        general, own = self._general.split(step.general())
        tree.describe("/", general)
        tree.describe(group, {**own, **step.scalars})
        if step.is_openpmd:
            base, number = step.base
            times = {name: step.attributes.get(f"{base}/{name}") for name in ("time", "dt", "timeUnitSI")}
            known = {name: value for name, value in times.items() if value is not None}
            tree.describe(group, {"iteration": np.int64(number), **known})
        for component in self._particles(step):
            path = f"{group}/{dataset_name(component)}"
            tree.add(path, DatasetSource(component.variable, component.column))
            tree.describe(path, step.own(component.variable))
        for name, field, part in self._components(step):
            path = f"{group}/Block/{name}"
            tree.add(f"{path}/{field}", part)
            tree.describe(path, {**step.own(part.variable), **grid_of(step, part.variable)})
        return tree

    def left_out(self, step: Described) -> dict[str, str]:
        """See `Layout`."""
        taken = {part.variable for part in self.tree(step).datasets.values()}
        why = "neither particles nor a field of 2 or 3 dimensions" if self._fields else "not one value per particle"
        return {name: why for name in step.arrays if name not in taken}

    def _particles(self, step: Described) -> list[ParticleComponent]:
        found = find_species(step.shapes, self._known_fields)
        if len(found) > 1:
            species = ", ".join(folder.strip("/") for folder in found)
            raise SystemExit(
                f"archive: an H5Part file holds one species, but the stream has {species}; choose with `variables`"
            )
        if found or self._fields:
            return [component for _, components in found.values() for component in components]
        lengths = {info.shape[0] for info in step.arrays.values() if len(info.shape) == 1}
        if len(lengths) != 1:
            has = ", ".join(f"{name} {list(info.shape)}" for name, info in step.arrays.items()) or "nothing"
            raise SystemExit(
                f"archive: no array is called `position`, so it is unclear which ones hold particles: the stream has "
                f"{has}; list arrays of one length in `variables`, or use format hdf5 or h5block"
            )
        (number,) = lengths
        return [part for name, shape in step.shapes.items() for part in components_of(name, shape, "", number)]

    def _components(self, step: Described) -> list[tuple[str, str, DatasetSource]]:
        """(field, number of the component, source of the data) of every field."""
        if not self._fields:
            return []
        taken = {component.variable for component in self._particles(step)}
        found: list[tuple[str, str, DatasetSource]] = []
        for name, info in step.arrays.items():
            shape = info.shape
            if name in taken:
                continue
            folder, _, axis = name.strip("/").rpartition("/")
            if len(shape) == 4 and shape[-1] in (2, 3):
                found += [(_last(name), str(index), DatasetSource(name, index)) for index in range(shape[-1])]
            elif len(shape) in (2, 3):
                # H5Block's fields have three dimensions
                part = DatasetSource(name, None, (1, *shape) if len(shape) == 2 else None)
                is_component = axis in AXES and folder
                found.append((_last(folder), str(AXES.index(axis)), part) if is_component else (_last(name), "0", part))
        return found


def dataset_name(component: ParticleComponent) -> str:
    """`x` for a position, `px` for a momentum, `spin_x` for others, `id` for a scalar."""
    if not component.axis:
        return component.record
    axis = AXES.index(component.axis) if component.axis in AXES else -1
    known = _RECORDS.get(component.record)
    return known[axis] if known and axis >= 0 else f"{component.record}_{component.axis}"


def grid_of(step: Described, variable: str) -> dict[str, Any]:
    """Origin and spacing of a field, x first, from openPMD attributes of the stream; else 0 and 1."""
    owner = variable
    for owner in (variable, variable.rpartition("/")[0]):
        if f"{owner}/gridSpacing" in step.attributes:
            break
    return {
        "__Origin__": _three(step.attributes.get(f"{owner}/gridGlobalOffset"), 0.0),
        "__Spacing__": _three(step.attributes.get(f"{owner}/gridSpacing"), 1.0),
    }


def _three(values: Any, default: float) -> Any:
    given = [] if values is None else [float(value) for value in np.ravel(values)[::-1]]
    return np.array([*given, default, default, default][:3])


def _last(name: str) -> str:
    return name.strip("/").rpartition("/")[2]
