"""Placeholders in the plan's strings (their syntax: `workflow.spec.placeholder_syntax`).

In the plan only `${{ run.dir }}` is left; `fill_run_dir` puts the run directory in and undoes the escaping, without
loss.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from workflow.engines import EngineTraits
from workflow.plan.plan_model import RUN_DIR
from workflow.spec.placeholder_syntax import Placeholder, PlaceholderError, joined, literal, parse

_RUN_DIR_NAME = "run.dir"
# Hidden: what earlier parts of a run hold, for stages that read on from there.
EARLIER = ".pieces/earlier"

T = TypeVar("T")


def literal_all(value: T) -> T:
    """`literal` for every string inside lists and dicts, keys included."""
    return cast(T, _mapped(value, literal))


def expand(text: str, values: Mapping[str, str]) -> str:
    """`text` with its placeholders filled, as a plan string.

    `values` maps names to plan strings (escaped, or with `${{ run.dir }}` inside). Raises
    PlaceholderError naming the unknown placeholder.
    """
    parts: list[str | Placeholder] = []
    for part in parse(text):
        if isinstance(part, str):
            parts.append(part)
        elif part.name in values:
            parts += parse(values[part.name])
        else:
            raise PlaceholderError(f"unknown placeholder `{part.name}`", part.offset, name=part.name)
    return joined(parts)


def fill_run_dir(text: str, run_dir: str) -> str:
    """A plan string as what it stands for in this run directory."""
    if "{{" not in text:  # most strings of a plan; each run fills them all several times
        return text
    return "".join(part if isinstance(part, str) else _run_dir_only(part, run_dir) for part in parse(text))


def fill_all(value: T, run_dir: str) -> T:
    """`fill_run_dir` for every string inside lists and dicts, keys included (what a plan dumps to)."""
    return cast(T, _mapped(value, lambda text: fill_run_dir(text, run_dir)))


def _run_dir_only(part: Placeholder, run_dir: str) -> str:
    if part.name != _RUN_DIR_NAME:
        raise PlaceholderError(f"a plan holds only {RUN_DIR}, found `{part.name}`", part.offset)
    return run_dir


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_mapped(key, change): _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_mapped(item, change) for item in value)
    return value


# Where things are inside the run directory, as plan strings.


def stage_dir(stage: str) -> str:
    """The directory of a stage."""
    return f"{RUN_DIR}/stages/{stage}"


def work_dir(stage: str) -> str:
    """The directory in which the stage runs."""
    return f"{stage_dir(stage)}/work"


def checkpoint_path(stage: str, files: str) -> str:
    """Where a program finds the checkpoint at which it begins. `files`: how it calls those that it writes, with `*`."""
    return f"{stage_dir(stage)}/checkpoint{files.partition('*')[2]}"


def earlier_file(path: str) -> str:
    """Where the steps are that earlier parts hold of a file below the run directory. That may be filled in where wf
    has named the file, as it does a spool; a program may have a folder `streams` of its own."""
    run_dir = RUN_DIR if path.startswith(f"{RUN_DIR}/") else path.rpartition("/streams/")[0]
    return f"{run_dir}/{EARLIER}{path.removeprefix(run_dir)}"


def own_path(stage: str, name: str, engine: EngineTraits) -> str:
    """What ADIOS2 opens where a program opens a name of its own, from its working directory. `name`: that, or the name
    of the file or directory that its engine makes of it."""
    opened = posixpath.normpath(name).removesuffix(engine.contact_suffix)
    if engine.instead_of_bp and opened.endswith(".bp"):
        opened = opened.removesuffix(".bp") + engine.instead_of_bp
    return f"{work_dir(stage)}/{literal(opened)}"


def stream_path(stream: str, name_inside: str, suffix: str) -> str:
    """What ADIOS2 opens. `name_inside` is that of the file where the stream is a directory with files; mostly empty."""
    below = f"/{name_inside}" if name_inside else ""
    return f"{RUN_DIR}/streams/{stream}{below}{suffix}"
