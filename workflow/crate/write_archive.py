"""Reads the files of an archive, leaves out what is too large or holds a secret, and writes a zip file or a folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from workflow.crate.archive_contents import ArchiveContents, ArchivedFile, LeftOut
from workflow.errors import RunError

_BLOCK = 1 << 20
# Dates of a zip file begin in 1980.
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)


def add_files(
    contents: ArchiveContents, files: Iterable[tuple[str, Path]], secrets: Mapping[str, str], largest: int | None
) -> None:
    """Take files into the archive, each with its checksum: (name in the archive, file).

    Left out and listed are those of more than `largest` bytes, those that cannot be read, and those in which one of
    `secrets` (value → variable of the environment) stands.
    """
    for name, path in files:
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


def add_tree(contents: ArchiveContents, name: str, path: Path, secrets: Mapping[str, str], largest: int | None) -> None:
    """Take a file, or all files below a directory, into the archive; links below it are left out and listed."""
    if not path.is_dir():
        if path.exists():
            add_files(contents, [(name, path)], secrets, largest)
        return
    found = sorted(path.rglob("*"))
    contents.left_out += [LeftOut(str(each), None, "it is a link") for each in found if each.is_symlink()]
    names = ((f"{name}/{each.relative_to(path).as_posix()}", each) for each in found)
    add_files(contents, (pair for pair in names if pair[1].is_file() and not pair[1].is_symlink()), secrets, largest)


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
