"""ADIOS2's compression operators: what each one is like, what it can compress, and which ones a library was built with.
The only list.

A new operator is an entry here, and a model of its parameters with a field of `Compressor`, both in
`spec/models/stage_policies`. Observed with ADIOS2 2.12.1: an operator that was not built in aborts the process; no
operator accepts single values. Standard library only: stages import it.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Literal, NamedTuple

Operator = Literal["blosc", "bzip2", "zfp"]


class OperatorTraits(NamedTuple):
    """One operator. The defaults are those of a lossless one that every ADIOS2 of `make adios2-mpi` has."""

    name: Operator
    """ADIOS2's name, and ours."""
    class_name: bytes
    """The mangled name of its class: a library that was built with the operator contains it."""
    lossy: bool = False
    """It keeps values up to an accuracy, and only those of floating-point numbers."""
    crashes_on_empty: bool = False
    """It ends the process at a block without elements."""
    package: str = ""
    """Debian's package of its library, where `make adios2-mpi` takes the operator only if it finds that."""
    probe_parameters: tuple[tuple[str, str], ...] = ()
    """ADIOS2's parameters without which it cannot be tried."""


OPERATORS: dict[Operator, OperatorTraits] = {
    each.name: each
    for each in (
        OperatorTraits("blosc", b"13CompressBlosc"),
        OperatorTraits("bzip2", b"13CompressBZIP2", package="libbz2-dev"),
        # It accepts integers and returns wrong ones (off by 6 at an accuracy of 1e-3). An empty block: a bus error.
        OperatorTraits(
            "zfp", b"11CompressZFP", lossy=True, crashes_on_empty=True, package="libzfp-dev",
            probe_parameters=(("accuracy", "1e-3"),),
        ),
    )
}  # fmt: skip
LOSSY: tuple[str, ...] = tuple(each.name for each in OPERATORS.values() if each.lossy)
CRASH_ON_EMPTY: tuple[str, ...] = tuple(each.name for each in OPERATORS.values() if each.crashes_on_empty)
*_others, _last = OPERATORS
IN_WORDS = f"{', '.join(_others)} and {_last}"
"""All of them, for messages: those of the ADIOS2 of `make adios2-mpi`."""
EVERY = "*"
_FLOATING = ("float", "complex")


def built_into(library: Path) -> list[str] | None:
    """The operators that an ADIOS2 library was built with; None when the file cannot be read. Takes about 20 ms."""
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return [each.name for each in OPERATORS.values() if content.find(each.class_name) >= 0]
    except (OSError, ValueError):
        return None


def refusal(operator: str, kind: str | None, dimensions: int | None) -> str:
    """Why an operator cannot compress a variable; "" when it can.

    `kind`: NumPy's name of the type, or a family such as `float`. None: not known yet.
    """
    if kind == "string":
        return "it is a string"
    if dimensions == 0:
        return "it is a single value, and operators work on arrays"
    if operator in LOSSY and kind not in (None, "number") and not str(kind).startswith(_FLOATING):
        return f"it is of type {kind}, and {operator} keeps its accuracy only for floating-point numbers"
    return ""
