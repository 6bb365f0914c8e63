"""HDF5's types as those of a step: numbers and text as they are; others, which no stream has, by a name, and as text.

References are the paths of what they refer to: two files with equal contents have other references.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from workflow.stage.variables import Array

# Names of types that no stream has; and that of a dataset without a dataspace.
NO_STREAM_TYPES = ("compound", "opaque", "reference", "variable length", "unknown")
EMPTY = "empty"
# Bytes that are no UTF-8 stay visible, and differ where they differ.
_ERRORS = "backslashreplace"
_UNREADABLE = "of a type that h5py cannot read"


def type_name(dataset: Any) -> str:
    """NumPy's name of a dataset's type; or `string`, `compound`, `opaque`, `reference`, `variable length`, `empty` for
    one without a dataspace, `unknown` for what h5py cannot read."""
    import h5py

    if dataset.shape is None:
        return EMPTY
    try:
        dtype = dataset.dtype
    except TypeError:
        return "unknown"
    if h5py.check_string_dtype(dtype) is not None:
        return "string"
    if h5py.check_ref_dtype(dtype) is not None:
        return "reference"
    if dtype.kind == "O":
        return "variable length"
    if dtype.kind == "V":
        return "compound" if dtype.names else "opaque"
    return str(dtype.name)


def values_of(dataset: Any, box: tuple[slice, ...]) -> Array:
    """One box of a dataset: an array of its type; of text for what NumPy has no type for."""
    kind = type_name(dataset)
    if kind in (EMPTY, "unknown"):
        return np.full([each.stop - each.start for each in box], "")
    if kind == "string":
        return np.array(dataset.asstr(errors=_ERRORS)[box or ()])
    values = np.asarray(dataset[box])
    return _as_texts(dataset.file, values) if values.dtype.hasobject else values


def attributes_of(item: Any) -> dict[str, Array | list[str]]:
    """The attributes of a file, group or dataset as `ReadEngine` has them: of several dimensions one is made; an empty
    one is an empty text."""
    found: dict[str, Array | list[str]] = {}
    for name in item.attrs:
        try:
            array = np.asarray(item.attrs[name])
        except (OSError, TypeError) as error:
            found[name] = np.array(f"{_UNREADABLE}: {error}")
            continue
        if array.dtype.kind in "OSUV":
            texts = _as_texts(item.file, array)
            found[name] = texts.reshape(-1).tolist() if texts.ndim else texts
        else:
            found[name] = array if array.ndim < 2 else array.reshape(-1)
    return found


def _as_texts(file: Any, values: Array) -> Array:
    return np.array([_text(file, each) for each in values.reshape(-1)], dtype=np.str_).reshape(values.shape)


def _text(file: Any, value: Any) -> str:
    plain = _plain(file, value)
    return plain if isinstance(plain, str) else json.dumps(plain, default=str)


def _plain(file: Any, value: Any) -> Any:
    """A value of any type as JSON has it."""
    import h5py

    if isinstance(value, bytes):
        return value.decode(errors=_ERRORS)
    if isinstance(value, h5py.Empty):
        return ""
    if isinstance(value, h5py.Reference):
        # What it refers to may have been removed.
        try:
            return str(file[value].name) if value else ""
        except (KeyError, ValueError, RuntimeError):
            return ""
    if isinstance(value, np.void):
        if value.dtype.names is None:
            return value.tobytes().hex()
        return {name: _plain(file, value[name]) for name in value.dtype.names}
    if isinstance(value, np.ndarray):
        return [_plain(file, each) for each in value]
    return value.item() if isinstance(value, np.generic) else value
