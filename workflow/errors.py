"""The few kinds of error that `wf` shows to its users.

Each carries what is wrong and, in `hint`, the next thing to type. Anything else that escapes is a bug
and keeps its traceback.
"""

from __future__ import annotations

from dataclasses import dataclass

EXIT_OK = 0
EXIT_RUN_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


class WfError(Exception):
    """Base of all errors meant for the user's eyes. `str()` is the whole message."""

    exit_code = EXIT_BAD_INPUT

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        super().__init__(f"{message}\n  {hint}" if hint else message)


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake in an input, with its place.

    `source` is the file's name as the user gave it (or `--set`, `--via`); `line` and `column` count
    from 1, and are 0 where no place is known. `key` is the path, e.g. `streams.atoms.queue.limit`.
    """

    source: str
    line: int
    column: int
    key: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}:{self.column}" if self.line else self.source
        named = not self.key or self.source.startswith(f"--set {self.key}=")
        where = f"{place}: " if named else f"{place}: {self.key}: "
        return where + self.message + (f"\n    {self.hint}" if self.hint else "")


class SpecError(WfError):
    """Everything that is wrong with what the user wrote, all of it at once, in the file's order."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = sorted(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class RunError(WfError):
    """A run directory that cannot be used. (A run that failed is no error of wf: its report says so.)"""
