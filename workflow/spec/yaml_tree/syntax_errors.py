"""Errors of the YAML parser in plain sentences, with the next thing to type.

The parser's messages ("did not find expected key") describe its state, not the mistake.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from workflow.errors import shortened

Mark = tuple[int, int]
"""Line and column, from 1."""


_KEY = r"[\w.*-]+"
_HAS_COLON = re.compile(r":(\s|$)|^[\[{\"'|>&*!-]")


class _Sentence(NamedTuple):
    """The parser's message, what it means, and what to type; the place is where it stopped, or where it began."""

    said: str
    message: str
    hint: str
    at_beginning: bool = False


# Both of PyYAML's parsers, libyaml's and the pure Python one, are covered; the first pattern that is found counts.
# `{began}` is the place where the construct at fault began.
_SENTENCES = [
    _Sentence("mapping values are not allowed",
              "a `:` is not allowed here",
              "put a value that contains `: ` into quotes, or check the indentation of this line"),
    _Sentence("could not find expected ':'",
              "this is not `key: value`",
              "write `key: value`, or `- value` in a list",
              at_beginning=True),
    _Sentence(r"unexpected end of stream.*quoted|quoted.*unexpected end of stream",
              "this quote is never closed",
              "close it, or use the other kind of quotes around a text that contains one",
              at_beginning=True),
    _Sentence(r"expected ',' or '\]'",
              "the list that `[` opened at {began} is not closed, or lacks a comma here",
              "write `[a, b]`"),
    _Sentence(r"expected ',' or '\}'",
              "the mapping that `{{` opened at {began} is not closed, or lacks a comma here",
              "write `{key: value, key: value}`"),
    _Sentence("unknown escape character",
              "an unknown `\\` sequence in a double-quoted text",
              "use single quotes, or write `\\\\` for one backslash"),
    _Sentence(r"expected '-' indicator|block collection|block sequence",
              "this line does not continue the list that began at {began}",
              "begin it with `- `, or indent it less or more"),
    _Sentence(r"expected key|block mapping",
              "this does not fit into the mapping that began at {began}",
              "align it with the keys it belongs to; put a text that contains quotes or brackets into quotes"),
    _Sentence(r"expected( the)? node content",
              "a value is missing here, or there is a closing bracket without an opening one",
              "write a value, or put the text into quotes"),
    _Sentence("<document start>|directive",
              "a line that begins a new document or a directive",
              "remove it: a file is one document without directives"),
    _Sentence("cannot start any token",
              "no value can begin with this character",
              "put the value into quotes"),
    _Sentence("block scalar",
              "`>` and `|` begin a text of several lines here",
              "put the value into quotes: `\"> 1 GB/s\"`",
              at_beginning=True),
    _Sentence(r"tag|anchor|alias",
              "a broken tag, anchor or alias (`!`, `&`, `*`)",
              "put the value into quotes if it is meant as text"),
]  # fmt: skip


def sentence(problem: str, context: str, at: Mark, began: Mark, lines: Sequence[str]) -> tuple[str, str, Mark]:
    """Message, hint and place for an error of the parser.

    Args:
        problem: what the parser says; context: what it was doing.
        at: where it stopped; began: where the construct at fault began.
        lines: of the file, to find the line that is wrong: the parser often stops at the one after it.
    """
    line = lines[at[0] - 1]
    if "\t" in line[: _indent(line)]:
        return "a tab is used for indentation; YAML allows only spaces", "replace each tab by spaces", at
    said = f"{context} {problem}"
    if (found := _wrong_line(said, at, began, lines)) is not None:
        return found
    for each in _SENTENCES:
        if re.search(each.said, said):
            message = each.message.format(began=f"{began[0]}:{began[1]}")
            return message, each.hint, began if each.at_beginning else at
    return f"not readable as YAML: {problem}", "check the punctuation of this line", at


def _wrong_line(said: str, at: Mark, began: Mark, lines: Sequence[str]) -> tuple[str, str, Mark] | None:
    """A missing colon or a wrong indentation, at the line that has it."""
    if "mapping values are not allowed" in said:
        return _colon_missing(_line_before(at[0], lines), lines) or _indented_below_a_value(at, lines)
    if "could not find expected ':'" in said:
        return _colon_missing(began[0], lines)
    return _fits_no_mapping(at, began, lines) if re.search(r"expected key|block mapping", said) else None


def _colon_missing(number: int, lines: Sequence[str]) -> tuple[str, str, Mark] | None:
    """`component scattering` without its colon: the parser takes the next line for more of the same text."""
    text = _without_comment(lines[number - 1]).strip() if number else ""
    words = text.split(maxsplit=1)
    if not words or not re.fullmatch(_KEY, words[0]) or _HAS_COLON.search(text):
        return None
    right = f"{words[0]}: {words[1]}" if words[1:] else f"{text}:"
    place = number, _indent(lines[number - 1]) + 1
    return f"`{shortened(text)}` lacks a colon", f"write `{shortened(right)}`", place


def _indented_below_a_value(at: Mark, lines: Sequence[str]) -> tuple[str, str, Mark] | None:
    """A key that is indented deeper than the one above it, which has a value already: one of the two is misplaced."""
    above, below = _line_before(at[0], lines), at[0]
    pair = _key_of(lines[above - 1]) if above else "", _key_of(lines[below - 1])
    if not all(pair) or _indent(lines[below - 1]) <= _indent(lines[above - 1]):
        return None
    message = f"`{pair[1]}` is indented deeper than `{pair[0]}` in line {above}, which has a value already"
    if _is_rare(above, below, lines):
        message = f"`{pair[0]}` is indented less than `{pair[1]}` in line {below}, and has a value already"
    number = above if _is_rare(above, below, lines) else below
    return message, "align the two, or give one of them its place", (number, _indent(lines[number - 1]) + 1)


def _fits_no_mapping(at: Mark, began: Mark, lines: Sequence[str]) -> tuple[str, str, Mark] | None:
    """A key whose indentation is that of no mapping around it."""
    key, column = _key_of(lines[at[0] - 1]), _indent(lines[at[0] - 1]) + 1
    around = [number for number in range(began[0], at[0]) if _indent(lines[number - 1]) + 1 == began[1]]
    before = [number for number in (_line_before(at[0], lines), *reversed(around)) if _key_of(lines[number - 1])]
    if not key or column != at[1] or column == began[1] or not before:
        return None
    columns = {_indent(lines[number - 1]) + 1: number for number in reversed(before)}
    others = (f"{n} (`{_key_of(lines[number - 1])}`, line {number})" for n, number in reversed(columns.items()))
    message = f"`{key}` begins in column {column}, the keys before it in column {' and '.join(others)}"
    return message, "align it with the keys that it belongs to", (at[0], column)


def _is_rare(first: int, second: int, lines: Sequence[str]) -> bool:
    """Whether fewer lines are indented like the first of these two than like the second."""
    indents = [_indent(line) for line in lines if line.strip()]
    return indents.count(_indent(lines[first - 1])) < indents.count(_indent(lines[second - 1]))


def _line_before(number: int, lines: Sequence[str]) -> int:
    """The number of the last line before this one that holds more than a comment; 0 when there is none."""
    return next((n for n in range(number - 1, 0, -1) if _without_comment(lines[n - 1]).strip()), 0)


def _key_of(line: str) -> str:
    """The key that a line begins with; empty when it begins with none."""
    found = re.match(rf"\s*({_KEY})\s*:(\s|$)", line)
    return found[1] if found else ""


def _without_comment(line: str) -> str:
    return re.sub(r"(^|\s)#.*", "", line)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
