"""The terminal, in colours and tables: the only module that uses Rich, which it imports on first use.

Colours obey NO_COLOR, and text that the terminal cannot show is replaced, never an error.
"""

from __future__ import annotations

import io
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from workflow.formatting import plural
from workflow.messages import WIDEST
from workflow.report.show.plain_output import PlainOutput, to_encoding
from workflow.report.show.text_table import GAP, NARROWEST_PROSE, column_widths, narrowed, total_width

if TYPE_CHECKING:
    from rich.console import Console as Console
    from rich.live import Live as Live

    from workflow.report.show.text_table import Content, Table

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
