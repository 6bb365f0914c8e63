"""Interpreters: what their command lines execute, and which modules a Python has.

Nothing is imported to find that out. The Python that executes wf is asked in this process. Any other one is started
once for all questions about it, with a deadline: it may be on a slow file system.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from workflow.spec.suggest import shortened

if TYPE_CHECKING:
    import subprocess


# Interpreters by the names of their programs, and what their command lines let them execute.

_PYTHON = re.compile(r"(.*/)?python[0-9.]*")
_OTHER = re.compile(r"(.*/)?(sh|bash|perl|julia|lua|ruby|Rscript)")
# Options of Python that take no value.
_FLAGS = re.compile(r"-[bBdEiIOPqRsSuvx]+")


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


def program_identity(path: Path) -> tuple[Path, str]:
    """What is equal for all links to one Python in one folder; in another folder it has other packages."""
    return (path.parent, os.path.realpath(path)) if is_python(str(path)) else (path, "")


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
    """What an interpreter executes; None for other programs, for commands such as `python -c …`, and where options hide
    it."""
    if not is_interpreter(argv[0]):
        return None
    words = dict(enumerate(argv))
    word, python = 1, is_python(argv[0])
    while python and _FLAGS.fullmatch(words.get(word, "")):
        word += 1
    if python and words.get(word) == "-m":
        return Executed("module", word + 1) if word + 1 in words else None
    return Executed("script", word) if word in words and not words[word].startswith("-") else None


DEADLINE_S = 10.0
# Variables that change what a Python finds.
PYTHON_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONUSERBASE")
# Prints the names of its arguments that cannot be found, as JSON.
_PROBE = """
import sys
if sys.path[:1] == ['']:
    del sys.path[0]
import json
from importlib.util import find_spec
def lacks(name):
    try:
        return find_spec(name) is None
    except (ImportError, ValueError):
        return name not in sys.modules
print(json.dumps([name for name in sys.argv[1:] if lacks(name)]))
"""


def ask_modules(python: str, modules: Sequence[str], env: Mapping[str, str]) -> Callable[[], list[str] | str]:
    """Asks which of `modules` a Python lacks. The result waits for the answer; a text is why there is none.

    Args:
        python: absolute path.
        modules: top-level names.
        env: variables that change what is found (`PYTHON_VARIABLES`); others are those of this process.
    """
    if is_own_python(python) and not env:
        return lambda: [name for name in modules if _is_missing_here(name)]
    import subprocess  # most pipelines have no other Python

    try:
        process = subprocess.Popen(
            [python, "-c", _PROBE, *modules],
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        reason = f"cannot be started: {error.strerror}"
        return lambda: reason
    return functools.cache(lambda: _answer(process))


def _answer(process: subprocess.Popen[bytes]) -> list[str] | str:
    import subprocess

    with process:
        try:
            printed, errors = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            # With the processes that it started: one of them may keep the pipe open.
            os.killpg(process.pid, signal.SIGKILL)
            return f"did not answer within {DEADLINE_S:g} s"
    try:
        answer = json.loads(printed)
    except ValueError:
        answer = None
    if isinstance(answer, list):
        return answer
    last = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
    return ": ".join(["ended without an answer when it was asked", *(shortened(line, 200) for line in last)])


def _is_missing_here(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is None
    except (ImportError, ValueError):
        return name not in sys.modules
