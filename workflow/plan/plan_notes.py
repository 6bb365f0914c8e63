"""What the passes of the plan report besides their results: reasons, advice, and mistakes with their places.

Mistakes are collected, so that all of them are shown at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from workflow.errors import Problem, SpecError, to_message
from workflow.spec.origins import Origins


class Problems:
    """A list of mistakes. `add` never raises; `raise_any` does, once, with all of them."""

    def __init__(self, origins: Origins) -> None:
        self._origins = origins
        # At the keys of the plan's stages and streams, each once, in order.
        self._found: dict[Problem, None] = {}

    def add(self, key: str, message: str, hint: str = "") -> None:
        """A mistake at `key`, e.g. `streams.atoms.queue`."""
        message += self._origins.from_parameters(key)
        self._found[Problem(*self._origins.place(key), key, message, hint)] = None

    def place(self, key: str) -> tuple[str, int, int]:
        """(source, line, column) of a key's value."""
        return self._origins.place(key)

    def written(self, key: str) -> str:
        """The key to name in a message: the one that the user wrote, for a key of a stage or stream that wf added."""
        return self._origins.written(key)

    def add_in_file(self, file: str, line: int, column: int, key: str, message: str, hint: str = "") -> None:
        """A mistake in a file that the pipeline names, e.g. a template."""
        self._found[Problem(self._origins.beside(file), line, column, key, message, hint)] = None

    def raise_any(self) -> None:
        """Raises SpecError when there is anything."""
        if self._found:
            raise SpecError(self.found)

    @property
    def found(self) -> list[Problem]:
        """All so far, at the keys that the user wrote; those of members of an ensemble that are alike once."""
        return self._origins.as_written(self._found)

    @property
    def count(self) -> int:
        """How many so far."""
        return len(self._found)


# What the passes of the plan note beside their results: mistakes, reasons, advice.

# What advice is about: the key that it begins with, or a stage, a stream or a tap by its name.
_KEY = re.compile(r"(?:allocation(?:\.[^\s.:]+)?|(?:stages|streams|deadlines|profiles)(?:\.[^\s.:]+)+)(?= |: )")
_NAMED = re.compile(r"(stage|stream|tap) ([^\s:]+):? ")


@dataclass(frozen=True)
class Notes:
    """The one collector that every pass gets. It carries no input and no result of another pass."""

    problems: Problems
    reasons: dict[str, str] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)

    def why(self, key: str, reason: str) -> None:
        """Notes why the plan's value at `key` is what it is."""
        self.reasons[key] = reason

    def not_used(self, key: str, via: str, why: str) -> None:
        """Notes a key that belongs to another engine. It may stay: one key switches a stream to a file and back."""
        self.why(key, f"not used with `via: {via}`: {why}")
        self.advise(f"{key} is not used with `via: {via}`: {why}")

    def advise(self, text: str) -> None:
        """Adds a line of advice, once. It begins with the key that it is about, or with `stage NAME:`, if with any."""
        if text not in self.advice:
            self.advice.append(text)


def located(advice: Iterable[str], origins: Origins) -> list[Problem]:
    """The advice of a plan as messages, each with the place in the pipeline file of what it is about."""
    return origins.as_written(_located(text, origins) for text in advice)


def _located(text: str, origins: Origins) -> Problem:
    key = ""
    if written := _KEY.match(text):
        key, text = written[0], text.removeprefix(f"{written[0]}: ")
    elif named := _NAMED.match(text):
        kind, name = named.groups()
        key, text = f"{'streams' if kind == 'stream' else 'stages'}.{name}", text[named.end() :]
    if not key:
        return to_message("note", text)
    return Problem(*origins.place(key), key, text, level="note")
