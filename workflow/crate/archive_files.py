"""The files of an archive: under which names, what is left out, and the zip file or folder that is written.

Relative paths mean the same in the archive. Left out is what is too large, holds a secret, or belongs to the machine.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workflow.errors import RunError
from workflow.formats.joined_bp import is_joined
from workflow.provenance.provenance_model import FileRecord, StagePython
from workflow.site.interpreters import is_interpreter
from workflow.spec.shipped import SHIPPED
from workflow.spec.user_paths import in_utf8

METADATA_FILE = "ro-crate-metadata.json"
README_FILE = "README.md"
SOURCE = "source"
CONFIGS = "configs"
RECORDS = "records"
DEFAULT_LARGEST = 100 << 20


@dataclass(frozen=True)
class ArchivedFile:
    """A file of the archive: `name` in it, with slashes; `sha256` is filled when it has been read."""

    name: str
    path: Path
    size: int
    sha256: str = ""


@dataclass(frozen=True)
class LeftOut:
    """A file that the archive does not hold, and why. `size` in bytes, None where there is no such file."""

    path: str
    size: int | None
    why: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", in_utf8(self.path))


@dataclass(frozen=True)
class SourceFiles:
    """The files that a run is started from, in the archive."""

    pipeline: str
    """Name of the pipeline file in the archive."""
    files: dict[str, Path]
    """Name in the archive → the file."""
    left_out: tuple[LeftOut, ...]
    absolute: tuple[tuple[str, str], ...]
    """(path, name in the archive) of files that the pipeline names by an absolute path."""
    campaign: str = ""
    """Name of the campaign file in the archive; empty for a run."""

    def moved(self, words: Iterable[str]) -> list[str]:
        """A command line in which files of the archive have their new names."""
        names = {str(path): name for name, path in self.files.items()}
        return [names.get(word, word) for word in words]


@dataclass
class ArchiveContents:
    """All of it, as it grows."""

    files: list[ArchivedFile] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    """Name → text that is made for the archive."""
    left_out: list[LeftOut] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def named(self, name: str) -> ArchivedFile | None:
        """The file of that name."""
        return next((each for each in self.files if each.name == name), None)


_BLOCK = 1 << 20
# Dates of a zip file begin in 1980.
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)


def add_files(
    contents: ArchiveContents, files: Iterable[tuple[str, Path]], secrets: Mapping[str, str], largest: int | None
) -> None:
    """Take files into the archive, each with its checksum: (name in the archive, file).

    Left out and listed are those of more than `largest` bytes, those that cannot be read, those whose names are not
    UTF-8, and those in which one of `secrets` (value → variable of the environment) stands.
    """
    for name, path in files:
        if in_utf8(name) != name:
            contents.left_out.append(LeftOut(str(path), None, "its name is not UTF-8"))
            continue
        try:
            length = path.stat().st_size
            if largest is not None and length > largest:
                contents.left_out.append(LeftOut(str(path), length, "it is larger than --largest"))
                continue
            digest, hidden = _read(path, secrets)
        except OSError as error:
            contents.left_out.append(LeftOut(str(path), None, f"it cannot be read: {error.strerror}"))
            continue
        if hidden:
            contents.left_out.append(LeftOut(str(path), length, f"it holds the value of the variable {hidden}"))
        else:
            contents.files.append(ArchivedFile(name, path, length, digest))


def add_tree(
    contents: ArchiveContents,
    name: str,
    path: Path,
    secrets: Mapping[str, str],
    largest: int | None,
    own: Collection[Path] = (),
) -> None:
    """Take a file, or all files below a directory, into the archive.

    Links below it are left out and listed, but for `own`, and those of a BP file that joins the parts of a run: what
    they point to is its data.
    """
    if not path.is_dir():
        if path.exists():
            add_files(contents, [(name, path)], secrets, largest)
        return
    found = sorted(path.rglob("*"))
    links = {each for each in found if each.is_symlink() and each not in own and not is_joined(each.parent)}
    contents.left_out += [LeftOut(str(each), None, "it is a link") for each in sorted(links)]
    names = ((f"{name}/{each.relative_to(path).as_posix()}", each) for each in found if each not in links)
    add_files(contents, (pair for pair in names if pair[1].is_file()), secrets, largest)


def write_archive(contents: ArchiveContents, target: Path) -> None:
    """Write a zip file where the name ends so, else a folder; under a temporary name, renamed when it is whole.

    Raises:
        RunError: it exists, or cannot be written.
    """
    if target.exists():
        raise RunError(f"{target} exists", "give another name: -o FILE.zip")
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".zip":
            _write_zip(contents, temporary)
        else:
            _write_folder(contents, temporary)
        temporary.rename(target)
    except OSError as error:
        raise RunError(f"cannot write {target}: {error.strerror}", "give another name: -o FILE.zip") from error
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


def _read(path: Path, secrets: Mapping[str, str]) -> tuple[str, str]:
    """(SHA-256, the variable whose value stands in the file); the former is empty where the latter is not."""
    searched = {os.fsencode(value): name for value, name in secrets.items()}
    overlap = max(map(len, searched), default=1) - 1  # a value may begin in one block and end in the next
    digest, before = hashlib.sha256(), b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            text = before + block
            for value, name in searched.items():
                if value in text:
                    return "", name
            before = text[max(0, len(text) - overlap) :]
    return digest.hexdigest(), ""


def _write_zip(contents: ArchiveContents, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
        for name, text in contents.texts.items():
            archive.writestr(zipfile.ZipInfo(name, _date(time.time())), text, zipfile.ZIP_DEFLATED)
        for each in contents.files:
            found = each.path.stat()
            info = zipfile.ZipInfo(each.name, _date(found.st_mtime))
            info.external_attr = (found.st_mode & 0xFFFF) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            info.file_size = found.st_size
            with each.path.open("rb") as source, archive.open(info, "w") as into:
                shutil.copyfileobj(source, into, _BLOCK)


def _write_folder(contents: ArchiveContents, target: Path) -> None:
    target.mkdir()
    for name, text in contents.texts.items():
        (target / name).write_text(text, encoding="utf-8")
    for each in contents.files:
        place = target / each.name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(each.path, place)


def _date(t: float) -> tuple[int, int, int, int, int, int]:
    year, month, day, hour, minute, second = time.localtime(t)[:6]
    return max(_FIRST_DATE, (year, month, day, hour, minute, second))


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
