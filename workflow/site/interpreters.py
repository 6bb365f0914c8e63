"""Interpreters by the names of their programs, and what their command lines let them execute."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Literal, NamedTuple

_PYTHON = re.compile(r"(.*/)?python[0-9.]*")
_OTHER = re.compile(r"(.*/)?(sh|bash|perl|julia|lua|ruby|Rscript)")
# Options of Python that take the next word, unless something follows their letter (python --help).
_WITH_VALUE = "WX"


class Executed(NamedTuple):
    """What an interpreter executes, and at which word of the command line it stands."""

    kind: Literal["script", "module"]
    word: int


def is_python(program: str) -> bool:
    """Whether a program is a Python, by its name or path."""
    return _PYTHON.fullmatch(program) is not None


def is_interpreter(program: str) -> bool:
    """Whether a program executes scripts, by its name or path."""
    return is_python(program) or _OTHER.fullmatch(program) is not None


def is_own_python(program: str) -> bool:
    """Whether a program, by its absolute path, is the Python that executes wf or another name of it in its folder.

    The same file in another folder is not: the Python of a virtual environment is a link to one that has other
    modules. Neither is another version in the same folder.
    """
    if program == sys.executable:
        return True
    if not is_python(program) or os.path.dirname(program) != os.path.dirname(sys.executable):  # noqa: PTH120
        return False
    return os.path.realpath(program) == os.path.realpath(sys.executable)


def executed(argv: Sequence[str]) -> Executed | None:
    """What an interpreter executes; None for commands such as `python -c …`, and where options hide it."""
    if not is_python(argv[0]):
        return Executed("script", 1) if len(argv) > 1 and not argv[1].startswith("-") else None
    index = 1
    while index < len(argv):
        word = argv[index]
        if not word.startswith("-"):
            return Executed("script", index)
        if word.startswith("--") or word == "-":
            return None
        for position, letter in enumerate(word[1:], start=1):
            at_end = position == len(word) - 1
            if letter == "m":
                return Executed("module", index + 1) if at_end and index + 1 < len(argv) else None
            if letter == "c":
                return None
            if letter in _WITH_VALUE:
                index += at_end
                break
        index += 1
    return None
