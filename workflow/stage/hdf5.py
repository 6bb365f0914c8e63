"""HDF5 files through h5py, in the layout of ADIOS2's HDF5 engine, which the ADIOS2 from PyPI lacks.

One group `Step0`, `Step1`, … for each step with one dataset per variable. A name that is no path of HDF5, `/data/rho`
or `x` beside `x/y`, is in the dataset's attribute `ADIOSName`, as ADIOS2 has it. `position/unit` is the attribute
`unit` of every dataset `position`. Other attributes belong to the file, with their last value; those that change, or
come later, also to the groups of the steps that set them, which only this module reads.

Of the files of others, the groups `Step#0`, … of H5Part and the iterations of openPMD are steps too, these under the
names that they have in a variable-based series of ADIOS2, `/data/meshes/E/x`; and so are the time steps of an image of
VTKHDF, as the component `archive` writes it. Any other HDF5 file is read as one step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from workflow.distribution.boxes import Shape
from workflow.formats.stage_file import StreamEnd
from workflow.stage.hdf5_values import attributes_of, type_name, values_of
from workflow.stage.ranks import own_communicator
from workflow.stage.stage_errors import StageError
from workflow.stage.stream_engines import ByteCounter, StepStatus
from workflow.stage.variables import Array, BlockData, BlockTable, Info, Selection

# H5Part calls them `Step#0`.
_STEP = re.compile(r"Step#?(\d+)")
_STEPS = "NumSteps"
_NAME = "ADIOSName"
# What ADIOS2 notes of a variable beside it.
_NOTES = ("ADIOS_BLOCKINFO_", "ADIOS_STAT_")
# The older format of objects, h5py's default, has no attributes of 64 KiB or more.
LIBVER = ("v108", "latest")


class _StepGroup(NamedTuple):
    """The group of a step: `prefix` is that of the names in it. `attributes`: that follow from where it is."""

    group: Any
    prefix: str = ""
    attributes: Mapping[str, Any] = {}


class _StepRow:
    """One index along the first axis of a dataset, which is the step in VTKHDF."""

    def __init__(self, dataset: Any, index: int) -> None:
        self._dataset, self._index = dataset, index
        self.shape, self.dtype, self.file = dataset.shape[1:], dataset.dtype, dataset.file
        self.attrs = dataset.attrs

    def __getitem__(self, box: tuple[slice, ...]) -> Any:
        return self._dataset[(self._index,) + box]  # noqa: RUF005, the other form takes Python 3.11


class Hdf5ReadEngine:
    """A file opened for reading by this process; several ranks may open the same one."""

    def __init__(self, end: StreamEnd) -> None:
        self._h5py, self._file = _open(end, "r")
        self._is_openpmd = False
        self._image: Any = None
        groups = self._steps()
        self._left = iter(groups)
        self._general = self._read_general()
        self._index = -1
        # The first step with another value than the file has at the end.
        self._first: dict[str, int] = {}
        for index, (group, prefix, _) in enumerate(groups):
            if not prefix and group != self._file:
                for name in group.attrs:
                    self._first.setdefault(name, index)
        self._known: dict[str, Any] = {}
        self._sets: dict[str, Any] = {}
        self._groups: dict[str, Any] = {}
        self._counter = ByteCounter(own_communicator())

    def begin(self, timeout_s: float) -> StepStatus:
        """See `ReadEngine`. A file is complete: there is nothing to wait for."""
        del timeout_s
        step = next(self._left, None)
        if step is None:
            return StepStatus.ENDED
        self._index += 1
        self._sets, self._groups = {}, {}
        if self._image is not None:
            self._sets = dict(_image_fields(self._image, self._index))
            return StepStatus.READY
        for name, item in _items(step.group):
            self._add(step.prefix + name, item)
        if self._is_openpmd and not self._index:
            for name, item in self._outside():
                self._add(name, item)
        if step.prefix:
            self._known = dict(step.attributes)
            self._known |= {step.prefix + key: value for key, value in attributes_of(step.group).items()}
        elif step.group != self._file:
            self._known |= attributes_of(step.group)
        return StepStatus.READY

    def end(self) -> int | None:
        """See `ReadEngine`."""
        return self._counter.end_step()

    def bytes_of_all(self) -> list[int] | None:
        """See `ReadEngine`."""
        return self._counter.of_all()

    def close(self) -> None:
        """See `ReadEngine`."""
        self._file.close()

    def abandon(self) -> None:
        """See `ReadEngine`."""
        self._file.close()

    def variables(self) -> dict[str, Info]:
        """See `ReadEngine`."""
        return {name: _info(dataset) for name, dataset in self._sets.items()}

    def info(self, name: str) -> Info | None:
        """See `ReadEngine`."""
        return _info(self._sets[name]) if name in self._sets else None

    def blocks(self, names: Sequence[str]) -> dict[str, BlockTable]:
        """See `ReadEngine`. HDF5 does not record which rank wrote what."""
        del names
        return {}

    def attributes(self) -> dict[str, Array | list[str]]:
        """See `ReadEngine`."""
        now = self._index
        found = {name: value for name, value in self._general.items() if self._first.get(name, now) <= now}
        found |= self._known
        for name, item in chain(self._sets.items(), self._groups.items()):
            found |= {f"{name}/{key}": value for key, value in attributes_of(item).items() if key != _NAME}
        return found

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """See `ReadEngine`."""
        found = []
        for name, start, extent, *_ in wanted:
            found.append(values_of(self._sets[name], _slices(start, extent)))
            self._counter.add(found[-1].nbytes)
        return found

    def _steps(self) -> list[_StepGroup]:
        found = {int(match[1]): name for name in self._file if (match := _STEP.fullmatch(name))}
        if found or _STEPS in self._file.attrs:
            return [_StepGroup(self._file[found[number]]) for number in sorted(found)]
        image = self._file.get("VTKHDF")
        if image is not None and "Steps" in image and str(attributes_of(image).get("Type")) == "ImageData":
            self._image = image
            return [_StepGroup(self._file)] * int(image["Steps"].attrs["NSteps"])
        base = self._file.get("data", {}) if "openPMD" in self._file.attrs else {}
        numbers = sorted((int(name), name) for name in base if name.isdigit())
        if not numbers:  # another encoding of openPMD among them
            return [_StepGroup(self._file)]
        self._is_openpmd = True
        return [
            _StepGroup(base[name], "/data/", {"/data/snapshot": np.array(number, np.uint64)})
            for number, name in numbers
        ]

    def _read_general(self) -> dict[str, Any]:
        found = {key: value for key, value in attributes_of(self._file).items() if key != _STEPS}
        found |= attributes_of(self._image) if self._image is not None else {}
        if not self._is_openpmd:
            return found
        # What the names of this reader are like.
        return {f"/{key}": value for key, value in found.items()} | {"/iterationEncoding": np.array("variableBased")}

    def _outside(self) -> Iterator[tuple[str, Any]]:
        """What an openPMD file has outside of its iterations: a part of the first one."""
        top, base = self._file, self._file.get("data", {})
        apart = [top[key] for key in top if key != "data"] + [base[key] for key in base if not key.isdigit()]
        for item in apart:
            yield item.name, item
            if isinstance(item, self._h5py.Group):
                yield from ((f"{item.name}/{name}", each) for name, each in _items(item))

    def _add(self, name: str, item: Any) -> None:
        if not isinstance(item, self._h5py.Dataset):
            self._groups[name] = item
        elif not name.rpartition("/")[2].startswith(_NOTES):
            given = item.attrs.get(_NAME)
            self._sets[given.decode() if isinstance(given, bytes) else given or name] = item


class Hdf5WriteEngine:
    """A file opened for writing by this process alone."""

    def __init__(self, end: StreamEnd) -> None:
        self._h5py, self._file = _open(end, "w")
        self._file.attrs[_STEPS] = np.uint32(0)  # tells a stream without steps from other HDF5 files
        self._steps = 0
        self._group: Any = None
        self._paths = _Paths()
        self._sets: dict[str, Any] = {}  # of this step
        self._attributes: dict[str, Array | list[str]] = {}
        # Attributes of the file, and those of them that are in the steps that set them, too.
        self._general: dict[str, Array | list[str]] = {}
        self._by_step: set[str] = set()

    def begin(self) -> None:
        """See `WriteEngine`."""
        self._group = self._file.create_group(f"Step{self._steps}")
        self._sets = {}

    def put(self, block: BlockData) -> None:
        """See `WriteEngine`. Raises StageError for blocks of a variable that differ in type or in global shape."""
        known = self._sets.get(block.name)
        if known is None:
            known = self._sets[block.name] = self._create(block)
        elif block.type == "string" or (known.shape, known.dtype) != (block.shape, block.values.dtype):
            raise StageError(
                f"{block.name} is written twice in one step, with the shapes {known.shape} and {block.shape}: "
                "an HDF5 file has one array of a name in a step, and no local blocks; use .bp"
            )
        if block.type != "string" and block.values.size:
            known[_slices(block.start, block.values.shape)] = block.values

    def put_share(self, block: BlockData) -> None:
        """See `WriteEngine`."""
        self.put(block)

    def put_local(self, name: str, blocks: Sequence[BlockData]) -> None:
        """See `WriteEngine`. `holds_local_blocks` says that HDF5 has none."""
        raise NotImplementedError

    def end(self) -> None:
        """See `WriteEngine`. Raises StageError for an attribute that HDF5 cannot hold."""
        for name, value in self._attributes.items():
            owner, _, label = name.rpartition("/")
            try:
                if label and owner in self._sets:
                    _set_attribute(self._sets[owner], label, value)
                else:
                    self._describe(name, value)
            except (OSError, RuntimeError, TypeError, ValueError) as error:
                raise StageError(f"attribute {name!r} could not be written: {error}") from error
        self._steps += 1
        self._file.attrs[_STEPS] = np.uint32(self._steps)
        self._file.flush()
        self._group = None

    def close(self) -> None:
        """See `WriteEngine`."""
        self._file.close()

    def abandon(self) -> None:
        """See `WriteEngine`."""
        if self._group is not None:
            del self._file[self._group.name]
        self._file.close()

    def attribute(self, name: str, value: Array | list[str]) -> None:
        """See `WriteEngine`."""
        self._attributes[name] = value

    def _create(self, block: BlockData) -> Any:
        path = self._paths.of(block.name)
        if block.type == "string":
            text = str(block.values[()])
            dataset = self._group.create_dataset(path, data=text, dtype=self._h5py.string_dtype())
        else:
            dataset = self._group.create_dataset(path, block.shape, block.values.dtype)
        if path != block.name:
            dataset.attrs[_NAME] = np.bytes_(block.name.encode())
        return dataset

    def _describe(self, name: str, value: Array | list[str]) -> None:
        """Give the file an attribute of this step: readers of ADIOS2 see the last value, this module's each one."""
        known = self._general.get(name)
        if known is value:
            return
        if known is not None and name not in self._by_step:
            _set_attribute(self._file["Step0"], name, known)
        if known is not None or self._steps:
            _set_attribute(self._group, name, value)
            self._by_step.add(name)
        _set_attribute(self._file, name, value)
        self._general[name] = value


class _Paths:
    """The path of each variable in the group of a step: as ADIOS2 makes it, else one without slashes."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._sets: set[str] = set()
        self._groups: set[str] = set()

    def of(self, name: str) -> str:
        """The same in all steps."""
        if name not in self._known:
            escaped = quote(name, safe="")
            others = chain([escaped], (f"{escaped}#{number}" for number in count(2)))
            path = next(filter(self._is_free, chain(["/".join(filter(None, name.split("/")))], others)))
            self._known[name] = path
            self._sets.add(path)
            self._groups.update(_folders(path))
        return self._known[name]

    def _is_free(self, path: str) -> bool:
        parts = path.split("/")
        taken = path in self._sets or path in self._groups or not self._sets.isdisjoint(_folders(path))
        return not taken and "" not in parts and "." not in parts


def _folders(path: str) -> Iterator[str]:
    """`a` and `a/b` of `a/b/c`."""
    parts = path.split("/")
    return ("/".join(parts[:depth]) for depth in range(1, len(parts)))


def _open(end: StreamEnd, mode: str) -> tuple[Any, Any]:
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise StageError(f"stream {end.stream}: this Python needs h5py for HDF5 files: pip install h5py") from error
    try:
        # A reader takes no lock: a program that opens its file anew for each dump would fail at the next one.
        given = {"locking": False} if mode == "r" else {"libver": LIBVER}
        return h5py, h5py.File(end.path, mode, **given)
    except OSError as error:
        raise StageError(f"stream {end.stream}: cannot open {end.path} as an HDF5 file: {error}") from error


def _items(group: Any) -> list[tuple[str, Any]]:
    """Path in a group → what is there."""
    found: list[tuple[str, Any]] = []
    group.visititems(lambda name, item: found.append((name, item)))
    return found


def _image_fields(image: Any, index: int) -> Iterator[tuple[str, Any]]:
    """The fields of one time step, and its `time`."""
    yield "time", _StepRow(image["Steps/Values"], index)
    for kind in ("PointData", "CellData"):
        for name, dataset in image.get(kind, {}).items():
            yield name, _StepRow(dataset, index)


def _info(dataset: Any) -> Info:
    return Info(type_name(dataset), tuple(dataset.shape or ()))


def _slices(start: Shape, extent: Shape) -> tuple[slice, ...]:
    return tuple(slice(first, first + length) for first, length in zip(start, extent, strict=True))


def _set_attribute(place: Any, name: str, value: Array | list[str]) -> None:
    if isinstance(value, list):
        import h5py

        place.attrs.create(name, np.array(value, dtype=object), dtype=h5py.string_dtype())
    else:
        place.attrs[name] = str(value[()]) if value.dtype.kind == "U" else value  # NumPy's text has no type in HDF5
