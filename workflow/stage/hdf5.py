"""HDF5 files through h5py, in the layout of ADIOS2's HDF5 engine, which the ADIOS2 from PyPI lacks.

One group `Step0`, `Step1`, … for each step with one dataset per variable; `position/unit` is the attribute `unit`
of every dataset `position`; other attributes belong to the file and keep their last value. The groups `Step#0`, … of
H5Part are steps too; any other HDF5 file is read as one step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from workflow.distribution.boxes import Shape
from workflow.formats.stage_file import StreamEnd
from workflow.stage.ranks import own_communicator
from workflow.stage.stage_errors import StageError
from workflow.stage.stream_engines import ByteCounter, StepStatus
from workflow.stage.variables import Array, BlockData, BlockTable, Info, Selection

# H5Part calls them `Step#0`.
_STEP = re.compile(r"Step#?(\d+)")


class Hdf5ReadEngine:
    """A file opened for reading by this process; several ranks may open the same one."""

    def __init__(self, end: StreamEnd) -> None:
        self._h5py, self._file = _open(end, "r")
        found = {int(match[1]): name for name in self._file if (match := _STEP.fullmatch(name))}
        groups = [self._file[found[number]] for number in sorted(found)]
        self._left = iter(groups if groups or "NumSteps" in self._file.attrs else [self._file])
        self._sets: dict[str, Any] = {}
        self._groups: dict[str, Any] = {}
        self._counter = ByteCounter(own_communicator())

    def begin(self, timeout_s: float) -> StepStatus:
        """See `ReadEngine`. A file is complete: there is nothing to wait for."""
        del timeout_s
        group = next(self._left, None)
        if group is None:
            return StepStatus.ENDED
        self._sets, self._groups = {}, {}
        group.visititems(self._add)
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
        found = {str(key): value for key, value in self._file.attrs.items() if key != "NumSteps"}
        for name, item in (self._sets | self._groups).items():
            found |= {f"{name}/{key}": value for key, value in item.attrs.items()}
        return {name: _from_attribute(value) for name, value in found.items()}

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """See `ReadEngine`."""
        found = []
        for name, start, extent, *_ in wanted:
            dataset = self._sets[name]
            if _info(dataset).type == "string":
                found.append(np.array(dataset.asstr()[()]))
                continue
            found.append(np.asarray(dataset[_slices(start, extent)]))
            self._counter.add(found[-1].nbytes)
        return found

    def _add(self, name: str, item: Any) -> None:
        if isinstance(item, self._h5py.Dataset):
            self._sets[name] = item
        else:
            self._groups[name] = item


class Hdf5WriteEngine:
    """A file opened for writing by this process alone."""

    def __init__(self, end: StreamEnd) -> None:
        self._h5py, self._file = _open(end, "w")
        self._file.attrs["NumSteps"] = np.uint32(0)  # tells a stream without steps from other HDF5 files
        self._steps = 0
        self._group: Any = None
        self._attributes: dict[str, Array | list[str]] = {}

    def begin(self) -> None:
        """See `WriteEngine`."""
        self._group = self._file.create_group(f"Step{self._steps}")

    def put(self, block: BlockData) -> None:
        """See `WriteEngine`."""
        if block.type == "string":
            self._group.create_dataset(block.name, data=str(block.values[()]), dtype=self._h5py.string_dtype())
        else:
            dataset = self._group.require_dataset(block.name, block.shape, block.values.dtype, exact=True)
            if block.values.size:
                dataset[_slices(block.start, block.values.shape)] = block.values

    def put_share(self, block: BlockData) -> None:
        """See `WriteEngine`."""
        self.put(block)

    def put_local(self, name: str, blocks: Sequence[BlockData]) -> None:
        """See `WriteEngine`. `holds_local_blocks` says that HDF5 has none."""
        raise NotImplementedError

    def end(self) -> None:
        """See `WriteEngine`."""
        for name, value in self._attributes.items():
            owner, _, label = name.rpartition("/")
            place = self._group[owner] if owner and owner in self._group else self._file
            place.attrs[label if place is not self._file else name] = value
        self._steps += 1
        self._file.attrs["NumSteps"] = np.uint32(self._steps)
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
        text = isinstance(value, np.ndarray) and value.dtype.kind == "U"
        self._attributes[name] = str(value[()]) if text else value  # type: ignore[call-overload,assignment]


def _open(end: StreamEnd, mode: str) -> tuple[Any, Any]:
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise StageError(f"stream {end.stream}: this Python needs h5py for HDF5 files: pip install h5py") from error
    try:
        return h5py, h5py.File(end.path, mode)
    except OSError as error:
        raise StageError(f"stream {end.stream}: cannot open {end.path} as an HDF5 file: {error}") from error


def _info(dataset: Any) -> Info:
    kind = "string" if dataset.dtype.kind in "OSU" else dataset.dtype.name
    return Info(kind, tuple(dataset.shape or ()))


def _slices(start: Shape, extent: Shape) -> tuple[slice, ...]:
    return tuple(slice(first, first + length) for first, length in zip(start, extent, strict=True))


def _from_attribute(value: Any) -> Array | list[str]:
    array = np.asarray(value)
    if array.dtype.kind not in "OSU":
        return array
    texts = [item.decode() if isinstance(item, bytes) else str(item) for item in array.reshape(-1).tolist()]
    return texts if array.ndim else np.array(texts[0])
