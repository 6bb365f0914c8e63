"""Collects what is wrong, each with its place, so that all mistakes of a pipeline show at once."""

from __future__ import annotations

from workflow.errors import Problem, SpecError
from workflow.spec.origins import Origins


class Problems:
    """A list of mistakes. `add` never raises; `raise_any` does, once, with all of them."""

    def __init__(self, origins: Origins) -> None:
        self._origins = origins
        self._found: list[Problem] = []

    def add(self, key: str, message: str, hint: str = "") -> None:
        """A mistake at `key`, e.g. `streams.atoms.queue`."""
        message += self._origins.from_parameters(key)
        self._add(Problem(*self._origins.place(key), self._origins.written(key), message, hint))

    def place(self, key: str) -> tuple[str, int, int]:
        """(source, line, column) of a key's value."""
        return self._origins.place(key)

    def written(self, key: str) -> str:
        """The key to name in a message: the one that the user wrote, for a key of a stage or stream that wf added."""
        return self._origins.written(key)

    def add_in_file(self, file: str, line: int, column: int, key: str, message: str, hint: str = "") -> None:
        """A mistake in a file that the pipeline names, e.g. a template."""
        self._add(Problem(self._origins.beside(file), line, column, self._origins.written(key), message, hint))

    def _add(self, problem: Problem) -> None:
        if problem not in self._found:
            self._found.append(problem)

    def raise_any(self) -> None:
        """Raises SpecError when there is anything."""
        if self._found:
            raise SpecError(self._found)

    @property
    def found(self) -> list[Problem]:
        """All so far."""
        return list(self._found)
