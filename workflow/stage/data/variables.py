"""Types, shapes and selections of variables: ADIOS2's names for them and NumPy's."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Shape = tuple[int, ...]

# ADIOS2's type names → NumPy's; what is missing here cannot be streamed.
NUMPY_TYPES = {
    "char": "int8", "int8_t": "int8", "uint8_t": "uint8", "int16_t": "int16", "uint16_t": "uint16",
    "int32_t": "int32", "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64",
    "float": "float32", "double": "float64", "float complex": "complex64", "double complex": "complex128",
    "string": "string",
}  # fmt: skip
# SST (2.12.1) delivers lists of strings as one empty string: they travel as JSON text, and this attribute names them.
STRING_LISTS = "string_lists"
_TYPE_OF_LETTER = {"U": "string"} | {
    letter: np.dtype(letter).name
    for letter in np.typecodes["AllInteger"] + np.typecodes["Float"] + np.typecodes["Complex"]
    if np.dtype(letter).name in NUMPY_TYPES.values()
}


class Info(NamedTuple):
    """What a step tells about one variable: NumPy's name of its type (or `string`), and its global shape."""

    type: str
    shape: Shape

    @property
    def nbytes(self) -> int:
        """Size of the whole variable in bytes; 0 for a string, whose length is not known beforehand."""
        return 0 if self.type == "string" else np.dtype(self.type).itemsize * product(self.shape)


class Selection(NamedTuple):
    """One box of one variable; of a local array, the whole of that block of it."""

    name: str
    start: Shape
    extent: Shape
    block: int | None = None


class Block(NamedTuple):
    """One box of a global array with its values, or a scalar or a string, where `shape` is ().

    `type` is NumPy's name of the type, or `string`. `lent`: the values stay as they are until the step ends, so they
    need not be copied.
    """

    name: str
    type: str
    values: Array
    shape: Shape
    start: Shape
    lent: bool = False


def product(shape: Shape) -> int:
    """Number of elements, as a Python integer (numpy's own product would overflow silently)."""
    total = 1
    for length in shape:
        total *= length
    return total


def to_array(name: str, value: Any) -> tuple[Array, str]:
    """`value` as a native, C-contiguous array of a type that ADIOS2 has, and NumPy's name of it; or `string`.

    Copies only what is not so already. Raises TypeError naming the variable for other types.
    """
    array = np.asarray(value)
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    # By the type's letter, because NumPy puts its name together anew each time it is asked.
    kind = _TYPE_OF_LETTER.get(array.dtype.char)
    if kind is None:
        raise TypeError(f"{name}: type {array.dtype} cannot be streamed; convert it first, e.g. .astype('float32')")
    if kind == "string" and array.ndim:
        raise TypeError(f"{name}: arrays of strings cannot be written; join them, or make them an attribute")
    # ascontiguousarray would turn a scalar into a one-element array.
    return (np.ascontiguousarray(array) if array.ndim else array), kind


def selection(name: str, shape: Shape, start: Any, count: Any) -> Selection:
    """The box asked for, completed: no `start` means the origin, no `count` all that follows.

    Raises IndexError when it does not lie inside `shape`.
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
