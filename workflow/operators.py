"""ADIOS2's compression operators: what each can compress, and which ones a library was built with.

Used by the plan and by the stages. Observed with ADIOS2 2.12.1: an operator that was not built in aborts the process;
zfp accepts integers and returns wrong ones (off by 6 at an accuracy of 1e-3); zfp on an empty block crashes with a bus
error; no operator accepts single values.
"""

from __future__ import annotations

import mmap
from pathlib import Path

OPERATORS = ("blosc", "bzip2", "zfp")
LOSSY = ("zfp",)
EVERY = "*"
# The mangled class name of each: a library that was built with the operator contains it.
_CLASSES = {
    "blosc": b"13CompressBlosc",
    "bzip2": b"13CompressBZIP2",
    "zfp": b"11CompressZFP",
}
_FLOATING = ("float", "complex")


def built_into(library: Path) -> list[str] | None:
    """The operators that an ADIOS2 library was built with; None when the file cannot be read. Takes about 20 ms."""
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return [name for name in OPERATORS if content.find(_CLASSES[name]) >= 0]
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
