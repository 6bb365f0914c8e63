"""SHA-256 of files and of ADIOS2's directories, read once as long as they do not change."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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
