"""The Python modules of the user's own that programs import, found beside them: by the names that they import."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path


def imported_modules(files: Iterable[Path], folders: Sequence[Path]) -> list[Path]:
    """The files of the modules and packages in `folders` which these files import, also through each other.

    A name is looked up beside the file that imports it, too. What is imported by a computed name is not found.
    """
    waiting = list(files)
    given = set(waiting)
    found: dict[Path, None] = {}
    while waiting:
        file = waiting.pop()
        for name in _imports(file):
            for module in _module_files(name, dict.fromkeys((file.parent, *folders))):
                if module not in found and module not in given:
                    found[module] = None
                    waiting.append(module)
    return sorted(found)


def _imports(file: Path) -> frozenset[str]:
    try:
        status = file.stat()
    except OSError:
        return frozenset()
    return _imports_of(file, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1024)
def _imports_of(file: Path, modified: int, size: int) -> frozenset[str]:  # noqa: ARG001
    """First words of the names that a file imports; none where it is no Python that this one reads."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
        elif isinstance(node, ast.ImportFrom):  # from . import name
            names |= {alias.name for alias in node.names}
    return frozenset(names - {"workflow"})  # its version is in the provenance


def _module_files(name: str, folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        if (module := folder / f"{name}.py").is_file():
            yield module
        elif (folder / name / "__init__.py").is_file():
            yield from sorted((folder / name).rglob("*.py"))
