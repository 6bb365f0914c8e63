"""One name, one thing: file names, class names and folders of the package."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import workflow

PACKAGE = Path(workflow.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
FOLDERS = sorted({path.parent for path in FILES})

EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "misc", "shared", "tools"}


def relative(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def shared_names(named: Iterable[tuple[str, Path]]) -> dict[str, list[str]]:
    """Name → the files that have it, for names that several have."""
    files: dict[str, set[str]] = defaultdict(set)
    for name, path in named:
        files[name].add(relative(path))
    return {name: sorted(paths) for name, paths in files.items() if len(paths) > 1}


def type_names(path: Path) -> Iterator[str]:
    """The classes and type aliases at the top of a module: CamelCase names, constants left out."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Name) and target.id.lstrip("_")[:1].isupper() and not target.id.isupper():
                yield target.id


def test_the_package_is_found() -> None:
    assert len(FILES) > 100
    assert "Plan" in type_names(PACKAGE / "plan/plan_model.py")
    assert "Interval" in type_names(PACKAGE / "report/build/stage_and_stream_figures.py")


def test_no_two_modules_have_the_same_file_name() -> None:
    modules = [path for path in FILES if path.name not in ("__init__.py", "__main__.py")]
    assert shared_names((path.name, path) for path in modules) == {}


def test_no_two_types_have_the_same_name() -> None:
    shared = shared_names((name, path) for path in FILES for name in type_names(path))
    assert shared == {}


@pytest.mark.parametrize("folder", FOLDERS, ids=relative)
def test_every_folder_says_what_is_in_it(folder: Path) -> None:
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_no_module_has_a_name_that_says_nothing(path: Path) -> None:
    assert path.stem not in EMPTY_NAMES


def test_no_pipeline_in_a_test_runs_whatever_is_called_python() -> None:
    """Where no environment is active there may be none of that name, as on a new Debian."""
    bare = re.compile(r"""command:[^\n]{0,3}["']?python["', ]""")
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    assert len(files) > 100
    assert [path.name for path in files if path != Path(__file__) and bare.search(path.read_text())] == []
