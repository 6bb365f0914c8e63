"""The one placeholder syntax: `${{ name }}`. Names only, no expressions.

Rule, the same in what users write and in the plan's strings: in a run of dollars that stands directly
before `{{`, two dollars are one literal dollar; an odd one out begins a placeholder. So `$${{` writes
a literal `${{`. In the plan only `${{ run.dir }}` is left; `fill_run_dir` puts the run directory in
and undoes the escaping, without loss.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from workflow.plan.plan_model import RUN_DIR

_DOLLARS = re.compile(r"(\$+)\{\{")
_PLACEHOLDER = re.compile(r"\$\{\{[ \t]*([^{}\n]*?)[ \t]*\}\}")
_NAME = r"[ \t]*((?:run|pipeline|wf|stage|streams)\.[A-Za-z0-9_.-]+)[ \t]*"
_MISTAKEN = re.compile(rf"\$\({_NAME}\)|\$\{{{_NAME}\}}|(?<!\$)\{{\{{{_NAME}\}}\}}")
_TAIL = re.compile(r"\$+$")
_RUN_DIR_NAME = "run.dir"

T = TypeVar("T")


@dataclass(frozen=True)
class Placeholder:
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
        placeholder = _PLACEHOLDER.match(text, start)
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


def literal_all(value: T) -> T:
    """`literal` for every string inside lists and dicts, keys included."""
    return cast(T, _mapped(value, literal))


def expand(text: str, values: Mapping[str, str]) -> str:
    """`text` with its placeholders filled, as a plan string.

    `values` maps names to plan strings (escaped, or with `${{ run.dir }}` inside). Raises
    PlaceholderError naming the unknown placeholder.
    """
    parts: list[str | Placeholder] = []
    for part in parse(text):
        if isinstance(part, str):
            parts.append(part)
        elif part.name in values:
            parts += parse(values[part.name])
        else:
            raise PlaceholderError(f"unknown placeholder `{part.name}`", part.offset, name=part.name)
    return _to_text(parts)


def names_in(text: str) -> list[str]:
    """Names of the placeholders in `text`; empty when it cannot be parsed."""
    try:
        return [part.name for part in parse(text) if isinstance(part, Placeholder)]
    except PlaceholderError:
        return []


def fill_run_dir(text: str, run_dir: str) -> str:
    """A plan string as what it stands for in this run directory."""
    if "{{" not in text:  # most strings of a plan; each run fills them all several times
        return text
    return "".join(part if isinstance(part, str) else _run_dir_only(part, run_dir) for part in parse(text))


def fill_all(value: T, run_dir: str) -> T:
    """`fill_run_dir` for every string inside lists and dicts, keys included (what a plan dumps to)."""
    return cast(T, _mapped(value, lambda text: fill_run_dir(text, run_dir)))


def _run_dir_only(part: Placeholder, run_dir: str) -> str:
    if part.name != _RUN_DIR_NAME:
        raise PlaceholderError(f"a plan holds only {RUN_DIR}, found `{part.name}`", part.offset)
    return run_dir


def _to_text(parts: list[str | Placeholder]) -> str:
    """The inverse of `parse`, where every placeholder left is `${{ run.dir }}`."""
    text, pending = "", ""
    for part in parts:
        if isinstance(part, str):
            pending += part
        else:
            # dollars that end the literal would otherwise read as part of the placeholder
            text += _TAIL.sub(lambda match: match[0] * 2, literal(pending)) + RUN_DIR
            pending = ""
    return text + literal(pending)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_mapped(key, change): _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_mapped(item, change) for item in value)
    return value
