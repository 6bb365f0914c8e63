"""Reads the files of one run or two: first what they hold, then the numbers that the page carries."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workflow.data_files.read_steps import DataStep, VariableKind, boxes, open_data
from workflow.data_files.reading_process import ReadingProcess
from workflow.errors import RunError
from workflow.look.drawn_variables import (
    DataView,
    FileContents,
    StepTime,
    VariableLabel,
    ViewColumn,
    all_steps,
    is_number,
    make_views,
)
from workflow.look.fit_page_size import Thinning, kept_extent, thin
from workflow.stage import Array, Shape

RunFiles = Mapping[str, Path]
Bounds = tuple[float | None, float | None]
"""The least and the largest finite value; None where there is none."""


class Carried(NamedTuple):
    """The numbers of one column of a run: base64 of little-endian floats for each step taken, None where it has none.

    `low`, `high`: of the finite ones, None without any.
    """

    values: tuple[str | None, ...]
    low: float | None
    high: float | None


class Encoded(NamedTuple):
    """The numbers of one column in one step, as the page carries them, and the bounds of the finite ones."""

    text: str
    bounds: Bounds


@dataclass(frozen=True)
class FileView:
    """A file on the page: its steps (of all runs together), views, and for each view what is carried of each run."""

    name: str
    steps: tuple[int, ...]
    times: tuple[tuple[float | None, ...], ...]
    """For each run the time of each step."""
    time_unit: str
    labels: Mapping[str, VariableLabel]
    views: tuple[DataView, ...]
    thinned: Mapping[str, Thinning]
    carried: Mapping[str, tuple[tuple[Carried, ...], ...]] = field(default_factory=dict)
    """DataView → run → column."""
    title: str = ""
    """What the file is called on the page; empty: by its name."""
    is_spool: bool = False
    """Steps that the run has kept for itself: nobody asked for them as a result."""


def read_files(runs: Sequence[RunFiles], limit: int) -> tuple[list[FileView], list[str]]:
    """The files that one of the runs has, with at most `limit` bytes of numbers in the page; and what was left out.

    Two runs of one file each are taken as the same file, whatever its names.

    Raises:
        RunError: there are no numbers, or no file can be read. WfError: a library that this takes is not installed.
    """
    if all(len(files) == 1 for files in runs):
        name = next(iter(runs[0]))
        runs = [{name: path} for files in runs for path in files.values()]
    with ReadingProcess() as reading:
        return _read_in(reading, runs, limit)


def _read_in(reading: ReadingProcess, runs: Sequence[RunFiles], limit: int) -> tuple[list[FileView], list[str]]:
    notes: list[str] = []
    described = [_describe(reading, name, runs, notes) for name in sorted({name for files in runs for name in files})]
    # Base64 takes four bytes for three.
    chosen = iter(thin([view for file in described for view in file.views], limit * 3 // 4))
    found = []
    for file in described:
        thinned = {view.name: thinning for view, thinning in zip(file.views, chosen, strict=False) if thinning}
        large = [view.name for view in file.views if view.name not in thinned]
        notes += [f"{file.name}: {name} is left out: too large for this page even when thinned" for name in large]
        views = tuple(view for view in file.views if view.name in thinned)
        found.append(_with_numbers(reading, replace(file, views=views, thinned=thinned), runs, notes))
    if not any(file.views for file in found):
        hint = "if a file is still being written, look again when it has ended; what it should hold: wf report"
        raise RunError("there are no numbers to look at" + (f": {'; '.join(notes)}" if notes else ""), hint)
    return [file for file in found if file.views], notes


def _describe(reading: ReadingProcess, name: str, runs: Sequence[RunFiles], notes: list[str]) -> FileView:
    """A file without numbers."""
    contents = [_contents(reading, files.get(name), notes) for files in runs]
    steps = all_steps(contents)
    views, left_out = make_views(contents, steps)
    if left_out:
        notes.append(f"{name}: left out: {', '.join(f'{variable} ({why})' for variable, why in left_out.items())}")
    labels: dict[str, VariableLabel] = {}
    for each in contents:
        labels |= dict(each.labels) if each is not None else {}
    unit = next((each.time_unit for each in contents if each is not None), "")
    times = tuple(_times(each, steps) for each in contents)
    return FileView(name, steps, times, unit, labels, tuple(views), {})


def _contents(reading: ReadingProcess, path: Path | None, notes: list[str]) -> FileContents | None:
    if path is None:
        return None
    try:
        return reading.call(read_contents, path)
    except RunError as error:
        notes.append(f"left out: {error.message}")
        return None


def _times(contents: FileContents | None, steps: Sequence[int]) -> tuple[float | None, ...]:
    known = {mark.number: mark.time for mark in contents.steps} if contents is not None else {}
    return tuple(known.get(step) for step in steps)


def _with_numbers(reading: ReadingProcess, file: FileView, runs: Sequence[RunFiles], notes: list[str]) -> FileView:
    nothing = Carried((), None, None)
    read: list[dict[str, tuple[Carried, ...]]] = []
    for run, files in enumerate(runs):
        numbers: dict[str, tuple[Carried, ...]] = {}
        if file.name in files and any(extent is not None for view in file.views for extent in view.extents[run]):
            try:
                numbers, failed = reading.call(
                    read_numbers, files[file.name], run, file.steps, file.views, file.thinned
                )
                notes += [f"left out: {text}" for text in failed]
            except RunError as error:
                notes.append(f"left out: {error.message}")
        read.append(numbers)
    views = tuple(view for view in file.views if any(view.name in numbers for numbers in read))
    carried = {
        view.name: tuple(numbers.get(view.name, (nothing,) * len(view.columns)) for numbers in read) for view in views
    }
    return replace(file, views=views, carried=carried)


def read_contents(path: Path) -> FileContents:
    """The steps of a file, and type and shape of its variables in each. Reads no arrays.

    Raises:
        RunError: the file cannot be read. WfError: a library that it takes is not installed.
    """
    marks: list[StepTime] = []
    found: dict[str, list[VariableKind | None]] = {}
    labels: dict[str, VariableLabel] = {}
    unit, described = "", -1
    with open_data(path) as steps:
        for index, step in enumerate(steps):
            kinds = step.kinds()
            attributes = step.attributes()
            time, time_unit = time_of(step, kinds, attributes)
            marks.append(StepTime(index if step.iteration is None else step.iteration, time))
            unit = unit or time_unit
            for name, kind in kinds.items():
                found.setdefault(name, [None] * index).append(kind)
            # More attributes than before may describe a variable.
            note_labels(step, [name for name in kinds if name not in labels or len(attributes) != described], labels)
            described = len(attributes)
            for name in found.keys() - kinds.keys():
                found[name].append(None)
    return FileContents(tuple(marks), {name: tuple(each) for name, each in found.items()}, labels, unit)


def note_labels(step: DataStep, names: Sequence[str], labels: dict[str, VariableLabel]) -> None:
    """Take what the attributes of a step say of these variables; what they do not say stays."""
    for name in names:
        known = labels.get(name, VariableLabel())
        labels[name] = VariableLabel(step.label(name) or known.text, step.unit(name) or known.unit)


def read_numbers(
    path: Path, run: int, steps: Sequence[int], views: Sequence[DataView], thinned: Mapping[str, Thinning]
) -> tuple[dict[str, tuple[Carried, ...]], list[str]]:
    """DataView → what is carried of each of its columns, of the file of one run; and the views that could not be read.

    `steps`: the numbers of the steps of all runs; `run`: which of the runs this is.

    Raises:
        RunError: the file cannot be read.
    """
    taken = {view.name: range(0, len(steps), thinned[view.name].every) for view in views}
    found = {view.name: [_Column(len(taken[view.name])) for _ in view.columns] for view in views}
    failed: dict[str, str] = {}
    place = {number: index for index, number in enumerate(steps)}
    with open_data(path) as opened:
        for count, step in enumerate(opened):
            kinds = step.kinds()
            index = place.get(count if step.iteration is None else step.iteration)
            if index is None:  # the file has grown
                continue
            for view in views:
                extent = view.extents[run][index]
                if view.name in failed or index not in taken[view.name] or extent is None:
                    continue
                try:
                    arrays = read_view(step, kinds, view, extent, thinned[view.name])
                except RunError as error:
                    failed[view.name] = f"{view.name}: {error.message}"
                    continue
                for number, values in arrays.items():
                    found[view.name][number].add(taken[view.name].index(index), values, thinned[view.name].item_bytes)
    carried = {
        name: tuple(column.carried() for column in columns) for name, columns in found.items() if name not in failed
    }
    return carried, list(failed.values())


class _Column:
    """The numbers of a column, as they come."""

    def __init__(self, steps: int) -> None:
        self._values: list[str | None] = [None] * steps
        self._bounds: Bounds = (None, None)

    def add(self, place: int, values: Array, item_bytes: int) -> None:
        self._values[place], bounds = encode(values, item_bytes)
        self._bounds = wider(self._bounds, bounds)

    def carried(self) -> Carried:
        return Carried(tuple(self._values), *self._bounds)


def encode(values: Array, item_bytes: int) -> Encoded:
    """Base64 of an array as little-endian floats of 4 or 8 bytes, and the bounds of its finite values."""
    real = np.abs(values) if values.dtype.kind == "c" else values
    with np.errstate(over="ignore"):
        floats = np.ascontiguousarray(real, dtype=f"<f{item_bytes}")
    finite = floats[np.isfinite(floats)]
    bounds = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    return Encoded(base64.b64encode(floats.tobytes()).decode("ascii"), bounds)


def wider(one: Bounds, other: Bounds) -> Bounds:
    """Bounds that have both of these; (None, None) are those of no value."""
    known = [each for each in (*one, *other) if each is not None]
    return (min(known), max(known)) if known else (None, None)


def read_view(
    step: DataStep, kinds: Mapping[str, VariableKind], view: DataView, extent: Shape, thinning: Thinning
) -> dict[int, Array]:
    """Number of a column → its values in one step, which need not have all of them."""
    arrays: dict[str, Array] = {}
    found: dict[int, Array] = {}
    for number, column in enumerate(view.columns):
        kind = kinds.get(column.variable)
        if kind is None or not is_number(kind) or not column.is_in(kind.shape, extent):
            continue
        if column.variable not in arrays:
            arrays[column.variable] = read_thinned(step, kind, column, thinning.strides)
        found[number] = _element(arrays[column.variable], column)
    return found


def read_thinned(step: DataStep, kind: VariableKind, column: ViewColumn, strides: Shape) -> Array:
    """Every n-th value along each of the first axes, and the last axis of a variable whole; box by box."""
    strides = (*strides, 1) if column.element is not None else strides
    taken = np.empty(kept_extent(kind.shape, strides), np.dtype(kind.type))
    for start, count in boxes(kind.shape, kind.type):
        # The first value of the box that is taken, along each axis.
        first = [-begin % stride for begin, stride in zip(start, strides, strict=True)]
        if any(skip >= length for skip, length in zip(first, count, strict=True)):
            continue
        values = np.asarray(step.read(column.variable, start, count))
        values = values[tuple(slice(skip, None, stride) for skip, stride in zip(first, strides, strict=True))]
        corner = [(begin + skip) // stride for begin, skip, stride in zip(start, first, strides, strict=True)]
        taken[tuple(slice(low, low + length) for low, length in zip(corner, values.shape, strict=True))] = values
    return taken


def _element(array: Array, column: ViewColumn) -> Array:
    return array if column.element is None else array[..., column.element]


def time_of(
    step: DataStep, kinds: Mapping[str, VariableKind], attributes: Mapping[str, Any]
) -> tuple[float | None, str]:
    """The time of a step and its unit: its variable `time`, or the attribute of its openPMD iteration."""
    kind = kinds.get("time")
    if kind is not None and not kind.shape and is_number(kind):
        return float(np.real(step.read("time", (), ()))), step.unit("time")
    path = "/data/time"
    value = np.ravel(attributes.get(path, []))
    if not value.size or value.dtype.kind not in "iuf":
        return None, ""
    return float(value[0]), step.unit(path)
