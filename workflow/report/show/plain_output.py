"""Plain lines, without Rich: for terminals without Unicode, and for pipes whose reader may be gone."""

from __future__ import annotations

import contextlib
import os
from typing import TextIO

ASCII = str.maketrans({"→": "->", "…": "...", "·": "-", "÷": "/", "×": "x", "–": "-", "✓": "+", "✗": "x", "Å": "A"})


def to_encoding(encoding: str, line: str) -> str:
    """The line in characters that this encoding has."""
    try:
        line.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return line.translate(ASCII).encode("ascii", "replace").decode("ascii")
    return line


def print_plain(stream: TextIO, line: str) -> bool:
    """Print one line. Returns False when the pipe has no reader any more.

    A reader that leaves (`wf run … | head`) must not end a run, nor change its exit code when Python flushes the
    stream at the end.
    """
    try:
        print(to_encoding(stream.encoding or "ascii", line), file=stream, flush=True)
    except BrokenPipeError:
        with contextlib.suppress(OSError, ValueError):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, stream.fileno())
            os.close(nothing)
        return False
    return True
