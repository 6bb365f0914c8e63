"""Errors of the YAML parser in plain sentences, with the next thing to type.

The parser's messages ("did not find expected key") describe its state, not the mistake.
"""

from __future__ import annotations

import re
from typing import NamedTuple

Mark = tuple[int, int]
"""Line and column, from 1."""


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
    _Sentence(r"tag|anchor|alias",
              "a broken tag, anchor or alias (`!`, `&`, `*`)",
              "put the value into quotes if it is meant as text"),
]  # fmt: skip


def sentence(problem: str, context: str, at: Mark, began: Mark, line: str) -> tuple[str, str, Mark]:
    """Message, hint and place for an error of the parser.

    Args:
        problem: what the parser says; context: what it was doing.
        at: where it stopped; began: where the construct at fault began.
        line: the line where it stopped, to recognise tabs.
    """
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "a tab is used for indentation; YAML allows only spaces", "replace each tab by spaces", at
    said = f"{context} {problem}"
    for each in _SENTENCES:
        if re.search(each.said, said):
            message = each.message.format(began=f"{began[0]}:{began[1]}")
            return message, each.hint, began if each.at_beginning else at
    return f"not readable as YAML: {problem}", "check the punctuation of this line", at
