"""Which entries a file gives: scalars, lines, images, volumes, and the particles of a species together. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from workflow.look.look_model import KIND_OF_DIMENSIONS, DataView, FileContents, ViewColumn
from workflow.stage import Shape

AXES = ("x", "y", "z")
# An openPMD writer's list of its hosts, and the samples by which workflow.stage checks compression: no results.
_NO_RESULTS = {"/rankTable", "rankTable", "wf.samples"}
_NARROW = {"float32", "int8", "uint8", "int16", "uint16", "bool", "complex64"}
_Shapes = Mapping[str, tuple[Shape | None, ...]]


def all_steps(runs: Sequence[FileContents | None]) -> tuple[int, ...]:
    """The numbers of the steps of all runs together."""
    return tuple(sorted({mark.number for contents in runs if contents is not None for mark in contents.steps}))


def make_views(runs: Sequence[FileContents | None], steps: Sequence[int]) -> tuple[list[DataView], dict[str, str]]:
    """The views of a file that not all of the runs need have; and what is left out: variable → why."""
    shapes = [_by_step(contents, steps) for contents in runs]
    types = {name: kind for contents in reversed(runs) if contents is not None for name, kind in contents.types.items()}
    first = {name: _first_shape(shapes, name) for name in sorted(types.keys() - _NO_RESULTS)}
    left_out = {
        name: "text" if types[name] == "string" else f"type {types[name]}"
        for name in first
        if types[name] not in np.sctypeDict
    }
    numbers = {name: shape for name, shape in first.items() if name not in left_out}
    views: list[DataView] = []
    for folder, columns in find_species(numbers).items():
        extents = tuple(_extents(each.get(columns[0].variable), steps, None) for each in shapes)
        name = folder.strip("/") or "particles"
        unique = f"{name} (particles)" if name in numbers else name
        views.append(DataView(unique, "particles", columns, extents, _item_bytes(types, columns)))
    of_particles = {column.variable for view in views for column in view.columns}
    for name, shape in numbers.items():
        if name in of_particles:
            continue
        columns = _columns(name, shape)
        dimensions = len(shape) - (columns[0].element is not None)
        if dimensions in KIND_OF_DIMENSIONS:
            extents = tuple(_extents(each.get(name), steps, len(shape), dimensions) for each in shapes)
            views.append(DataView(name, KIND_OF_DIMENSIONS[dimensions], columns, extents, _item_bytes(types, columns)))
        else:
            left_out[name] = f"{dimensions} dimensions"
    return views, left_out


def find_species(shapes: Mapping[str, Shape]) -> dict[str, tuple[ViewColumn, ...]]:
    """Folder of each species → a column for each number of a particle.

    A species has a `position` [N, 2 or 3], or `position/x`, … [N] as in openPMD, or `x`, `y` and `z` [N] as in H5Part.
    What stands beside it and has N rows belongs to it.
    """
    found: dict[str, tuple[ViewColumn, ...]] = {}
    for name, shape in sorted(shapes.items()):
        folder = _species_folder(name, shape, shapes)
        if folder is not None and folder not in found:
            beside = [each for each in sorted(shapes) if each.startswith(folder)]
            columns = (column for each in beside for column in _of_particles(each, folder, shapes[each], shape[0]))
            found[folder] = tuple(columns)
    return found


def _species_folder(name: str, shape: Shape, shapes: Mapping[str, Shape]) -> str | None:
    folder, slash, last = name.rpartition("/")
    if last == "position" and len(shape) == 2 and shape[1] in (2, 3):
        return folder + slash
    if last != "x" or len(shape) != 1:
        return None
    if folder == "position" or folder.endswith("/position"):
        return folder[: -len("position")]
    return folder + slash if all(shapes.get(f"{folder}{slash}{axis}") == shape for axis in AXES) else None


def _of_particles(name: str, folder: str, shape: Shape, number: int) -> Iterator[ViewColumn]:
    record = name[len(folder) :]
    if shape[:1] != (number,) or record.count("/") > 1:
        return
    if len(shape) == 1:
        yield ViewColumn(record.replace("/", " "), name)
    elif len(shape) == 2 and shape[1] in (2, 3):
        for element in range(shape[1]):
            yield ViewColumn(f"{record} {AXES[element]}", name, element)


def _columns(name: str, shape: Shape) -> tuple[ViewColumn, ...]:
    """One column; several for a vector at each point of a grid of three dimensions."""
    if len(shape) == 4 and shape[-1] in (2, 3):
        return tuple(ViewColumn(AXES[element], name, element) for element in range(shape[-1]))
    return (ViewColumn(name, name),)


def _item_bytes(types: Mapping[str, str], columns: Sequence[ViewColumn]) -> int:
    """What the numbers need to keep their digits; integers above 2^53 lose some in any case."""
    return 4 if all(types[column.variable] in _NARROW for column in columns) else 8


def _by_step(contents: FileContents | None, steps: Sequence[int]) -> _Shapes:
    """The shapes of a run in the steps of all runs."""
    if contents is None:
        return {}
    place = {mark.number: index for index, mark in enumerate(contents.steps)}
    return {
        name: tuple(shapes[place[step]] if step in place else None for step in steps)
        for name, shapes in contents.shapes.items()
    }


def _first_shape(runs: Sequence[_Shapes], name: str) -> Shape:
    return next(shape for shapes in runs for shape in shapes.get(name, ()) if shape is not None)


def _extents(
    shapes: tuple[Shape | None, ...] | None, steps: Sequence[int], rank: int | None, axes: int = 1
) -> tuple[Shape | None, ...]:
    """The first axes of a variable in each step; None where it is not there, or has another number of dimensions."""
    if shapes is None:
        return (None,) * len(steps)
    return tuple(None if shape is None or rank not in (None, len(shape)) else shape[:axes] for shape in shapes)
