"""The variables of a step: types and shapes in ADIOS2's terms and NumPy's, what a contract demands, labels and units.

What a variable is called for people, and its unit, come from the attributes of its stream: `<variable>/long_name` and
`<variable>/unit`; data of openPMD programs have unitSI and unitDimension
(https://github.com/openPMD/openPMD-standard, version 1.1.0).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow.distribution.boxes import Block, Shape, volume
from workflow.formats.stage_file import StreamEnd
from workflow.physical_units import TIME, unit_text
from workflow.stage.settings import is_misspelt
from workflow.stage.stage_errors import ContractError, StageError

Array = NDArray[Any]

# ADIOS2's type names → NumPy's; other types cannot be streamed.
NUMPY_TYPES = {
    "char": "int8", "int8_t": "int8", "uint8_t": "uint8", "int16_t": "int16", "uint16_t": "uint16",
    "int32_t": "int32", "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64",
    "float": "float32", "double": "float64", "float complex": "complex64", "double complex": "complex128",
    "string": "string",
}  # fmt: skip
# SST (2.12.1) delivers lists of strings as one empty string, and no complex numbers: they are sent as JSON text, and
# this attribute lists them.
STRING_LISTS = "string_lists"
# The variable with the samples of compressed variables (`compression`); programs do not see it.
SAMPLES = "wf.samples"
_TYPE_OF_LETTER = {"U": "string"} | {
    letter: np.dtype(letter).name
    for letter in np.typecodes["AllInteger"] + np.typecodes["Float"] + np.typecodes["Complex"]
    if np.dtype(letter).name in NUMPY_TYPES.values()
}
# NumPy's letters of types that ADIOS2, or its Python, does not have, and what they become: truth values, half and long
# double precision.
CONVERTED = {"?": "uint8", "e": "float32", "g": "float64", "G": "complex128"}
# A cache line. NumPy's own arrays begin at any multiple of 16 bytes, and the kernel, which copies a file's data or
# another process's, took a fifth longer for those (16 MB, AMD EPYC, Linux 6.18).
ALIGNED = 64
_LARGE = 1 << 20


class Info(NamedTuple):
    """Type and global shape of a variable in one step: NumPy's name of the type (or `string`); () for a scalar.

    `local`: it is an array in local blocks, without a global shape: `shape` is (), and `step.share` reads its blocks.
    """

    type: str
    shape: Shape
    local: bool = False

    @property
    def nbytes(self) -> int:
        """Size of the whole variable in bytes; 0 for a string, whose length is unknown before it is read, and for types
        that NumPy does not have."""
        dtype = _dtype_of(self.type)
        return 0 if dtype is None else dtype.itemsize * volume(self.shape)


class Selection(NamedTuple):
    """One box of one variable to read; with `block`, the whole of that block of a local array.

    `shared`: a read-only array in the memory of the engine will do, where it has one. `into`: an array of this shape
    and type, for the values; an engine that cannot fill it returns another one.
    """

    name: str
    start: Shape
    extent: Shape
    block: int | None = None
    shared: bool = False
    into: Array | None = None


class BlockData(NamedTuple):
    """One block to write, with its values: a box of a global array; or a scalar or a string, whose `shape` is ().

    `type` is NumPy's name of the type, or `string`. `shape`: of the global array. `start`: where the block begins in
    it. `lent`: the values do not change before the step ends, so they need not be copied. `local`: a block of an array
    without a global shape; `shape` and `start` are ().
    """

    name: str
    type: str
    values: Array
    shape: Shape
    start: Shape
    lent: bool = False
    local: bool = False

    @property
    def form(self) -> VariableForm:
        """What must stay the same in all steps of a stream."""
        return VariableForm(self.type, self.values.ndim if self.local else len(self.shape), self.local)


class VariableForm(NamedTuple):
    """What of a variable stays the same in all steps: type, number of dimensions, and whether it is in local blocks."""

    type: str
    dimensions: int
    local: bool = False

    def __str__(self) -> str:
        return f"{self.type} with {self.dimensions} dimensions{' in local blocks' if self.local else ''}"


class BlockTable(NamedTuple):
    """The blocks of one variable in one step, in ADIOS2's order. `local`: of an array without a global shape."""

    blocks: tuple[Block, ...] = ()
    local: bool = False


def to_array(name: str, value: Any) -> tuple[Array, str]:
    """`value` as a native, C-contiguous array of a type that ADIOS2 has; and NumPy's name of that type, or `string`.

    Copies only what has another layout, or is read-only; `CONVERTED` types become others. Raises TypeError, with the
    name of the variable, for types that cannot be streamed.
    """
    array = np.asarray(value)
    if array.dtype.char in CONVERTED:
        with np.errstate(over="ignore"):
            array = array.astype(CONVERTED[array.dtype.char])
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    # By the type's letter, because NumPy builds the name anew at each access.
    kind = _TYPE_OF_LETTER.get(array.dtype.char)
    if kind is None:
        raise TypeError(f"{name}: type {array.dtype} cannot be streamed; convert it first, e.g. .astype('float32')")
    if kind == "string" and array.ndim:
        raise TypeError(f"{name}: arrays of strings cannot be written; join them, or make them an attribute")
    # ascontiguousarray would turn a scalar into a one-element array.
    array = np.ascontiguousarray(array) if array.ndim else array
    # ADIOS2's bindings (2.12.1) take no array that cannot be changed, such as that of a window, or of JAX.
    return (array if array.flags.writeable or kind == "string" else array.copy()), kind


def check_unchanged(name: str, was: VariableForm, now: VariableForm) -> None:
    """Raise StageError when a variable changes what must stay the same."""
    if now != was:
        raise StageError(f"variable {name} was {was}; it cannot become {now} in the same stream")


def fresh_array(shape: Shape, kind: str, make: Callable[..., Array] = np.empty) -> Array:
    """An uninitialised array to read into, or by `np.zeros` one of zeros; one of 1 MiB or more begins at a multiple of
    64 bytes."""
    dtype = np.dtype(kind)
    nbytes = volume(shape) * dtype.itemsize
    if nbytes < _LARGE:
        return make(shape, dtype)
    room = make(nbytes + ALIGNED, np.uint8)
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


_ANYTHING: Mapping[str, Any] = {}
FAMILIES = {"float": (np.floating,), "int": (np.integer,), "number": (np.floating, np.integer)}


def check_contract(
    end: StreamEnd,
    stage: str,
    found: Mapping[str, Info],
    wanted: Collection[str] = (),
    may_lack: Collection[str] = (),
) -> None:
    """Raise ContractError, listing every difference, unless `found` has all variables of the end's contract.

    Additional variables are allowed. A dimension given by a name may have any size, but the same size wherever that
    name is used. `wanted`: further variables; `may_lack`: those that may be missing.
    """
    sizes: dict[str, tuple[int, str]] = {}
    contract = {**dict.fromkeys(sorted(wanted), _ANYTHING), **end.variables}
    wrong = [
        f"{line}{_declared_at(end, name)}"
        for name, declared in contract.items()
        if name in found or name not in may_lack
        for line in _differences(name, declared, found, sizes)
    ]
    if wrong:
        who = f"stage {stage}" if stage else "this program"
        needs = f"does not contain what {who} needs"
        what = needs if end.side == "read" else f"of {who} does not contain what is declared for it"
        lines = f" {wrong[0]}" if len(wrong) == 1 else "".join(f"\n  {line}" for line in wrong)
        raise ContractError(f"stream {end.stream} {what}:{lines}")


def _declared_at(end: StreamEnd, name: str) -> str:
    """That the pipeline file is wrong about the writer, not this reader."""
    key = end.declared.get(name)
    return "" if key is None else f"; its writer does not write what `{key}` of the pipeline file says: correct that"


def is_typo(name: str, names: Iterable[str]) -> bool:
    """Whether `name` is probably a misspelling of one of these: in one word of it, which is longer than a label of a
    species, a component or a number.

    >>> is_typo("temprature_e", ["temperature_e"]), is_typo("temperature_i", ["temperature_e"]), is_typo("U2", ["U1"])
    (True, False, False)
    """
    own = _WORDS.split(name)
    for each in names:
        apart = [pair for pair in zip(own, _WORDS.split(each), strict=False) if pair[0] != pair[1]]
        alike = len(_WORDS.split(each)) == len(own) and len(apart) == 1 and is_misspelt(apart[0][0], [apart[0][1]])
        if alike and min(map(len, apart[0])) > _LABEL:
            return True
    return False


# Between the words of a name; the longest label that tells similar names apart, as in `B_x`, `T_He` and `sigma_xx`.
_WORDS, _LABEL = re.compile(r"[\W_\d]+"), 2


def near(name: str, names: Iterable[str]) -> str:
    """`; did you mean …?` where a similar name exists, else the list of names."""
    from difflib import get_close_matches  # only mistakes pay for the import

    known = sorted(names)
    similar = get_close_matches(name, known, n=1)
    if similar:
        return f"; did you mean {similar[0]!r}?"
    return f"; there is {', '.join(known)}" if known else "; there is nothing"


def _differences(
    name: str, declared: Mapping[str, Any], found: Mapping[str, Info], sizes: dict[str, tuple[int, str]]
) -> list[str]:
    info = found.get(name)
    if info is None:
        return [] if declared.get("optional") else [f"variable {name} is missing{near(name, found)}"]
    wrong = []
    kind, shape = declared.get("type"), declared.get("shape")
    if info.local and shape is not None:
        wrong.append(f"variable {name} is an array in local blocks, without a global shape")
        shape = None
    if kind is not None and not _is_of(info.type, kind):
        wrong.append(f"variable {name}: expected type {kind}, found {info.type}")
    if shape is not None:
        expected, problem = f"[{', '.join(map(str, shape))}]", ""
        if len(shape) != len(info.shape):
            problem = f"{len(info.shape)} dimensions instead of {len(shape)}"
        elif _fits(info.shape, shape[::-1]) and not _fits(info.shape, shape):
            problem = f"reversed: {_REVERSED}"
        for length, wanted in zip(info.shape, shape, strict=False):
            if isinstance(wanted, int):
                problem = problem or ("" if length == wanted else f"{length} is not {wanted}")
            else:
                size, first = sizes.setdefault(wanted, (length, name))
                problem = problem or ("" if length == size else f"{wanted} is {size} in {first}")
        if problem:
            wrong.append(f"variable {name}: expected shape {expected}, found {list(info.shape)} ({problem})")
    return wrong


_REVERSED = "Fortran programs declare their dimensions in ADIOS2's order, the last one first"


def _fits(shape: Shape, wanted: Iterable[int | str]) -> bool:
    """Whether all fixed lengths are those of the shape, and there are some."""
    pairs = [(length, each) for length, each in zip(shape, wanted, strict=True) if isinstance(each, int)]
    return bool(pairs) and all(length == each for length, each in pairs)


def _is_of(kind: str, declared: str) -> bool:
    if declared in FAMILIES:
        dtype = _dtype_of(kind)
        return dtype is not None and issubclass(dtype.type, FAMILIES[declared])
    return kind == declared


def _dtype_of(kind: str) -> np.dtype[Any] | None:
    """NumPy's type of that name; None for text, ADIOS2's `long double`, and what only HDF5 has."""
    try:
        return None if kind == "string" else np.dtype(kind)
    except TypeError:
        return None


def label_of(variable: str, attributes: Mapping[str, Any]) -> str:
    """Its `long_name`; of openPMD data `momentum x of electrons` and `E x`; else its name."""
    given = attributes.get(f"{variable}/long_name")
    if given is not None:
        return _text(given)
    group, *record = _openpmd_parts(variable, attributes) or [variable]
    given = attributes.get("/particlesPath", attributes.get("particlesPath", "particles/"))
    particles = _text(given).strip("/")
    return f"{' '.join(record[1:])} of {record[0]}" if group == particles and record[1:] else " ".join(record) or group


def unit_of(variable: str, attributes: Mapping[str, Any]) -> str:
    """Its unit as text, `Å`, `5.47e-24 kg*m/s`; "" where none is known. `/data/time` is openPMD's time of the step."""
    given = attributes.get(f"{variable}/unit")
    if given is not None:
        return _text(given)
    if f"{variable}UnitSI" in attributes:  # only a time has its unit beside it
        return unit_text(_number(attributes[f"{variable}UnitSI"]), TIME)
    if f"{variable}/unitSI" not in attributes:
        return ""
    for owner in (variable, variable.rpartition("/")[0]):  # a scalar record is its own component
        if (powers := attributes.get(f"{owner}/unitDimension")) is not None:
            return unit_text(_number(attributes[f"{variable}/unitSI"]), [float(each) for each in np.ravel(powers)])
    return ""


def _openpmd_parts(variable: str, attributes: Mapping[str, Any]) -> list[str]:
    """`/data/100/particles/e/momentum/x` → particles, e, momentum, x; nothing for a variable of other programs.

    ADIOS2 reads the names of HDF5 files without the first slash.
    """
    data, *parts = variable.strip("/").split("/")
    if data != "data" or not ("/openPMD" in attributes or "openPMD" in attributes):
        return []
    return parts[1:] if parts and parts[0].isdigit() else parts


def _text(value: Any) -> str:
    return str(value.item() if isinstance(value, np.ndarray) and not value.ndim else value)


def _number(value: Any) -> float:
    return float(np.ravel(value)[0])


# Complex attributes, for which JSON has no form.


def complex_to_pairs(value: Array) -> dict[str, Any]:
    """{type: [real, imaginary]}, or a list of such pairs."""
    pairs = [[number.real, number.imag] for number in np.ravel(value).tolist()]
    return {value.dtype.name: pairs if value.ndim else pairs[0]}


def pairs_to_complex(found: Mapping[str, Any]) -> Array:
    """What it was."""
    ((kind, pairs),) = found.items()
    parts = np.array(pairs, np.float64).reshape(-1, 2) if pairs else np.empty((0, 2))
    values = (parts[:, 0] + 1j * parts[:, 1]).astype(kind)
    return values if pairs == [] or isinstance(pairs[0], list) else values.reshape(())
