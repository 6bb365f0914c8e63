"""The contents of one step in an HDF5 file: datasets and attributes by path, decided before any data is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from workflow.stage import Array, Info, Shape


@dataclass(frozen=True)
class Described:
    """One step without its arrays: their types and shapes, all scalars and strings, all attributes with their types.

    `index` counts the steps of the stream, `number` those that are written.
    """

    index: int
    number: int
    arrays: Mapping[str, Info]
    scalars: Mapping[str, Any]
    attributes: Mapping[str, Any]

    def own(self, variable: str) -> dict[str, Any]:
        """The attributes of one variable, without its name."""
        prefix = f"{variable}/"
        return {name[len(prefix) :]: value for name, value in self.attributes.items() if name.startswith(prefix)}

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shapes of its arrays, by name."""
        return {name: info.shape for name, info in self.arrays.items()}

    @property
    def is_openpmd(self) -> bool:
        """Whether an openPMD program wrote the stream, so that its names and attributes follow the standard."""
        return "/openPMD" in self.attributes

    def general(self) -> dict[str, Any]:
        """The attributes that belong to no variable; in an openPMD stream those of the whole series."""
        if self.is_openpmd:
            return {name[1:]: value for name, value in self.attributes.items() if name.rfind("/") == 0}
        owners = (*self.arrays, *self.scalars)
        return {
            name: value
            for name, value in self.attributes.items()
            if not any(name.startswith(f"{owner}/") for owner in owners)
        }

    @property
    def time(self) -> float:
        """The scalar `time` of the stream, else the number of the step in it."""
        given = self.scalars.get("time", self.index)
        return float(given) if isinstance(given, float | int | np.number) else float(self.index)

    @property
    def base(self) -> tuple[str, int]:
        """Where an openPMD program put this step, `/data` or `/data/NUMBER`, and its number."""
        given = int(np.ravel(self.attributes.get("/data/snapshot", self.index))[0])
        if self.attributes.get("/iterationEncoding") == "variableBased":
            return "/data", given
        found = (re.match(r"/data/(\d+)/", name) for name in self.arrays)
        number = next((int(match[1]) for match in found if match), given)
        return f"/data/{number}", number


class DatasetSource(NamedTuple):
    """Where a dataset comes from: a variable, or one column of its last axis. `shape`: of the dataset, if different."""

    variable: str
    column: int | None = None
    shape: Shape | None = None


@dataclass
class Tree:
    """The datasets and attributes by path. A path with attributes and no dataset is a group."""

    datasets: dict[str, DatasetSource] = field(default_factory=dict)
    attributes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def describe(self, path: str, attributes: Mapping[str, Any]) -> None:
        """Add attributes to the dataset or group at `path`."""
        self.attributes.setdefault(path, {}).update(attributes)

    def add(self, path: str, part: DatasetSource) -> None:
        """Add a dataset. Raises SystemExit when another variable already has this path."""
        first = self.datasets.setdefault(path, part)
        if first != part:
            raise SystemExit(
                f"archive: {first.variable} and {part.variable} would both be written to {path}; "
                "leave one out with `variables`"
            )


class FileAttributes:
    """The attributes of a stream: a file has the first value of each, and a step with another one keeps its own."""

    def __init__(self) -> None:
        self._first: dict[str, Any] = {}

    def split(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Those of the file, and those of this step."""
        for name, value in given.items():
            self._first.setdefault(name, value)
        others = {name: value for name, value in given.items() if not np.array_equal(value, self._first[name])}
        return {name: self._first[name] for name in given}, others


class Layout(Protocol):
    """Where the data of a step goes in a file."""

    def tree(self, step: Described) -> Tree:
        """The paths of everything in this step. Depends only on this step and on earlier ones."""

    def left_out(self, step: Described) -> dict[str, str]:
        """Variable → why the format has no place for it."""


def write_tree(file: Any, tree: Tree, read: Callable[[str], Array]) -> None:
    """Write one step. `read` is called once per variable, on all ranks; `file` is None on ranks that do not write.

    Only one variable at a time is in memory.
    """
    parts: dict[str, list[tuple[str, DatasetSource]]] = {}
    for path, part in tree.datasets.items():
        parts.setdefault(part.variable, []).append((path, part))
    for variable, places in parts.items():
        values = read(variable)
        for path, part in places if file is not None else ():
            data = values if part.column is None else values[..., part.column]
            with _naming(variable, path):
                file.create_dataset(path, data=data if part.shape is None else data.reshape(part.shape))
    if file is None:
        return
    for path, attributes in tree.attributes.items():
        place = file[path] if path in file else file.create_group(path)
        for name, value in attributes.items():
            with _naming(f"attribute {name}", path):
                place.attrs[name] = to_attribute(value)
    file.flush()


@contextmanager
def _naming(what: str, path: str) -> Iterator[None]:
    """Raise SystemExit for what HDF5 cannot hold: a dataset below a dataset, a text with a NUL."""
    try:
        yield
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise SystemExit(f"archive: {what} cannot be written to {path}: {error}") from error


def to_attribute(value: Any) -> Any:
    """The value for h5py: ASCII text as fixed-length strings, which openPMD's tools require."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        value = value.tolist()
    if isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
        texts = [item.encode() for item in value]
        return np.array(texts) if all(texts) and all(item.isascii() for item in value) else [str(i) for i in value]
    if isinstance(value, str):
        return np.bytes_(value.encode()) if value and value.isascii() else str(value)  # NumPy's str_ has no HDF5 type
    return value
