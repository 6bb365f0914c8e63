"""What becomes of unusual data, and of each type: the rules that hold for every program which uses `workflow.stage`.

What differs from program to program is declared in its component.yaml (`takes`). The page docs/reference/data-types.md
is made of both, and the tests check every line of it.
"""

from __future__ import annotations

from typing import NamedTuple


class DataKind(NamedTuple):
    """Data that many programs do not write. `rule`: what every reader gets; "": `takes` of the port says it."""

    name: str
    what: str
    rule: str = ""


DATA_KINDS = (
    DataKind("local_blocks", "an array in local blocks, without a global shape; their number and sizes may change"),
    DataKind("new_shape", "an array whose lengths differ from step to step"),
    DataKind("new_dimensions", "an array whose number of dimensions changes"),
    DataKind("absent", "a variable that comes late, is not in each step, or in one only"),
    DataKind("joined", "a joined array: blocks that are put together along one axis", "a global array"),
    DataKind("overlapping", "a global array whose blocks overlap", "of what was written twice, either value"),
    DataKind("gap", "a global array of which no rank has written a part", "zeros there, as in ADIOS2's own tools"),
    DataKind("zero_size", "an array without elements", "an array without elements"),
    DataKind("new_blocks", "a global array in another number of blocks in each step", "the same array"),
    DataKind("empty_step", "a step without variables", "a step without variables"),
)


class TypeRule(NamedTuple):
    """One type of one kind of data. `becomes`: NumPy's name of what programs get and copies have; "": it is refused,
    with the name of the variable. `why`: what else there is to know."""

    name: str
    becomes: str
    why: str = ""


_SAME = (
    "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t", "float", "double",
    "float complex", "double complex", "string",
)  # fmt: skip
_NUMPY = (
    "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "complex64", "complex128",
    "string",
)  # fmt: skip
# Variables as ADIOS2 calls their types.
ADIOS2_TYPES = (
    *(TypeRule(name, kind) for name, kind in zip(_SAME, _NUMPY, strict=True)),
    TypeRule("char", "int8"),
    TypeRule(
        "int8_t", "int8", "copies have `char`: ADIOS2's Python has no other name for a signed byte, and a program in "
        "C++ asks for `InquireVariable<char>`",
    ),
    TypeRule("long double", "", "ADIOS2's Python cannot read it; leave the variable out"),
)  # fmt: skip
# Datasets of HDF5 files.
HDF5_TYPES = (
    TypeRule("integers of 1 to 8 bytes, floats of 4 and 8, of either byte order", "the same"),
    TypeRule("complex numbers", "the same"),
    TypeRule("float16", "float16", "copies have `float32`, the same values; a note says so"),
    TypeRule("long double", "longdouble", "copies have `float64`, with 16 digits of 19; a note says so"),
    TypeRule("truth values", "bool", "copies have `uint8`: ADIOS2 has no truth values"),
    TypeRule("an enumeration", "its integers", "the names of the values are not carried"),
    TypeRule("text, one", "string"),
    TypeRule("text, an array", "an array of strings", "copies have an attribute of this name, a list; a note says so"),
    TypeRule("without a dataspace", "nothing", "left out of copies; a note says so"),
    TypeRule("compound, opaque, reference, variable length", "", "`wf compare` compares them; `wf look` names them"),
)
# What programs give to `Writer.write`, by NumPy's name.
WRITTEN_TYPES = (
    TypeRule("bool", "uint8", "ADIOS2 has no truth values"),
    TypeRule("float16", "float32", "the same values; a note says so"),
    TypeRule("longdouble", "float64", "with 16 digits of 19; a note says so"),
    TypeRule("clongdouble", "complex128", "with 16 digits of 19; a note says so"),
    TypeRule("str, one", "string"),
    TypeRule("str, an array", "", "join them, or make them an attribute"),
    TypeRule("object", "", "no type of ADIOS2"),
    TypeRule("datetime64", "", "no type of ADIOS2; write numbers and a unit"),
)
# Attributes.
ATTRIBUTE_TYPES = (
    TypeRule("numbers, one or a list", "the same"),
    TypeRule("text, one or a list", "the same", "lists over SST as JSON text, which `workflow.stage` turns back"),
    TypeRule("long double", "float64", "over ADIOS2 with six digits, as which its Python has them"),
    TypeRule("of HDF5: several dimensions", "one dimension", "row by row"),
    TypeRule("of HDF5: references", "text", "the paths of what they refer to"),
    TypeRule("of HDF5: compound, variable length", "text", "one JSON text for each element"),
    TypeRule("of HDF5: opaque", "text", "its bytes as hexadecimal numbers"),
    TypeRule("complex numbers, one or a list", "the same", "over SST as JSON text, which `workflow.stage` turns back"),
)
