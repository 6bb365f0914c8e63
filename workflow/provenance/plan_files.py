"""The files that a plan names: those of the pipeline, its site and components, programs, and inputs."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from workflow.plan.plan_model import Plan, StagePlan
from workflow.provenance.provenance_model import FileRecord, FileRole
from workflow.site.interpreters import is_python, program_identity
from workflow.site.load_site import site_files
from workflow.spec.load import Loaded
from workflow.spec.shipped import SHIPPED, find_config
from workflow.spec.suggest import listing

# The Python modules of the user's own that programs import, found beside them: by the names that they import.

# A path that is a text, or stands in a word behind the name of an option.
_PATH = re.compile(r"(?:-\w|[^/\n]*[=:])?(/.*)", re.DOTALL)


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


# SHA-256 of files and of ADIOS2's directories, read once as long as they do not change.

# Of a BP4 or BP5 directory: https://adios2.readthedocs.io/en/latest/engines/engines.html
_INDEX = "md.idx"


class _Version(NamedTuple):
    """A changed file has another time or size."""

    path: str
    modified_ns: int
    size: int


_known: dict[_Version, str] = {}


def is_data(path: Path) -> bool:
    """Whether there is a file, or a directory of ADIOS2, which counts as one."""
    try:
        return path.is_file() or (path / _INDEX).is_file()
    except (OSError, ValueError):
        return False


def size_and_time(path: Path) -> tuple[int, float]:
    """(bytes, time of the last change in Unix seconds), of a directory those of all its files. Raises OSError."""
    found = [each.stat() for each in _parts(path)]
    return sum(each.st_size for each in found), max(each.st_mtime for each in found)


def unread_bytes(path: Path) -> int:
    """How much `checksum` has to read: 0 for what it has read before. Raises OSError."""
    return sum(version.size for each in _parts(path) if (version := _version(each)) not in _known)


def checksum(path: Path) -> str:
    """SHA-256 of a file; of a directory of ADIOS2, of the names and sums of its files. Raises OSError."""
    if not path.is_dir():
        return _sum(_version(path))
    digest = hashlib.sha256()
    for each in _parts(path):
        digest.update(f"{each.relative_to(path)}\0{_sum(_version(each))}\n".encode())
    return digest.hexdigest()


def file_change(path: Path, record: FileRecord | None, name: str) -> str:
    """What is another in a file than it was. One that was too large for a checksum must have its size and time.

    `name`: for people.
    """
    if record is None:
        return f"{name} is new"
    try:
        if record.sha256 is not None:
            return "" if checksum(path) == record.sha256 else f"{name} has different content"
        size, modified = size_and_time(path)
    except OSError as error:
        return f"{name} cannot be read: {error.strerror}"
    same = (size, round(modified, 6)) == (record.size, record.modified)
    return "" if same else f"{name} has a different size or time, and was too large for a checksum"


def changed_files(
    records: Iterable[FileRecord], ended: float, used: Mapping[str, Mapping[Path, FileRole]]
) -> list[str]:
    """What is another in the programs, modules and inputs that a run has used than when it began.

    Args:
        records: the files as they were then.
        ended: when the run ended, Unix seconds. An input that has not changed since then may be one that it wrote.
        used: stage → the files that it uses: a message names the stages of its file.
    """
    found = []
    for each in records:
        path = Path(each.path)
        if each.role in ("program", "module", "component") or (each.role == "input" and _is_newer(path, ended)):
            users = [stage for stage, files in used.items() if path in files]
            name = f"{path.name} ({'stage' if len(users) == 1 else 'stages'} {listing(users)})" if users else path.name
            found += [change] if (change := file_change(path, each, name)) else []
    return found


def _is_newer(path: Path, t: float) -> bool:
    try:
        return size_and_time(path)[1] > t
    except (OSError, ValueError):  # it is gone, or a folder without files
        return True


def _parts(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(each for each in path.rglob("*") if each.is_file())
    else:
        yield path


def _version(path: Path) -> _Version:
    found = path.stat()
    return _Version(os.fspath(path), found.st_mtime_ns, found.st_size)


def _sum(version: _Version) -> str:
    if version not in _known:
        digest = hashlib.sha256()
        with Path(version.path).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        _known[version] = digest.hexdigest()
    return _known[version]


# Their texts are for people, are filled in elsewhere, or name the pipeline file, which has a role of its own, or what
# earlier runs have written: nothing that the user gave.
NOT_NAMES = {"pipeline_file", "params", "reasons", "advice", "expectations", "part"}


@dataclass(frozen=True)
class ExaminedPlan:
    """Of a plan, what its files, its key and its provenance are all found from."""

    data: dict[str, Any]
    """The plan as JSON-like data, without `NOT_NAMES`."""
    programs: dict[str, Path]
    """Stage → what it starts, as a file; without stages whose program is not on this machine."""
    site_files: list[Path]
    """The file of its site, and those that it extends."""


class LookedUp:
    """Where programs and the files of sites are, each looked up once: for plans that are made at one moment."""

    def __init__(self) -> None:
        self._programs: dict[tuple[str, str | None], Path | None] = {}
        self._sites: dict[tuple[str, str, Path], list[Path]] = {}

    def program(self, stage: StagePlan) -> Path | None:
        """What a stage starts, as a file; None where it is not on this machine."""
        asked = stage.program[0], stage.env.get("PATH")
        if asked not in self._programs:
            found = shutil.which(asked[0], path=asked[1])
            self._programs[asked] = Path(found) if found is not None and found.startswith("/") else None
        return self._programs[asked]

    def site_files(self, plan: Plan, loaded: Loaded) -> list[Path]:
        """The file of the plan's site, and those that it extends."""
        asked = plan.site, loaded.spec.site, loaded.path.parent
        if asked not in self._sites:
            self._sites[asked] = site_files(*asked)
        return self._sites[asked]


def examine_plan(plan: Plan, loaded: Loaded, looked_up: LookedUp | None = None) -> ExaminedPlan:
    """What the files of a plan are found from. `looked_up`: what other plans have found at the same moment."""
    looked_up = looked_up or LookedUp()
    found = {stage.name: looked_up.program(stage) for stage in plan.stages}
    programs = {name: program for name, program in found.items() if program is not None}
    data = plan.model_dump(mode="json", exclude=NOT_NAMES)
    return ExaminedPlan(data, programs, looked_up.site_files(plan, loaded))


def files_of(examined: ExaminedPlan, loaded: Loaded) -> dict[Path, FileRole]:
    """All files that the plan is made from and names, each once, with what it is. Only those that there are."""
    found: dict[Path, FileRole] = {loaded.path: "pipeline"}
    for file in examined.site_files:
        found.setdefault(file, "site")
    for name in loaded.presets:
        if (preset := find_config("engines", name)) is not None:
            found.setdefault(preset, "preset")
    for file in component_files(loaded):
        found.setdefault(file, "component")
    for program in examined.programs.values():
        found.setdefault(program, "program")
    for name in (name for files in (stage.files for stage in loaded.spec.stages.values()) for name in files.values()):
        if is_data(file := loaded.path.parent / name):
            found.setdefault(file, "input")
    for text in paths_in(examined.data):
        if (named := _named(text)) is not None:
            found.setdefault(named, "input")
    with_wf = SHIPPED / "components"
    own = [path for path in found if path.suffix == ".py" and not path.is_relative_to(with_wf)]
    folders = [folder.parent for folder in loaded.component_dirs.values() if not folder.is_relative_to(with_wf)]
    for module in imported_modules(own, [loaded.path.parent, *folders]):
        found.setdefault(module, "module")
    return found


def files_of_stages(examined: ExaminedPlan, loaded: Loaded) -> dict[str, dict[Path, FileRole]]:
    """Stage → those of `files_of` that are its own: neither of the pipeline as a whole, nor of its streams."""
    found: dict[str, dict[Path, FileRole]] = {}
    for data in examined.data["stages"]:
        name = data["name"]
        folder = {key: path for key, path in loaded.component_dirs.items() if key == data["component"]}
        stages = {key: each for key, each in loaded.spec.stages.items() if key == name}
        spec = loaded.spec.model_copy(update={"stages": stages})
        programs = {key: path for key, path in examined.programs.items() if key == name}
        own = replace(loaded, spec=spec, component_dirs=folder, presets={})
        files = files_of(ExaminedPlan({"stages": [data]}, programs, []), own)
        found[name] = {path: role for path, role in files.items() if role != "pipeline"}
    return found


def with_same_pythons(before: Plan, now: Plan) -> Plan:
    """An earlier plan in whose commands a Python has the name that it has now, where both are links to one file."""
    commands = {stage.name: stage.program for stage in now.stages}

    def renamed(stage: StagePlan) -> StagePlan:
        words = list(stage.program)
        for place, (old, new) in enumerate(zip(words, commands.get(stage.name, []), strict=False)):
            if is_python(old) and is_python(new):
                paths = [shutil.which(each, path=stage.env.get("PATH")) for each in (old, new)]
                if None not in paths and len({program_identity(Path(str(each))) for each in paths}) == 1:
                    words[place] = new
        return stage.model_copy(update={"program": words})

    return before.model_copy(update={"stages": [renamed(stage) for stage in before.stages]})


def component_files(loaded: Loaded) -> Iterator[Path]:
    """The descriptions and Python modules of the components that are used."""
    for folder in loaded.component_dirs.values():
        yield folder / "component.yaml"
        yield from sorted(folder.rglob("*.py"))


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
    """The absolute paths among the texts of JSON-like data, keys included, each once and in their order; also those in
    a word of a command, as in `--config=/a/b`, `in:/a/b` and `-I/a/b`."""
    found: dict[str, None] = {}
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if match := _PATH.match(value):
                found[match[1]] = None
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
