"""The format of the file that a component writes: chosen by a parameter, or by the suffix of the file's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from workflow.errors import Problem
from workflow.spec.models.component import Component, FileFormat, FileFormats
from workflow.spec.suggest import nearest_name, shortened
from workflow.spec.validation_messages import problem_at
from workflow.spec.yaml_tree.node import KeyPath, Node

AUTO = "auto"


def chosen_format(component: Component, parameters: Mapping[str, Any]) -> tuple[str, FileFormat] | None:
    """(name, format) of the file that a component writes with these parameters; None where it is not known."""
    known = component.file_formats
    if known is None or known.format not in parameters:
        return None
    name, suffix = str(parameters[known.format]), _suffix(parameters[known.path])
    if name == AUTO:
        name = next((each for each, kind in known.formats.items() if suffix in kind.suffixes), "")
    return (name, known.formats[name]) if name in known.formats else None


def format_problems(component: Component, parameters: Mapping[str, Any], root: Node, at: KeyPath) -> Iterator[Problem]:
    """A file name whose suffix selects no format, or another one than was chosen. `at`: the path of `with`."""
    known = component.file_formats
    if known is None or known.path not in parameters:
        return
    path, wanted = str(parameters[known.path]), str(parameters[known.format])
    suffix, place = _suffix(path), (*at, known.path)
    if suffix.endswith("}"):  # it ends in a placeholder
        return
    if wanted == AUTO:
        if chosen_format(component, parameters) is None:
            what = (
                f"the suffix of `{shortened(path)}` selects"
                if suffix
                else f"`{shortened(path)}` has no suffix, which selects"
            )
            message = f"{what} {'no' if suffix else 'the'} format of the file"
            yield problem_at(root, place, message, _hint(known, path, suffix))
    elif wanted in known.formats and suffix not in (accepted := _accepted(known.formats[wanted])):
        message = f"format {wanted} needs a file that ends in {' or '.join(accepted)}, not `{shortened(path)}`"
        yield problem_at(root, place, message, f"`{known.path}: {path.removesuffix(suffix)}{accepted[0]}`")


def suffixes_of_all(known: FileFormats, *, of_any_data: bool = False) -> str:
    """`.bp (bp5), .h5 (hdf5)`: the suffixes that select a format; only of those that hold any data if asked for."""
    formats = {name: kind for name, kind in known.formats.items() if not (of_any_data and kind.holds)}
    return ", ".join(f"{suffix} ({name})" for name, kind in formats.items() for suffix in kind.suffixes)


def _hint(known: FileFormats, path: str, suffix: str) -> str:
    suffixes = [each for kind in known.formats.values() for each in kind.suffixes]
    near = nearest_name(suffix, suffixes) if suffix else suffixes[0]
    better = f"`{known.path}: {path.removesuffix(suffix)}{near}`" if near else "use another suffix"
    return f"{better}; suffixes: {suffixes_of_all(known)}"


def _accepted(kind: FileFormat) -> list[str]:
    return [*kind.suffixes, *kind.accepts]


def _suffix(path: Any) -> str:
    return PurePath(str(path)).suffix
