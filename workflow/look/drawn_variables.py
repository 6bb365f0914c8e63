"""What of a file is drawn, and as what: scalars, lines, images, volumes, vectors, particles of a species. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from workflow.data_files.read_steps import VariableKind
from workflow.particle_species import AXES, components_of, find_species
from workflow.stage import Shape

ViewKind = Literal["scalar", "line", "image", "volume", "particles", "vectors"]
KIND_OF_DIMENSIONS: dict[int, ViewKind] = {0: "scalar", 1: "line", 2: "image", 3: "volume"}


def is_number(kind: VariableKind) -> bool:
    """Whether NumPy has this type; text, structures and blocks without a place are not drawn."""
    return kind.type in np.sctypeDict and not kind.local


class StepTime(NamedTuple):
    """A step of a file: its number (that of an openPMD iteration, otherwise counted from 0), its time if it has one."""

    number: int
    time: float | None = None


class VariableLabel(NamedTuple):
    """What the attributes of a variable say."""

    text: str = ""
    unit: str = ""


@dataclass(frozen=True)
class FileContents:
    """A file of one run, without its numbers. `kinds`: variable → its type and shape in each step, or None."""

    steps: tuple[StepTime, ...]
    kinds: Mapping[str, tuple[VariableKind | None, ...]]
    labels: Mapping[str, VariableLabel] = field(default_factory=dict)
    time_unit: str = ""


class ViewColumn(NamedTuple):
    """A number per cell or particle: a variable, or one element of its last axis."""

    label: str
    variable: str
    element: int | None = None

    def is_in(self, shape: Shape, extent: Shape) -> bool:
        """Whether a variable of this shape has this column for all cells of a view; the last axis may change."""
        if self.element is None:
            return shape == extent
        return shape[:-1] == extent and self.element < shape[-1]


@dataclass(frozen=True)
class DataView:
    """An entry of the page's list of variables.

    `extents`: for each run and each step of the file, the axes of its columns; None where the run does not have it.
    """

    name: str
    kind: ViewKind
    columns: tuple[ViewColumn, ...]
    extents: tuple[tuple[Shape | None, ...], ...]
    item_bytes: int = 8


# An openPMD writer's list of its hosts, and the samples by which workflow.stage checks compression: no results.
_NO_RESULTS = {"/rankTable", "rankTable", "wf.samples"}
_NARROW = {"float32", "int8", "uint8", "int16", "uint16", "bool", "complex64"}
_Kinds = Mapping[str, tuple[VariableKind | None, ...]]


def all_steps(runs: Sequence[FileContents | None]) -> tuple[int, ...]:
    """The numbers of the steps of all runs together."""
    return tuple(sorted({mark.number for contents in runs if contents is not None for mark in contents.steps}))


def make_views(runs: Sequence[FileContents | None], steps: Sequence[int]) -> tuple[list[DataView], dict[str, str]]:
    """The views of a file that not all of the runs need have; and what is left out: variable → why."""
    given = [_by_step(contents, steps) for contents in runs]
    left_out = {name: why for name in _names(given) if (why := _left_out(given, name))}
    kinds = [{name: _numbers_only(steps_of) for name, steps_of in each.items()} for each in given]
    numbers = {name: shape for name in _names(kinds) if (shape := _first_shape(kinds, name)) is not None}
    views: list[DataView] = []
    for folder, found in _species(kinds, steps).items():
        columns = tuple(column for column in found if _rows_agree(kinds, column.variable, _position(found)))
        name = folder.strip("/") or "particles"
        unique = f"{name} (particles)" if name in numbers else name
        extents = tuple(_extents_of_species(each, steps, columns) for each in kinds)
        views.append(DataView(unique, "particles", columns, extents, _item_bytes(kinds, columns)))
    of_particles = {column.variable for view in views for column in view.columns}
    for name, shape in numbers.items():
        if name in of_particles:
            continue
        columns = _columns(name, shape)
        axes = len(shape) - (columns[0].element is not None)
        if axes in KIND_OF_DIMENSIONS:
            extents = tuple(_extents(each.get(name, (None,) * len(steps)), len(shape), axes) for each in kinds)
            kind = "vectors" if axes == 1 and len(columns) > 1 else KIND_OF_DIMENSIONS[axes]
            views.append(DataView(name, kind, columns, extents, _item_bytes(kinds, columns)))
        else:
            left_out[name] = f"{axes} dimensions"
    for view in views:
        left_out |= dict.fromkeys(_other_shapes(view, kinds), "in steps where its shape has other axes")
    return views, left_out


def columns_of_species(shapes: Mapping[str, Shape]) -> dict[str, tuple[ViewColumn, ...]]:
    """Folder of each species in a step → a column for each number of a particle.

    Species are found as the component `archive` finds them; besides by `x`, `y` and `z` [N], which H5Part has.
    """
    ordered = dict(sorted(shapes.items()))
    found = find_species(ordered)
    for name, shape in ordered.items():
        folder = _coordinate_folder(name, shape, shapes)
        if folder is not None and folder not in found:
            below = [(each, its) for each, its in ordered.items() if each.startswith(folder)]
            parts = [part for each, its in below for part in components_of(each, its, folder, shape[0])]
            found[folder] = shape[0], parts
    return {
        folder: tuple(
            ViewColumn(f"{part.record} {part.axis}".rstrip(), part.variable, part.column) for part in components
        )
        for folder, (_, components) in found.items()
    }


def _coordinate_folder(name: str, shape: Shape, shapes: Mapping[str, Shape]) -> str | None:
    """The path before an `x` that has `y` and `z` of one length beside it; None for all other arrays."""
    folder, slash, last = name.rpartition("/")
    if last != "x" or len(shape) != 1 or folder.rpartition("/")[2] == "position":
        return None
    return folder + slash if all(shapes.get(f"{folder}{slash}{axis}") == shape for axis in AXES) else None


def _species(runs: Sequence[_Kinds], steps: Sequence[int]) -> dict[str, list[ViewColumn]]:
    """Folder of each species → its columns in any step of any run."""
    of_steps = {
        tuple((name, kind.shape) for name, each in kinds.items() if (kind := each[index]) is not None)
        for kinds in runs
        for index in range(len(steps))
    }
    found: dict[str, set[ViewColumn]] = {}
    for shapes in of_steps:
        for folder, columns in columns_of_species(dict(shapes)).items():
            found.setdefault(folder, set()).update(columns)
    return {
        folder: sorted(columns, key=lambda each: (each.variable, each.element or 0))
        for folder, columns in sorted(found.items())
    }


def _columns(name: str, shape: Shape) -> tuple[ViewColumn, ...]:
    """One column; several for a list of vectors [N, 3], and a vector at each point of a grid of three dimensions."""
    if shape[-1:] in ((2,), (3,)) and (len(shape) == 4 or (len(shape) == 2 and shape[0] > shape[1])):
        return tuple(ViewColumn(AXES[element], name, element) for element in range(shape[-1]))
    return (ViewColumn(name, name),)


def _names(runs: Sequence[_Kinds]) -> list[str]:
    return sorted({name for kinds in runs for name in kinds} - _NO_RESULTS)


def _all_kinds(runs: Sequence[_Kinds], name: str) -> Iterator[VariableKind]:
    """What a variable is, in all steps of all runs that have it."""
    return (kind for kinds in runs for kind in kinds.get(name, ()) if kind is not None)


def _left_out(runs: Sequence[_Kinds], name: str) -> str:
    """Why a variable is not drawn, or not in all of its steps; "" where it is."""
    kinds = list(_all_kinds(runs, name))
    other = next((kind for kind in kinds if not is_number(kind)), None)
    if other is None:
        return ""
    why = "in local blocks" if other.local else "text" if other.type == "string" else f"type {other.type}"
    return why + (" in some steps" if any(map(is_number, kinds)) else "")


def _numbers_only(kinds: tuple[VariableKind | None, ...]) -> tuple[VariableKind | None, ...]:
    return tuple(kind if kind is not None and is_number(kind) else None for kind in kinds)


def _item_bytes(runs: Sequence[_Kinds], columns: Sequence[ViewColumn]) -> int:
    """What the numbers need to keep their digits in every step; integers above 2^53 lose some in any case."""
    return 4 if all(kind.type in _NARROW for column in columns for kind in _all_kinds(runs, column.variable)) else 8


def _by_step(contents: FileContents | None, steps: Sequence[int]) -> _Kinds:
    """The variables of a run in the steps of all runs."""
    if contents is None:
        return {}
    place = {mark.number: index for index, mark in enumerate(contents.steps)}
    return {
        name: tuple(kinds[place[step]] if step in place else None for step in steps)
        for name, kinds in contents.kinds.items()
    }


def _first_shape(runs: Sequence[_Kinds], name: str) -> Shape | None:
    return next((kind.shape for kind in _all_kinds(runs, name)), None)


def _position(columns: Sequence[ViewColumn]) -> str:
    """The variable that makes these columns a species."""
    return next(column.variable for column in columns if column.label.split()[0] in ("position", "x"))


def _rows_agree(runs: Sequence[_Kinds], name: str, position: str) -> bool:
    """Whether an array never has another length than the position: if it once has, it was as long by chance."""
    pairs = (pair for kinds in runs for pair in zip(kinds.get(name, ()), kinds.get(position, ()), strict=False))
    return all(one is None or other is None or one.shape[:1] == other.shape[:1] for one, other in pairs)


def _extents_of_species(kinds: _Kinds, steps: Sequence[int], columns: Sequence[ViewColumn]) -> tuple[Shape | None, ...]:
    """The number of particles in each step: rows of the position, or where it is absent, of the first column."""
    names = dict.fromkeys((_position(columns), *(column.variable for column in columns)))
    found: list[Shape | None] = []
    for index in range(len(steps)):
        here = (kinds[name][index] for name in names if name in kinds)
        found.append(next((kind.shape[:1] for kind in here if kind is not None and kind.shape), None))
    return tuple(found)


def _extents(kinds: tuple[VariableKind | None, ...], rank: int, axes: int) -> tuple[Shape | None, ...]:
    """The first axes of a variable in each step; None where it is not there, or has another number of dimensions."""
    return tuple(None if kind is None or rank != len(kind.shape) else kind.shape[:axes] for kind in kinds)


def _other_shapes(view: DataView, runs: Sequence[_Kinds]) -> Iterator[str]:
    """The variables of a view of which some step has more than its columns show."""
    for name in dict.fromkeys(column.variable for column in view.columns):
        last = [column for column in view.columns if column.variable == name][-1]
        for kinds, extents in zip(runs, view.extents, strict=True):
            for kind, extent in zip(kinds.get(name, ()), extents, strict=False):
                if kind is not None and (extent is None or not _shows_all(last, kind.shape, extent)):
                    yield name


def _shows_all(last: ViewColumn, shape: Shape, extent: Shape) -> bool:
    """Whether the columns up to the last one of a variable have all of it."""
    if last.element is None:
        return shape == extent
    return shape[:-1] == extent and shape[-1] <= last.element + 1
