"""The layout of all messages of `wf`: level, place, what is wrong; the line of the source with a mark; the hint.

error: pipeline.yaml:4:7: stages.md.rank: unknown key
  4 |   md: {rank: 4}
    |        ^^^^
  did you mean `ranks`?

Pure but for `read_lines`, which reads a source again for its excerpt.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from workflow.errors import Problem
from workflow.redaction import REMOVED, shown_line

WIDEST = 120
NARROWEST = 40
"""Bounds of an excerpt, in columns of the terminal. A longer line is cut at both sides of the mark."""
MAX_BYTES = 10_000_000
LONGEST_PLACE = 200

# The line breaks of YAML 1.1, which PyYAML counts.
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_TAB = "    "
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_CLOSING = {"[": "]", "{": "}"}


class StyledText(NamedTuple):
    """A piece of a line; `style` is a level, `place`, `margin` or empty."""

    text: str
    style: str = ""


MessageLine = tuple[StyledText, ...]


def message_lines(
    problems: Sequence[Problem], sources: Mapping[str, Sequence[str]], width: int = WIDEST, *, wrap: bool = False
) -> list[MessageLine]:
    """Messages as lines of parts.

    Args:
        sources: source → its lines; a message on any other source has no excerpt.
        width: columns of the terminal. Excerpts are cut to it; paths and commands stay whole.
        wrap: whether what is wrong is wrapped between its words, too.
    """
    visible = _without_secrets(problems, sources)
    found = (_one_message(problem, visible.get(problem.source), width, wrap) for problem in problems)
    return [line for lines in found for line in lines]


def to_text(problems: Sequence[Problem], sources: Mapping[str, Sequence[str]] | None = None) -> str:
    """Messages as plain text, with a newline at the end; for programs that print to no terminal of their own."""
    lines = message_lines(problems, read_sources(problems) if sources is None else sources)
    return "".join("".join(part.text for part in line) + "\n" for line in lines)


def read_sources(problems: Sequence[Problem]) -> dict[str, list[str]]:
    """The lines of the files that messages name, each file read once; those that cannot be read again are left out."""
    names = dict.fromkeys(problem.source for problem in problems if problem.line)
    return {name: lines for name in names if (lines := read_lines(name)) is not None}


def read_lines(name: str) -> list[str] | None:
    """The lines of a source; None for one that is no regular file (a pipe can be read only once) or is gone."""
    path = Path(name)
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        return _BREAK.split(path.read_bytes().decode("utf-8-sig", "replace"))
    except (OSError, ValueError):
        return None


def excerpt(
    line: str, number: int, column: int, width: int = WIDEST, style: str = "error"
) -> tuple[MessageLine, MessageLine]:
    """A line of a source, and below it a mark under the value or key that begins at `column` (from 1).

    What is no printable character is replaced, so that no source can change the state of the terminal.
    """
    column = min(max(column, 1), len(line) + 1)
    length = extent(line, column)
    before, marked, after = (_printable(part) for part in _split(line.ljust(column), column - 1, length))
    margin = f"  {number} | "
    room = min(max(width, NARROWEST), WIDEST) - len(margin)
    before, marked, after = _cut(before, marked, after, room)
    gap = " " * text_width(before)
    below = " " * (len(margin) - 2) + "| "
    return (
        (StyledText(margin, "margin"), StyledText(f"{before}{marked}{after}".rstrip())),
        (StyledText(below, "margin"), StyledText(gap), StyledText("^" * max(text_width(marked), 1), style)),
    )


def extent(line: str, column: int) -> int:
    """How many characters the key or value has that begins at `column` (from 1); at least 1.

    A quoted text, a list or a mapping up to its end, or up to the end of the line; a placeholder; else a word, which
    ends where YAML ends it: before `: `, ` #`, and inside brackets also before `,`, `]` and `}`. Of indentation all of
    it, of what no terminal should get one character.
    """
    text = line[column - 1 :]
    first = text[:1]
    if text.startswith("${{"):
        closed = text.find("}}")
        return closed + 2 if closed >= 0 else len(text.rstrip())
    if not text.strip() or (not first.isprintable() and first != "\t"):
        return 1
    if first in "\t ":
        return len(text) - len(text.lstrip())
    if first in "'\"":
        return _quoted(text)
    if first in _CLOSING:
        return _bracketed(text)
    inside = _depth(line[: column - 1]) > 0
    end = re.search(r"\s*(:(\s|$)|\s#|[,\]}]|$)" if inside else r"\s*(:(\s|$)|\s#|$)", text)
    return max(end.start() if end is not None else len(text), 1)


def _without_secrets(problems: Sequence[Problem], sources: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The lines of the sources; one with a secret ends before the first of them, for all messages on that line."""
    found = {source: list(lines) for source, lines in sources.items()}
    for problem in sorted(problems, reverse=True):
        lines = found.get(problem.source, [])
        if problem.is_secret and 0 < problem.line <= len(lines):
            lines[problem.line - 1] = lines[problem.line - 1][: max(problem.column - 1, 0)] + REMOVED
    return found


def _one_message(problem: Problem, lines: Sequence[str] | None, width: int, wrap: bool) -> Iterator[MessageLine]:
    place = problem.place
    if len(place) > LONGEST_PLACE:
        place = place[: LONGEST_PLACE - 1] + "…"
    head = [StyledText(f"{problem.level}:", problem.level), StyledText(" ")]
    head += [StyledText(f"{_printable(place)}:", "place"), StyledText(" ")] if place else []
    first, *more = problem.statement.split("\n")
    taken = sum(text_width(part.text) for part in head)
    first, *rest = _wrapped(_printable(first), width, taken) if wrap else [_printable(first)]
    yield (*head, StyledText(first))
    yield from ((StyledText(line),) for line in rest)
    yield from ((StyledText(f"  {_printable(line)}"),) for line in more)
    if lines is not None and 0 < problem.line <= len(lines):
        yield from excerpt(shown_line(lines[problem.line - 1]), problem.line, problem.column, width, problem.level)
    for line in problem.hint.split("\n") if problem.hint else []:
        yield (StyledText(f"  {_printable(line)}"),)


def _wrapped(text: str, width: int, taken: int) -> list[str]:
    """Lines of whole words; `taken` columns of the first one are used. The others are indented, as no hint is."""
    columns = min(max(width, NARROWEST), WIDEST)
    begin = " " * (taken % columns)
    lines = textwrap.wrap(
        text, columns, initial_indent=begin, subsequent_indent=_TAB, break_long_words=False, break_on_hyphens=False
    )
    return [lines[0][len(begin) :], *lines[1:]] if lines else [text]


def _quoted(text: str) -> int:
    """The length of the quoted text that `text` begins with."""
    pattern = r"'(?:[^']|'')*'" if text[0] == "'" else r'"(?:[^"\\]|\\.)*"'
    found = re.match(pattern, text)
    return found.end() if found else len(text.rstrip())


def _bracketed(text: str) -> int:
    """The length of the list or mapping that `text` begins with."""
    at, depth = 0, 0
    while at < len(text):
        if text[at] in "'\"" and not text[at - 1].isalnum():
            at += _quoted(text[at:])
            continue
        depth += (text[at] in "[{") - (text[at] in "]}")
        at += 1
        if depth == 0:
            return at
    return len(text.rstrip())


def _depth(text: str) -> int:
    """How many brackets are open at the end of `text`."""
    plain = re.sub(r"'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\"", "", text)
    return sum((each in "[{") - (each in "]}") for each in plain)


def _split(line: str, start: int, length: int) -> tuple[str, str, str]:
    return line[:start], line[start : start + length], line[start + length :]


def _cut(before: str, marked: str, after: str, room: int) -> tuple[str, str, str]:
    """The three parts of a line, cut so that they take `room` columns, the beginning of the marked one among them."""
    if text_width(before + marked + after) <= room:
        return before, marked, after
    if text_width(marked) > (space := room * 2 // 3):
        marked, after = _head(marked, space - 1) + "…", ""
    left = room - text_width(marked)
    if text_width(before) > (space := max(left - min(text_width(after), left // 2), 1)):
        before = "…" + _tail(before, space - 1)
    if text_width(after) > (space := room - text_width(before + marked)):
        after = _head(after, space - 1) + "…" if space > 0 else ""
    return before, marked, after


def _head(text: str, columns: int) -> str:
    """As much of the beginning of a text as fits into so many columns."""
    taken = 0
    for index, character in enumerate(text):
        taken += text_width(character)
        if taken > columns:
            return text[:index]
    return text


def _tail(text: str, columns: int) -> str:
    """As much of the end of a text as fits into so many columns."""
    taken = 0
    for index in range(len(text) - 1, -1, -1):
        taken += text_width(text[index])
        if taken > columns:
            return text[index + 1 :]
    return text


def text_width(text: str) -> int:
    """How many columns of a terminal a printable text takes: two for each wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def _printable(text: str) -> str:
    """The text with its tabs as spaces, and with a sign for each character that no terminal should get."""
    text = text.replace("\t", _TAB)
    return text if text.isprintable() else "".join(each if each.isprintable() else _REPLACEMENT for each in text)
