"""Types, shapes, blocks and selections of variables, in ADIOS2's terms and NumPy's; arrays to write and read into."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow.distribution import Block, Shape, volume

Array = NDArray[Any]

# ADIOS2's type names → NumPy's; other types cannot be streamed.
NUMPY_TYPES = {
    "char": "int8", "int8_t": "int8", "uint8_t": "uint8", "int16_t": "int16", "uint16_t": "uint16",
    "int32_t": "int32", "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64",
    "float": "float32", "double": "float64", "float complex": "complex64", "double complex": "complex128",
    "string": "string",
}  # fmt: skip
# SST (2.12.1) delivers lists of strings as one empty string: they are sent as JSON text, and this attribute lists them.
STRING_LISTS = "string_lists"
# The variable with the samples of compressed variables (`sample_check`); programs do not see it.
SAMPLES = "wf.samples"
_TYPE_OF_LETTER = {"U": "string"} | {
    letter: np.dtype(letter).name
    for letter in np.typecodes["AllInteger"] + np.typecodes["Float"] + np.typecodes["Complex"]
    if np.dtype(letter).name in NUMPY_TYPES.values()
}
# A cache line. NumPy's own arrays begin at any multiple of 16 bytes, and the kernel, which copies a file's data or
# another process's, took a fifth longer for those (16 MB, AMD EPYC, Linux 6.18).
ALIGNED = 64
_LARGE = 1 << 20


class Info(NamedTuple):
    """Type and global shape of a variable in one step: NumPy's name of the type (or `string`); () for a scalar."""

    type: str
    shape: Shape

    @property
    def nbytes(self) -> int:
        """Size of the whole variable in bytes; 0 for a string, whose length is unknown before it is read."""
        return 0 if self.type == "string" else np.dtype(self.type).itemsize * volume(self.shape)


class Selection(NamedTuple):
    """One box of one variable to read; with `block`, the whole of that block of a local array."""

    name: str
    start: Shape
    extent: Shape
    block: int | None = None


class BlockData(NamedTuple):
    """One block to write, with its values: a box of a global array; or a scalar or a string, whose `shape` is ().

    `type` is NumPy's name of the type, or `string`. `shape`: of the global array. `start`: where the block begins in
    it. `lent`: the values do not change before the step ends, so they need not be copied.
    """

    name: str
    type: str
    values: Array
    shape: Shape
    start: Shape
    lent: bool = False


class BlockTable(NamedTuple):
    """The blocks of one variable in one step, in ADIOS2's order. `local`: of an array without a global shape."""

    blocks: tuple[Block, ...] = ()
    local: bool = False


def to_array(name: str, value: Any) -> tuple[Array, str]:
    """`value` as a native, C-contiguous array of a type that ADIOS2 has; and NumPy's name of that type, or `string`.

    Copies only what has another layout; booleans become uint8. Raises TypeError, with the name of the variable, for
    types that cannot be streamed.
    """
    array = np.asarray(value)
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    # By the type's letter, because NumPy builds the name anew at each access.
    kind = _TYPE_OF_LETTER.get(array.dtype.char)
    if kind is None:
        raise TypeError(f"{name}: type {array.dtype} cannot be streamed; convert it first, e.g. .astype('float32')")
    if kind == "string" and array.ndim:
        raise TypeError(f"{name}: arrays of strings cannot be written; join them, or make them an attribute")
    # ascontiguousarray would turn a scalar into a one-element array.
    return (np.ascontiguousarray(array) if array.ndim else array), kind


def fresh_array(shape: Shape, kind: str) -> Array:
    """An uninitialised array to read into; one of 1 MiB or more begins at a multiple of 64 bytes."""
    dtype = np.dtype(kind)
    nbytes = volume(shape) * dtype.itemsize
    if nbytes < _LARGE:
        return np.empty(shape, dtype)
    room = np.empty(nbytes + ALIGNED, np.uint8)
    first = -int(room.__array_interface__["data"][0]) % ALIGNED
    return room[first : first + nbytes].view(dtype).reshape(shape)


def selection(name: str, shape: Shape, start: Any, count: Any) -> Selection:
    """The box `count` at `start`, with defaults: no `start` is the origin, no `count` is everything after `start`.

    Raises IndexError when the box does not lie inside `shape`.
    """
    first = tuple(int(i) for i in start) if start is not None else (0,) * len(shape)
    if len(first) != len(shape):
        raise IndexError(f"{name}: start {first} has {len(first)} dimensions, the variable has shape {shape}")
    if count is None:
        lengths = tuple(length - offset for length, offset in zip(shape, first, strict=True))
    else:
        lengths = tuple(int(i) for i in count)
    inside = len(lengths) == len(shape) and all(
        offset >= 0 and length >= 0 and offset + length <= whole
        for offset, length, whole in zip(first, lengths, shape, strict=True)
    )
    if not inside:
        raise IndexError(f"{name}: start {first} with count {lengths} does not lie inside its shape {shape}")
    return Selection(name, first, lengths)
