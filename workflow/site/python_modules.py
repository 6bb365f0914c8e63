"""Which modules a Python has, without importing them, and which modules a script imports.

The Python that executes wf is asked in this process. Any other one is started once for all questions about it, with a
deadline: it may be on a slow file system.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

from workflow.site.interpreters import is_own_python

DEADLINE_S = 10.0
# A larger script is generated, or no script.
_LARGEST_SCRIPT_BYTES = 1_000_000
# Variables that change what a Python finds.
PYTHON_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONUSERBASE")
# Prints the names of its arguments that cannot be found, as JSON.
_PROBE = """
import json, sys
from importlib.util import find_spec
def lacks(name):
    try:
        return find_spec(name) is None
    except (ImportError, ValueError):
        return name not in sys.modules
if sys.path[:1] == ['']:
    del sys.path[0]
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


def missing_modules(python: str, modules: Iterable[str], env: Mapping[str, str]) -> list[str] | None:
    """Those of `modules` that a Python cannot find, sorted; None when it does not answer.

    Args:
        python: absolute path.
        modules: top-level names.
        env: variables of the stage that change what is found; others are those of this process.
    """
    wanted = sorted(set(modules))
    of_python = {name: env[name] for name in PYTHON_VARIABLES if name in env and env[name] != os.environ.get(name)}
    if is_own_python(python) and not of_python:
        return [name for name in wanted if _is_missing_here(name)]
    import subprocess  # most pipelines have no other Python

    try:
        answer = subprocess.run(
            [python, "-c", _PROBE, *wanted],
            env={**os.environ, **of_python},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=DEADLINE_S,
            check=True,
        )
        found = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return [name for name in wanted if name in found] if isinstance(found, list) else None


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

    [] for a script that changes `sys.path`, for one that cannot be read, and, with `lenient`, for one that cannot be
    compiled; it may be written for another version of Python, or hold placeholders.

    Raises:
        ScriptSyntaxError: it cannot be compiled.
    """
    try:
        if script.stat().st_size > _LARGEST_SCRIPT_BYTES:
            return []
        source = script.read_bytes()
    except OSError:
        return []
    if b"sys.path" in source or b"addsitedir" in source:
        return []
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        if lenient:
            return []
        raise ScriptSyntaxError(error.msg, error.lineno or 1) from None
    except ValueError:  # a NUL byte
        return []
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
