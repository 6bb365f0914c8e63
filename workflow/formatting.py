"""Numbers as people read them: `3.2 s`, `312 MB`, `1.4 GB/s`, `93 %`. Decimal units, three figures at most.

And texts of others in one line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from datetime import datetime

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
NO_BREAK = "\u00a0"
NOTHING = "-"
# A word of a command that is another one for each member of an ensemble.
VARIES = "…"


def size(count: float | None) -> str:
    """Bytes: `312 MB`. None is `-`."""
    if count is None:
        return NOTHING
    for unit in _UNITS:
        # 999.6 would print as `1000`: such a number belongs to the next unit.
        if abs(count) < 999.5 or unit == _UNITS[-1]:
            break
        count /= 1000
    return f"{count:.0f} B" if unit == "B" else f"{three_figures(count)} {unit}"


def rate(bytes_per_s: float | None) -> str:
    """Throughput: `1.4 GB/s`. None is `-`."""
    return NOTHING if bytes_per_s is None else f"{size(bytes_per_s)}/s"


def duration(seconds: float | None) -> str:
    """Time: `12 ms`, `3.21 s`, `4 min 05 s`, `2 h 03 min`. None is `-`."""
    if seconds is None:
        return NOTHING
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 99.95:
        return f"{three_figures(seconds)} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def fine_duration(seconds: float) -> str:
    """Time with three figures also where it is short: `0.41 ms`, `3.21 s`."""
    return f"{three_figures(seconds * 1e3)} ms" if 0 < seconds < 0.1 else duration(seconds)


def in_one_line(text: str) -> str:
    """A text that is not broken: a number with its unit."""
    return text.replace(" ", NO_BREAK)


def percent(share: float | None) -> str:
    """A share of one: `93 %`. None is `-`."""
    return NOTHING if share is None else f"{share * 100:.0f} %"


def number(count: int | None) -> str:
    """A count. None is `-`."""
    return NOTHING if count is None else str(count)


def plural(count: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def node_hours(hours: float) -> str:
    """`1 node-hour`, `256 node-hours`."""
    shown = f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"
    return f"{shown} node-hour{'' if shown == '1' else 's'}"


def part_text(number: int, most: int) -> str:
    """`part 2 of at most 5`, or `part 2`; empty for a run that is no part of any other."""
    if number <= most and most > 1:
        return f"part {number} of at most {most}"
    return f"part {number}" if number > 1 else ""


def moment(unix_s: float | None) -> str:
    """Local date and time to the second. None is `-`."""
    return NOTHING if unix_s is None else datetime.fromtimestamp(unix_s).strftime("%Y-%m-%d %H:%M:%S")


def clock_time(unix_s: float) -> str:
    """Local time to the second: `14:03:00`."""
    return datetime.fromtimestamp(unix_s).strftime("%H:%M:%S")


def three_figures(value: float) -> str:
    """`1.23`, `12.3`, `123`."""
    decimals = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{decimals}f}"


def plain_figure(value: float) -> str:
    """`1.23`, `12.3`, `123`; of small values three digits that say something: `0.00123`, `4.5e-06`."""
    return f"{value:.3g}" if 0 < abs(value) < 0.1 else three_figures(value)


_CONTROL = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160))}


def visible(text: str) -> str:
    """The text in one line: control characters as they are written in a program, a new line as a backslash and an n."""
    return text.translate(_CONTROL)


def one_line(text: str) -> str:
    """The text in one line, without control characters and half characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def command_text(words: Iterable[str]) -> str:
    """A command as a shell takes it; `…` stays as it is."""
    return " ".join(word if word == VARIES else shlex.quote(word) for word in words)
