"""Output without Rich: for terminals without Unicode, and for pipes and files, whose reader may be gone."""

from __future__ import annotations

import contextlib
import os
import select
import textwrap
from itertools import zip_longest
from typing import TextIO

from workflow.report.show.text_table import GAP, PROSE_WIDTH, Heading, Table

ASCII = str.maketrans(
    {"→": "->", "…": "...", "·": "-", "÷": "/", "×": "x", "–": "-", "✓": "+", "✗": "x", "Å": "A"}
    | dict.fromkeys("┌┐└┘├┤┬┴┼", "+") | {"│": "|", "─": "-", "╎": ":", "╌": "-", "►": ">"}
)  # fmt: skip


class PlainOutput:
    """A pipe or a file in place of a terminal: no colours, lines and tables as wide as they are. Rich is not loaded."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def say(self, line: str) -> None:
        """Print one line."""
        print_plain(self._stream, line)

    def draw(self, table: Table) -> None:
        """Print a table with aligned columns, after an empty line; prose is wrapped."""
        lines = [[[heading.title] for heading in table.head]]
        lines += [[_wrapped(*each) for each in zip(table.head, row, strict=True)] for row in table.rows]
        widths = [max(len(part) for line in lines for part in line[column]) for column in range(len(table.head))]
        self.say("")
        for line in lines:
            for parts in zip_longest(*line, fillvalue=""):
                cells = (
                    part.rjust(width) if heading.content == "number" else part.ljust(width)
                    for part, width, heading in zip(parts, widths, table.head, strict=True)
                )
                self.say((" " * GAP).join(cells).rstrip())


def _wrapped(heading: Heading, cell: str) -> list[str]:
    """A cell in lines; only prose has several. Words stay whole: paths and settings are copied."""
    if heading.content != "prose":
        return [cell]
    return textwrap.wrap(cell, PROSE_WIDTH, break_long_words=False, break_on_hyphens=False) or [""]


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


def has_reader(stream: TextIO) -> bool:
    """False for a pipe that nobody reads any more: known before the next line is printed, which may come much later."""
    watch = select.poll()
    try:
        watch.register(stream.fileno(), 0)
    except (OSError, ValueError):  # no file, as in a test
        return True
    return not any(state & select.POLLERR for _, state in watch.poll(0))
