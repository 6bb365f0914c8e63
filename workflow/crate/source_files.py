"""The files that runs were started from → names in the archive, in which relative paths mean the same."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from workflow.crate.archive_contents import CONFIGS, SOURCE, LeftOut, SourceFiles
from workflow.provenance.provenance_model import FileRecord, StagePython
from workflow.site.interpreters import is_interpreter
from workflow.spec.shipped import SHIPPED

_WITH_WF = (SHIPPED / "components", SHIPPED / "configs")
# What belongs to the machine, not to the user.
_SYSTEM = tuple(Path(place) for place in ("/bin", "/sbin", "/lib", "/lib64", "/usr", "/etc", "/proc", "/sys", "/dev"))


def source_files(
    records: Iterable[FileRecord],
    pythons: Sequence[StagePython],
    pipeline_text: str,
    campaign: Path | None = None,
) -> SourceFiles:
    """Where the files of a run, or of all runs of a campaign, go in the archive.

    Files that have a folder in common with the pipeline keep their places to each other below `source/`, so that a
    relative path still leads to its file. Others go to `source/elsewhere/`, sites and engines that are chosen by name
    to `configs/`.

    Args:
        records: of provenance.json.
        pythons: the other Pythons of stages: what is installed with them stays.
        pipeline_text: of the pipeline and the campaign file, in which absolute paths are searched for.
        campaign: the campaign file.
    """
    roles = {Path(os.path.normpath(each.path)): each.role for each in records}
    pipeline = next(path for path, role in roles.items() if role == "pipeline")
    prefixes = [Path(sys.prefix), Path(sys.base_prefix), *(Path(each.python).parent.parent for each in pythons)]
    left_out: list[LeftOut] = []
    wanted: dict[Path, bool] = {pipeline: False} | ({campaign: False} if campaign is not None else {})
    for path, role in roles.items():
        if _is_below(path, _WITH_WF):
            continue
        if role == "program" and is_interpreter(str(path)):
            continue  # its version is in the provenance
        if _is_below(path, (*_SYSTEM, *prefixes)):
            left_out.append(LeftOut(str(path), _size(path), "it belongs to the machine"))
        elif role == "component":
            wanted |= dict.fromkeys(_component(path.parent), False) if path.name == "component.yaml" else {}
        else:
            wanted[path] = role in ("site", "preset") and path.parent.name in ("sites", "engines")
    top = _top(pipeline, [path for path, by_name in wanted.items() if not by_name])
    names = {path: _name(path, top, by_name) for path, by_name in wanted.items()}
    absolute = [(str(path), name) for path, name in names.items() if str(path) in pipeline_text]
    return SourceFiles(
        pipeline=names[pipeline],
        files={name: path for path, name in names.items()},
        left_out=tuple(left_out),
        absolute=tuple(absolute),
        campaign=names[campaign] if campaign is not None else "",
    )


def _component(folder: Path) -> Iterable[Path]:
    """All of a component of the user's own: its program may be compiled, or read files beside it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("."):
            yield path


def _top(pipeline: Path, paths: Iterable[Path]) -> Path:
    """The folder that holds the pipeline and every file which is not in quite another place."""
    top = pipeline.parent
    for path in paths:
        common = Path(os.path.commonpath([top, path.parent]))
        if len(common.parts) > 1:
            top = common
    return top


def _name(path: Path, top: Path, by_name: bool) -> str:
    if by_name:
        return f"{CONFIGS}/{path.parent.name}/{path.name}"
    if path.is_relative_to(top):
        return f"{SOURCE}/{path.relative_to(top).as_posix()}"
    return f"{SOURCE}/elsewhere/{path.as_posix().lstrip('/')}"


def _is_below(path: Path, places: Sequence[Path]) -> bool:
    return any(path.is_relative_to(place) for place in places)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
