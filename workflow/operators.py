"""ADIOS2's operators: what each can do, and whether a library was built with it. Shared by the plan and the stages.

Seen with ADIOS2 2.12.1: an operator that was not built in aborts the process; zfp takes integers and returns wrong
ones (off by 6 at an accuracy of 1e-3); zfp on an empty block dies of a bus error; no operator takes single values.
"""

from __future__ import annotations

import mmap
from pathlib import Path

OPERATORS = ("blosc", "bzip2", "zfp")
LOSSY = ("zfp",)
EVERY = "*"
# How the compiler spells the class of each: its name is in a library that was built with it.
_CLASSES = {
    "blosc": b"13CompressBlosc",
    "bzip2": b"13CompressBZIP2",
    "zfp": b"11CompressZFP",
}
_FLOATING = ("float", "complex")


def built_into(library: Path) -> list[str] | None:
    """The operators that an ADIOS2 library was built with; None when it cannot be read. Takes some 20 ms."""
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return [name for name in OPERATORS if content.find(_CLASSES[name]) >= 0]
    except (OSError, ValueError):
        return None


def refusal(operator: str, kind: str | None, dimensions: int | None) -> str:
    """Why an operator cannot do a variable of this type (NumPy's name, or a family); empty when it can.

    None is what is not known yet.
    """
    if kind == "string":
        return "it is a string"
    if dimensions == 0:
        return "it is a single value, and operators work on arrays"
    if operator in LOSSY and kind not in (None, "number") and not str(kind).startswith(_FLOATING):
        return f"it is of type {kind}, and {operator} keeps its accuracy for floating point only"
    return ""
