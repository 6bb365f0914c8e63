"""Fields as a VTKHDF file: an ImageData with time steps, which ParaView (5.12 or newer) and VTK open as it is.

Layout: https://docs.vtk.org/en/latest/vtk_file_formats/vtkhdf_file_format/index.html, version 2.0, `ImageData` with the
group `Steps`: one dataset per field whose first axis is the step, and `Steps/Values` with the times.

All fields of a file have one grid, which does not change. The last axis of an array is x. Fields of two dimensions are
a plane; a fourth axis of 2 or 3 holds the components of a vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from components.archive.h5part import grid_of
from components.archive.tree import Described, to_attribute
from workflow.particle_species import find_species
from workflow.stage import Array, Shape

ROOT = "VTKHDF"


def field_grid(shape: Shape) -> Shape | None:
    """The grid (z, y, x) or (y, x) of an array; None for one that is no field of 2 or 3 dimensions.

    VTK's reader finds no data on a grid of three dimensions with only one point along z: that is a plane.
    """
    vector = len(shape) == 4 and shape[-1] in (2, 3)
    grid = shape[:3] if vector else shape
    grid = grid[1:] if len(grid) == 3 and grid[0] == 1 else grid
    return grid if len(grid) in (2, 3) and min(grid) > 1 else None


def extent_of(grid: Shape, cells: bool) -> list[int]:
    """The first and the last point along x, y and z; of a plane only one along z."""
    last = [size if cells else size - 1 for size in grid[::-1]]
    return [bound for size in [*last, 0][:3] for bound in (0, size)]


class VtkHdf:
    """Appends steps to a file, which is None on the ranks that do not write. `cells`: the values are of cells."""

    def __init__(self, file: Any, cells: bool) -> None:
        self._file = file
        self._cells = cells
        self._grid: Shape = ()
        self._fields: list[str] = []

    def begin(self, step: Described) -> dict[str, str]:
        """Take grid and fields from the first step; returns why the other arrays are left out.

        Raises SystemExit where the step has no field, or two of one name.
        """
        species = find_species(step.shapes, set()).values()
        particles = {component.variable for _, components in species for component in components}
        grids = {
            name: field_grid(info.shape)
            for name, info in step.arrays.items()
            if name not in particles and "complex" not in info.type
        }
        # Of several grids the one with the most points, of equal ones the first.
        self._grid = max((grid for grid in grids.values() if grid), key=math.prod, default=())
        if not self._grid:
            has = ", ".join(f"{name} {list(info.shape)}" for name, info in step.arrays.items()) or "nothing"
            text = f"archive: format vtkhdf needs a field of 2 or 3 dimensions, but step {step.index} has {has}"
            raise SystemExit(f"{text}; use format hdf5 or h5part")
        self._fields = [name for name, grid in grids.items() if grid == self._grid]
        places: dict[str, str] = {}
        for name in self._fields:
            if (first := places.setdefault(_place(name), name)) != name:
                text = f"archive: {first} and {name} would both be the field {_place(name)}"
                raise SystemExit(f"{text}; leave one out with `variables`")
        if self._file is not None:
            self._write_head(step)
        why = f"no field of real numbers on the grid {list(self._grid)}"
        return {name: why for name in step.arrays if name not in self._fields}

    def add(self, step: Described, read: Callable[[str], Array]) -> None:
        """Append a step. `read` is called once per field, on all ranks. Raises SystemExit for another grid."""
        for name in self._fields:
            grid = field_grid(step.arrays[name].shape) if name in step.arrays else None
            if grid != self._grid:
                has = f"has shape {list(step.arrays[name].shape)}" if name in step.arrays else "is missing"
                text = f"archive: {name} {has} in step {step.index}, and the grid of the file is {list(self._grid)}"
                raise SystemExit(f"{text}; a VTKHDF file keeps its grid and fields: use format hdf5")
        kind = "CellData" if self._cells else "PointData"
        for name in self._fields:
            values = read(name)
            if self._file is not None:
                place, vector = _place(name), len(step.arrays[name].shape) == 4
                data = values.reshape((*self._grid, values.shape[-1]) if vector else self._grid)
                _append(self._file[ROOT], f"{kind}/{place}", data)
                _append(self._file[ROOT], f"Steps/{kind}Offsets/{place}", np.int64(step.number))
        if self._file is not None:
            steps = self._file[f"{ROOT}/Steps"]
            _append(steps, "Values", np.float64(step.time))
            steps.attrs["NSteps"] = np.int64(step.number + 1)
            self._file.flush()

    def _write_head(self, step: Described) -> None:
        place = grid_of(step, self._fields[0])
        attributes = {
            "Version": np.array([2, 0], dtype=np.int64),
            "Type": "ImageData",
            "WholeExtent": np.array(extent_of(self._grid, self._cells), dtype=np.int64),
            "Origin": place["__Origin__"],
            "Spacing": place["__Spacing__"],
            "Direction": np.eye(3).ravel(),
        }
        root = self._file.create_group(ROOT)
        for name, value in attributes.items():
            root.attrs[name] = to_attribute(value)
        root.create_group("Steps").attrs["NSteps"] = np.int64(0)


def _place(name: str) -> str:
    return name.strip("/").replace("/", "_")


def _append(group: Any, name: str, values: Any) -> None:
    """Add values to a dataset along its first axis, which is the step."""
    values = np.asarray(values)
    if name not in group:
        # A step is a chunk: it is read at once.
        chunk = (1, *values.shape) if 0 < values.nbytes < 2**32 else True
        group.create_dataset(name, (0, *values.shape), maxshape=(None, *values.shape), chunks=chunk, dtype=values.dtype)
    dataset = group[name]
    dataset.resize(dataset.shape[0] + 1, axis=0)
    dataset[-1] = values
