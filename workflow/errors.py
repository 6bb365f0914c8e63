"""The few kinds of error that `wf` shows to its users, and the form of all its messages.

A message is a `Problem`: its level, its place, what is wrong and, in `hint`, the next thing to type.
`workflow/messages.py` lays it out. Anything else that escapes is a bug and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple

from workflow.redaction import shown_option

EXIT_OK = 0
EXIT_RUN_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_VIOLATED = 3
EXIT_REGRESSED = 4
EXIT_UNDECIDED = 5
# As EX_TEMPFAIL of sysexits.h: nothing is wrong, but there was not enough time. Batch systems know it as "try again".
EXIT_STOPPED = 75
EXIT_INTERRUPTED = 130

Severity = Literal["error", "warning", "note"]
"""error: nothing starts; warning: it may fail, or differ from what was meant; note: good to know."""


class Problem(NamedTuple):
    """One message: most often a mistake in an input, with its place.

    `source` is the file's name as the user gave it (or `--set`, `--via`), empty where the message is about none;
    `line` and `column` count from 1, and are 0 where no place is known. `key` is the path, e.g.
    `streams.atoms.queue.limit`. `is_secret`: no message may show what stands at that place.
    """

    source: str
    line: int
    column: int
    key: str
    message: str
    hint: str = ""
    level: Severity = "error"
    is_secret: bool = False

    @property
    def place(self) -> str:
        """`pipeline.yaml:14:9`, `--set stages.md.ranks=0` without a secret, or the empty string."""
        return f"{self.source}:{self.line}:{self.column}" if self.line else shown_option(self.source)

    @property
    def statement(self) -> str:
        """The message after its key, unless the place already names the key."""
        option = self.source.startswith((f"--set {self.key}=", f"--{self.key} "))
        named = not self.key or option or self.message.startswith(f"{self.key} ")
        return self.message if named else f"{self.key}: {self.message}"

    def __str__(self) -> str:
        """`level: place: key: message`, the hint on a line of its own."""
        parts = [self.level, *([self.place] if self.place else []), self.statement]
        return ": ".join(parts) + (f"\n  {self.hint}" if self.hint else "")


def to_message(level: Severity, text: str, hint: str = "") -> Problem:
    """A message that has no place."""
    return Problem("", 0, 0, "", text, hint, level)


def to_notes(texts: Iterable[str]) -> list[Problem]:
    """Notes that have no place: on a plan that is valid, on the figures of a report."""
    return [to_message("note", text) for text in texts]


class WfError(Exception):
    """Base class of all errors that are shown to the user: `problems` lists everything that is wrong."""

    exit_code = EXIT_BAD_INPUT

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        super().__init__(f"{message}\n  {hint}" if hint else message)

    @property
    def problems(self) -> list[Problem]:
        """All that is wrong."""
        return [to_message("error", self.message, self.hint)]


class SpecError(WfError):
    """Everything that is wrong with what the user wrote, all of it at once, in the file's order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = sorted(problems)
        super().__init__("\n".join(str(problem) for problem in self._problems))

    @property
    def problems(self) -> list[Problem]:
        """All that is wrong, in the file's order."""
        return self._problems


class RunError(WfError):
    """A run directory that cannot be used. (A run that failed is no error of wf: its report says so.)"""


@contextmanager
def named_if_missing(what: str, extra: str) -> Iterator[None]:
    """Raise WfError with the command that installs it, where a library is missing: `the page needs plotly`."""
    try:
        yield
    except ModuleNotFoundError as error:
        from workflow.installation import install_command

        text = f"{what} needs {str(error.name).partition('.')[0]}"
        raise WfError(text, install_command(extra)) from error
