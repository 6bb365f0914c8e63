"""The files that a plan names: those of the pipeline, its site and components, programs, and inputs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from workflow.plan.plan_model import Plan, StagePlan
from workflow.provenance.file_checksums import checksum, is_data, size_and_time, unread_bytes
from workflow.provenance.imported_modules import imported_modules
from workflow.provenance.provenance_model import FileRecord, FileRole
from workflow.site.site_tree import site_files
from workflow.spec.config_dirs import find_config
from workflow.spec.load import Loaded
from workflow.spec.shipped import SHIPPED

# Their texts are for people, or name the pipeline file, which has a role of its own.
NOT_NAMES = {"pipeline_file", "reasons", "advice", "expectations"}


def files_of(plan: Plan, loaded: Loaded) -> dict[Path, FileRole]:
    """All files that the plan is made from and names, each once, with what it is. Only those that there are."""
    found: dict[Path, FileRole] = {loaded.path: "pipeline"}
    for file in site_files(plan.site, loaded.spec.site, loaded.path.parent):
        found.setdefault(file, "site")
    for name in loaded.presets:
        if (preset := find_config("engines", name)) is not None:
            found.setdefault(preset, "preset")
    for file in component_files(loaded):
        found.setdefault(file, "component")
    for stage in plan.stages:
        if (program := program_of(stage)) is not None:
            found.setdefault(program, "program")
    for name in (name for files in (stage.files for stage in loaded.spec.stages.values()) for name in files.values()):
        if is_data(file := loaded.path.parent / name):
            found.setdefault(file, "input")
    for text in paths_in(plan.model_dump(mode="json", exclude=NOT_NAMES)):
        if (named := _named(text)) is not None:
            found.setdefault(named, "input")
    with_wf = SHIPPED / "components"
    own = [path for path in found if path.suffix == ".py" and not path.is_relative_to(with_wf)]
    folders = [folder.parent for folder in loaded.component_dirs.values() if not folder.is_relative_to(with_wf)]
    for module in imported_modules(own, [loaded.path.parent, *folders]):
        found.setdefault(module, "module")
    return found


def component_files(loaded: Loaded) -> Iterator[Path]:
    """The descriptions and Python modules of the components that are used."""
    for folder in loaded.component_dirs.values():
        yield folder / "component.yaml"
        yield from sorted(folder.rglob("*.py"))


def program_of(stage: StagePlan) -> Path | None:
    """What a stage starts, as a file; None where it is not on this machine."""
    found = shutil.which(stage.program[0], path=stage.env.get("PATH"))
    return Path(found) if found is not None and found.startswith("/") else None


def file_records(files: Mapping[Path, FileRole], limit: int) -> list[FileRecord]:
    """The files with their sizes and checksums; at most `limit` bytes are read, those of programs first."""
    records: dict[Path, FileRecord] = {}
    for path in sorted(files, key=lambda each: files[each] != "program"):
        try:
            size, modified = size_and_time(path)
            unread = unread_bytes(path)
            summed = checksum(path) if unread <= limit else None
        except OSError:  # it may be executed, but not read; or it is gone
            continue
        limit -= unread if summed is not None else 0
        records[path] = FileRecord(
            role=files[path], path=str(path), size=size, modified=round(modified, 6), sha256=summed
        )
    return [records[path] for path in files if path in records]


def paths_in(data: Any) -> list[str]:
    """The absolute paths among the texts of JSON-like data, keys included, each once and in their order."""
    found: dict[str, None] = {}
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if value.startswith("/"):
                found[value] = None
        elif isinstance(value, dict):
            for key in reversed(value):
                waiting += (value[key], key)
        elif isinstance(value, list):
            waiting += reversed(value)
    return list(found)


def _named(text: str) -> Path | None:
    """The file that a path of the plan names; None for anything else."""
    if "\n" in text or text.startswith("/dev/"):
        return None
    path = Path(text)
    return path if is_data(path) else None
