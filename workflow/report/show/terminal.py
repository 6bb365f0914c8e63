"""Where output goes: a terminal, a pipe or a file, or the cell of a notebook. All of them have the same tables.

Rich gives the colours, and redraws. Only this module uses Rich and IPython, which it imports on first use: a pipe needs
neither. Colours obey NO_COLOR, and text that the terminal cannot show is replaced, never an error.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from workflow.formatting import plural
from workflow.messages import WIDEST
from workflow.report.show.text_table import NARROWEST_PROSE, Table, narrowed, table_lines
from workflow.standard_streams import drop_output, is_lost

if TYPE_CHECKING:
    from rich.console import Console as Console
    from rich.live import Live as Live
    from rich.text import Text as Text

# `--wide`: wider than any table.
UNLIMITED = 10_000
NOTEBOOK_WIDTH = 100
# The colours of a terminal that can be read on white and on black, in the order of their numbers.
NOTEBOOK_COLOURS = [
    (120, 120, 120), (217, 54, 62), (42, 157, 74), (191, 135, 0), (64, 120, 220), (160, 90, 200), (18, 138, 158),
    (128, 128, 128),
]  # fmt: skip
PRE = '<pre style="margin:0;line-height:1.4;white-space:pre;overflow-x:auto">{code}</pre>'


class Output:
    """Lines and tables for people.

    Attributes:
        width: columns of the terminal; None for a pipe, in which nothing is wrapped and no column is left out.
    """

    def __init__(self, stream: TextIO, width: int | None = None, console: Console | None = None) -> None:
        """`console`: has the colours; lines are printed above what it redraws."""
        self._stream, self.width, self._console = stream, width, console

    def say(self, line: str, style: str = "", wrap: bool = False) -> bool:
        """Print one line in a style of Rich. Returns False when nobody can read it.

        Only prose is wrapped: paths and commands stay whole, so that they can be copied.
        """
        if not wrap or self.width is None:
            return self.say_parts([(line, style)])
        width = min(self.width, WIDEST)
        lines = [part for each in line.split("\n") for part in textwrap.wrap(each, width) or [""]]
        return self.say_parts([("\n".join(lines), style)])

    def say_prose(self, text: str, indent: int = 0) -> None:
        """Print a paragraph: it is wrapped in a pipe, too."""
        width = min(self.width or WIDEST, WIDEST)
        for line in textwrap.wrap(text, max(width - indent, NARROWEST_PROSE), break_on_hyphens=False):
            self.say(" " * indent + line)

    def say_parts(self, parts: Sequence[tuple[str, str]]) -> bool:
        """Print one line of (text, style). Returns False when nobody can read it."""
        if self._console is None:
            return print_plain(self._stream, "".join(text for text, _ in parts))
        self._console.print(styled(self._console, [parts]), soft_wrap=True)
        return True

    def draw(self, table: Table) -> None:
        """Print a table that has rows, and the lines below it.

        In a terminal that is too narrow it has not its less important columns, and a line says so.
        """
        if not table.rows:
            return
        table, left_out = (table, []) if self.width is None else narrowed(table, self.width)
        if table.title:
            self.say(f"\n{table.title}", "bold")
        self.say("")
        for line in table_lines(table, self.width):
            self.say_parts(line)
        if left_out:
            count = plural(len(left_out), "more column")
            self.say(f"`--wide` shows {count}: {', '.join(left_out)}", "dim", wrap=True)
        for below in table.below:
            self.say(below.text, "dim", wrap=True)


def make_output(stderr: bool = False, wide: bool = False) -> Output:
    """Standard output or error. `wide`: tables have all their columns, even if the terminal is narrower."""
    stream = sys.stderr if stderr else sys.stdout
    if not (stream.isatty() or os.environ.get("FORCE_COLOR")):
        return Output(stream)
    console = make_console(stderr)
    return Output(stream, UNLIMITED if wide else console.width, console)


def make_console(stderr: bool = False) -> Console:
    """The terminal, as Rich has it. Characters that it cannot show come out as `?`."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def styled(console: Console, lines: Sequence[Sequence[tuple[str, str]]]) -> Text:
    """Lines of (text, style) for Rich, in characters that this console can show."""
    from rich.text import Text

    made = [Text.assemble(*((to_encoding(console.encoding, text), style) for text, style in line)) for line in lines]
    return Text("\n").join(made)


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


ASCII = str.maketrans(
    {"→": "->", "…": "...", "·": "-", "÷": "/", "×": "x", "–": "-", "✓": "+", "✗": "x", "Å": "A"}
    | dict.fromkeys("┌┐└┘├┤┬┴┼", "+") | {"│": "|", "─": "-", "╎": ":", "╌": "-", "►": ">"}
)  # fmt: skip


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

        self.console.print(self._headline, soft_wrap=True)
        self.console.print(drawn)
        text, html = take_recorded(self.console)
        bundle = {"text/plain": text, "text/html": html}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(bundle, raw=True)
