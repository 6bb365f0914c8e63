"""Where output goes: a terminal by Rich, a pipe without it, or the cell of a notebook.

Only this module uses Rich and IPython, which it imports on first use. Colours obey NO_COLOR, and text that the terminal
cannot show is replaced, never an error.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, TextIO

from workflow.formatting import plural
from workflow.messages import WIDEST
from workflow.report.show.text_table import (
    GAP,
    NARROWEST_PROSE,
    PROSE_WIDTH,
    Heading,
    Table,
    column_widths,
    narrowed,
    total_width,
)
from workflow.standard_streams import drop_output, is_lost

if TYPE_CHECKING:
    from rich.console import Console as Console
    from rich.live import Live as Live

    from workflow.report.show.text_table import Content

COLOURS = {
    "succeeded": "green", "failed": "bold red", "lost": "bold red", "interrupted": "yellow", "stopped": "yellow",
    "running": "cyan", "submitted": "cyan", "waiting": "dim", "ok": "green", "missing": "bold red",
    "error": "bold red", "warning": "bold yellow", "note": "cyan", "place": "bold", "margin": "dim",
    "met": "green", "violated": "bold red", "not measured": "bold red", "not checked": "dim",
}  # fmt: skip
# `--wide`: wider than any table.
UNLIMITED = 10_000
NOTEBOOK_WIDTH = 100
# The colours of a terminal that can be read on white and on black, in the order of their numbers.
NOTEBOOK_COLOURS = [
    (120, 120, 120), (217, 54, 62), (42, 157, 74), (191, 135, 0), (64, 120, 220), (160, 90, 200), (18, 138, 158),
    (128, 128, 128),
]  # fmt: skip
PRE = '<pre style="margin:0;line-height:1.4;white-space:pre;overflow-x:auto">{code}</pre>'


def make_output(stderr: bool = False, wide: bool = False) -> Console | PlainOutput:
    """Standard output or error: a terminal by Rich, which takes 25 ms to load, or a pipe without it.

    `wide`: tables have all their columns, even if the terminal is narrower.
    """
    stream = sys.stderr if stderr else sys.stdout
    is_terminal = stream.isatty() or os.environ.get("FORCE_COLOR")
    return make_console(stderr, wide) if is_terminal else PlainOutput(stream)


def make_console(stderr: bool = False, wide: bool = False) -> Console:
    """The terminal. Characters that it cannot show come out as `?`."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
    width = UNLIMITED if wide else None
    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def make_live(console: Console) -> Live:
    """A part of the terminal that is redrawn in place."""
    from rich.live import Live

    return Live(console=console, auto_refresh=False)


def make_recorder() -> Console:
    """A console whose output goes nowhere but into `take_recorded`."""
    from rich.console import Console

    return Console(
        file=io.StringIO(), record=True, width=NOTEBOOK_WIDTH, force_terminal=True, force_jupyter=False,
        color_system="standard", highlight=False, markup=False, emoji=False, soft_wrap=False,
    )  # fmt: skip


def take_recorded(console: Console) -> tuple[str, str]:
    """What the recorder was given since the last call: as plain text, and as HTML with inline styles."""
    from rich.terminal_theme import TerminalTheme

    theme = TerminalTheme((255, 255, 255), (0, 0, 0), NOTEBOOK_COLOURS)
    text = console.export_text(clear=False)
    return text, console.export_html(theme=theme, inline_styles=True, code_format=PRE)


def draw_table(console: Console | PlainOutput, table: Table) -> list[str]:
    """A table; in a terminal that is too narrow, without its less important columns, and a line that says so.

    Returns the titles of the columns that are left out.
    """
    if not table.rows:
        return []
    if isinstance(console, PlainOutput):
        console.draw(table)
        return []
    from rich import box
    from rich.table import Table as RichTable

    table, left_out = narrowed(table, console.width)
    drawn = RichTable(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, GAP - 1, 0, 0), header_style="dim"
    )
    widths = column_widths(table, console.width)
    # Rich makes what it can of a terminal that is too narrow even for that.
    fits = total_width(widths) <= console.width
    for heading, width in zip(table.head, widths, strict=True):
        justify: Literal["left", "right"] = "right" if heading.content == "number" else "left"
        drawn.add_column(heading.title, justify=justify, overflow="fold", width=width if fits else None)
    for row in table.rows:
        drawn.add_row(*(_cell(console, cell, each.content) for each, cell in zip(table.head, row, strict=True)))
    console.print()
    console.print(drawn)
    if left_out:
        count = plural(len(left_out), "more column")
        say(console, f"`--wide` shows {count}: {', '.join(left_out)}", "dim", wrap=True)
    return left_out


def make_grids(console: Console, *blocks: Sequence[tuple[str, ...]]) -> Any:
    """Blocks of aligned cells, for a live part."""
    from rich.console import Group
    from rich.table import Table as RichTable

    grids = []
    for block in blocks:
        grid = RichTable.grid(padding=(0, GAP, 0, 0))
        for row in block:
            grid.add_row(*(_cell(console, cell, "state") for cell in row))
        grids.append(grid)
    return Group(*grids)


def _cell(console: Console, cell: str, kind: Content) -> Any:
    from rich.text import Text

    # `succeeded, violated`: the last word is the one to be seen.
    style = COLOURS.get(cell.rpartition(", ")[2], "") if kind == "state" else ""
    return Text(to_encoding(console.encoding, cell), style=style)


def say_parts(console: Console | PlainOutput, parts: Sequence[tuple[str, str]]) -> None:
    """One line of (text, key of `COLOURS` or ``)."""
    if isinstance(console, PlainOutput):
        console.say("".join(text for text, _ in parts))
        return
    from rich.text import Text

    line = Text.assemble(*((to_encoding(console.encoding, text), COLOURS.get(style, "")) for text, style in parts))
    console.print(line, soft_wrap=True)


def say_prose(console: Console | PlainOutput, text: str, indent: int) -> None:
    """A paragraph, also into a pipe."""
    width = min(getattr(console, "width", WIDEST), WIDEST)
    for line in textwrap.wrap(text, max(width - indent, NARROWEST_PROSE), break_on_hyphens=False):
        say(console, " " * indent + line)


def say(console: Console | PlainOutput, line: str, style: str = "", wrap: bool = False) -> None:
    """One line. Only prose is wrapped: paths and commands stay whole, so that they can be copied."""
    if isinstance(console, PlainOutput):
        console.say(line)
        return
    width = min(console.width, WIDEST) if wrap else None
    console.print(to_encoding(console.encoding, line), style=style or None, soft_wrap=not wrap, width=width)


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
    """Print one line. Returns False when nobody can read the stream any more.

    A reader that leaves (`wf run … | head`), or a log that is full, must not end a run, nor change its exit code when
    Python flushes the stream at the end.
    """
    try:
        print(to_encoding(stream.encoding or "ascii", line), file=stream, flush=True)
    except OSError:  # of a script that calls a run: in `wf` no write fails
        with contextlib.suppress(OSError, ValueError):
            drop_output(stream.fileno())
        return False
    return not is_lost(stream)


def has_reader(stream: TextIO) -> bool:
    """False for a pipe that nobody reads any more: known before the next line is printed, which may come much later."""
    watch = select.poll()
    try:
        watch.register(stream.fileno(), 0)
    except (OSError, ValueError):  # no file, as in a test
        return True
    return not any(state & select.POLLERR for _, state in watch.poll(0))


def in_notebook() -> bool:
    """Whether this process is a Jupyter kernel. Does not import IPython: a kernel has done so."""
    ipython = sys.modules.get("IPython")
    return hasattr(ipython.get_ipython(), "kernel") if ipython is not None else False


class NotebookOutput:
    """One output of the cell that is being executed, below a line that stays."""

    def __init__(self, headline: str) -> None:
        self.console = make_recorder()
        self._headline = headline
        self._handle: Any = None

    def update(self, drawn: Any) -> None:
        """Replace what is shown, by anything that Rich can print."""
        from IPython.display import display

        say(self.console, self._headline)
        self.console.print(drawn)
        text, html = take_recorded(self.console)
        bundle = {"text/plain": text, "text/html": html}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(bundle, raw=True)
