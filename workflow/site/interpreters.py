"""Interpreters: what their command lines execute, which modules a Python has, and which modules a script imports.

Nothing is imported to find that out. The Python that executes wf is asked in this process. Any other one is started
once for all questions about it, with a deadline: it may be on a slow file system.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from workflow.spec.suggest import shortened

if TYPE_CHECKING:
    import subprocess


# Interpreters by the names of their programs, and what their command lines let them execute.

_PYTHON = re.compile(r"(.*/)?python[0-9.]*")
_OTHER = re.compile(r"(.*/)?(sh|bash|perl|julia|lua|ruby|Rscript)")
# Options of Python that take the next word, unless something follows their letter (python --help).
_WITH_VALUE = "WX"
LONGEST_LINE = 256  # BINPRM_BUF_SIZE of Linux


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


def interpreter_of(path: Path) -> str:
    """The interpreter that the first line of a script names, a path or a name on PATH; empty where there is none."""
    try:
        with path.open("rb") as file:
            start = file.readline(LONGEST_LINE)
    except OSError:
        return ""
    return interpreter_in(start) if start.startswith(b"#!") else ""


def interpreter_in(first_line: bytes) -> str:
    """The same, of a line that begins with `#!`."""
    words = first_line[2:].decode("utf-8", "replace").split()
    by_env = len(words) > 1 and words[0].endswith("/env") and not words[1].startswith("-")
    return words[1] if by_env else (words or [""])[0]


DEADLINE_S = 10.0
# A larger script is generated, or no script.
_LARGEST_SCRIPT_BYTES = 1_000_000
# What a script that changes how modules are found mentions.
_OWN_SEARCH = (b"sys.path", b"addsitedir", b"meta_path", b"path_hooks", b"pyximport")
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


class Import(NamedTuple):
    """A module, by its top-level name, and the line that imports it."""

    module: str
    line: int


class ScriptSyntaxError(ValueError):
    """A script that its Python cannot compile; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def python_variables(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of a stage that change what a Python finds, where they are not those of this process."""
    return {name: env[name] for name in PYTHON_VARIABLES if name in env and env[name] != os.environ.get(name)}


def ask_modules(python: str, modules: Iterable[str], env: Mapping[str, str]) -> Callable[[], list[str] | str]:
    """Asks which of `modules` a Python lacks. The result waits for the answer: sorted; a text is why there is none.

    Args:
        python: absolute path.
        modules: top-level names.
        env: variables that change what is found (`python_variables`); others are those of this process.
    """
    wanted = sorted(set(modules))
    if is_own_python(python) and not env:
        return lambda: [name for name in wanted if _is_missing_here(name)]
    import subprocess  # most pipelines have no other Python

    try:
        process = subprocess.Popen(
            [python, "-c", _PROBE, *wanted],
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        reason = f"cannot be started: {error.strerror}"
        return lambda: reason
    return lambda: _answer(process, wanted)


def _answer(process: subprocess.Popen[bytes], wanted: Sequence[str]) -> list[str] | str:
    import subprocess

    with process:
        try:
            said, errors = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            # With the processes that it started: one of them may keep the pipe open.
            os.killpg(process.pid, signal.SIGKILL)
            return f"did not answer within {DEADLINE_S:g} s"
    if process.returncode:
        return f"{_how_it_ended(process.returncode)} when it was asked{_last_line(errors)}"
    try:
        found = json.loads(said)
    except ValueError:
        found = None
    return [name for name in wanted if name in found] if isinstance(found, list) else "printed no answer"


def _how_it_ended(code: int) -> str:
    if code > 0:
        return f"ended with exit code {code}"
    return f"was ended by {signal.Signals(-code).name if -code in set(signal.Signals) else f'signal {-code}'}"


def _last_line(errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return f": {shortened(lines[-1], 200)}" if lines else ""


def _is_missing_here(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is None
    except (ImportError, ValueError):
        return name not in sys.modules


def is_beside(folder: Path, module: str) -> bool:
    """Whether a folder holds a module, as a script finds those beside it."""
    return PathFinder.find_spec(module, [str(folder)]) is not None


def imports_of(script: Path, *, lenient: bool = False) -> list[Import]:
    """The modules that a script imports in any case: at its top, and not in `try`, `if` or a function.

    [] for a script that changes how modules are found, for one that cannot be read, for a ZIP archive or bytecode, and,
    with `lenient`, for one that cannot be compiled; it may be written for another version of Python, or hold
    placeholders.

    Raises:
        ScriptSyntaxError: it cannot be compiled.
    """
    try:
        if script.stat().st_size > _LARGEST_SCRIPT_BYTES:
            return []
        source = script.read_bytes()
    except OSError:
        return []
    if b"\0" in source or any(word in source for word in _OWN_SEARCH):
        return []
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        if lenient:
            return []
        raise ScriptSyntaxError(error.msg, error.lineno or 1) from None
    found: dict[str, Import] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
        else:
            continue
        for name in names:
            module = name.partition(".")[0]
            found.setdefault(module, Import(module, node.lineno))
    return list(found.values())
