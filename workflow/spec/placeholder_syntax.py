"""The one placeholder syntax: `${{ name }}`. Names only, no expressions.

Rule, the same in what users write and in the plan's strings: in a run of dollars that stands directly
before `{{`, two dollars are one literal dollar; an odd one out begins a placeholder. So `$${{` writes
a literal `${{`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_DOLLARS = re.compile(r"(\$+)\{\{")
PLACEHOLDER = re.compile(r"\$\{\{[ \t]*([^{}\n]*?)[ \t]*\}\}")
_NAME = r"[ \t]*((?:run|pipeline|wf|stage|streams|params)\.[A-Za-z0-9_.-]+)[ \t]*"
_MISTAKEN = re.compile(rf"\$\({_NAME}\)|\$\{{{_NAME}\}}|(?<!\$)\{{\{{{_NAME}\}}\}}")
_TAIL = re.compile(r"\$+$")


class Placeholder(NamedTuple):
    """One `${{ name }}` and the offset at which it starts in its text."""

    name: str
    offset: int


class PlaceholderError(ValueError):
    """A placeholder that cannot be filled; `offset` is its place in the text, `name` that of an unknown one."""

    def __init__(self, message: str, offset: int, hint: str = "", name: str = "") -> None:
        super().__init__(message)
        self.offset = offset
        self.hint = hint
        self.name = name


def parse(text: str) -> list[str | Placeholder]:
    """Literal pieces (unescaped) and placeholders, in order. Raises PlaceholderError for an open `${{`."""
    parts: list[str | Placeholder] = []
    done = 0
    while match := _DOLLARS.search(text, done):
        dollars = len(match[1])
        parts.append(text[done : match.start()] + "$" * (dollars // 2))
        done = match.end()
        if dollars % 2 == 0:
            parts.append("{{")
            continue
        start = match.start() + dollars - 1
        placeholder = PLACEHOLDER.match(text, start)
        if placeholder is None:
            raise PlaceholderError("`${{` without its `}}`", start, "write `$${{` for a literal `${{`")
        parts.append(Placeholder(placeholder[1], start))
        done = placeholder.end()
    parts.append(text[done:])
    return parts


def mistaken_names(text: str) -> list[tuple[str, str]]:
    """(what is written, name) of `$(name)`, `${name}` and `{{ name }}` in `text`, which are no placeholders.

    Only names of the sections of placeholders, such as `pipeline.dir`, which no shell variable can have.
    """
    found = ((match[0], next(group for group in match.groups() if group)) for match in _MISTAKEN.finditer(text))
    return list(dict.fromkeys(found))


def literal(text: str) -> str:
    """`text` as a plan string that stands for exactly itself."""
    return _DOLLARS.sub(lambda match: match[1] * 2 + "{{", text)


def names_in(text: str) -> list[str]:
    """Names of the placeholders in `text`; empty when it cannot be parsed."""
    try:
        return [part.name for part in parse(text) if isinstance(part, Placeholder)]
    except PlaceholderError:
        return []


def joined(parts: Iterable[str | Placeholder]) -> str:
    """The inverse of `parse`: the text that stands for these literal pieces and placeholders."""
    text, pending = "", ""
    for part in parts:
        if isinstance(part, str):
            pending += part
        else:
            # dollars that end the literal would otherwise read as part of the placeholder
            text += _TAIL.sub(lambda match: match[0] * 2, literal(pending)) + f"${{{{ {part.name} }}}}"
            pending = ""
    return text + literal(pending)


def scalar_text(value: bool | int | float | str) -> str:
    """A scalar of the file as a word on a command line or a part of a text: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
