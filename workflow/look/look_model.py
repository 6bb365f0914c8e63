"""What a file holds, what is viewed of it, and the numbers that the page carries. Data, without effects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from workflow.compare.data_files import VariableKind
from workflow.stage import Shape

ViewKind = Literal["scalar", "line", "image", "volume", "particles", "vectors"]
KIND_OF_DIMENSIONS: dict[int, ViewKind] = {0: "scalar", 1: "line", 2: "image", 3: "volume"}


def is_number(kind: VariableKind) -> bool:
    """Whether NumPy has this type; text and structures are not drawn."""
    return kind.type in np.sctypeDict


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


@dataclass(frozen=True)
class Thinning:
    """What is taken of a view: every n-th step, every n-th cell or particle of each axis, 4 or 8 bytes a number."""

    every: int = 1
    strides: Shape = ()
    item_bytes: int = 8


class Carried(NamedTuple):
    """The numbers of one column of a run: base64 of little-endian floats for each step taken, None where it has none.

    `low`, `high`: of the finite ones, None without any.
    """

    values: tuple[str | None, ...]
    low: float | None
    high: float | None


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
