"""Output without Rich: for terminals without Unicode, and for pipes and files, whose reader may be gone."""

from __future__ import annotations

import contextlib
import os
from typing import TextIO

from workflow.report.show.text_table import Table

ASCII = str.maketrans(
    {"→": "->", "…": "...", "·": "-", "÷": "/", "×": "x", "–": "-", "✓": "+", "✗": "x", "Å": "A"}
    | dict.fromkeys("┌┐└┘├┤┬┴┼", "+") | {"│": "|", "─": "-", "╎": ":", "╌": "-", "►": ">"}
)  # fmt: skip


GAP = 2


class PlainOutput:
    """A pipe or a file in place of a terminal: no colours, lines and tables as wide as they are. Rich is not loaded."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def say(self, line: str) -> None:
        """Print one line."""
        print_plain(self._stream, line)

    def draw(self, table: Table) -> None:
        """Print a table with aligned columns, after an empty line."""
        lines = [[heading.title for heading in table.head], *table.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(table.head))]
        self.say("")
        for line in lines:
            cells = (
                cell.rjust(width) if heading.content == "number" else cell.ljust(width)
                for cell, width, heading in zip(line, widths, table.head, strict=True)
            )
            self.say((" " * GAP).join(cells).rstrip())


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
