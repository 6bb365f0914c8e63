"""What a shared library links, from its ELF header: a few kilobytes are read, nothing is loaded.

Format: System V ABI, chapters 4 and 5 (https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.dynamic.html).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRTAB, _RPATH, _RUNPATH = 1, 5, 15, 29
_LONGEST_NAME = 4096


class Links(NamedTuple):
    """The libraries that it needs, by file name, and the folders where the loader searches for them."""

    needed: list[str]
    runpath: list[str]


class _Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    size: int


def read_links(path: Path) -> Links | None:
    """What a 64-bit little-endian library links; None for any other file, or when it cannot be read."""
    try:
        with path.open("rb") as file:
            return _read(file)
    except (OSError, struct.error, ValueError, StopIteration):
        return None


def _read(file: BinaryIO) -> Links | None:
    if file.read(6) != b"\x7fELF\x02\x01":
        return None
    segments = list(_segments(file))
    dynamic = next(each for each in segments if each.kind == _DYNAMIC)
    file.seek(dynamic.offset)
    data = file.read(dynamic.size)
    entries = list(struct.iter_unpack("<qQ", data[: len(data) // 16 * 16]))
    table = _file_offset(next(value for tag, value in entries if tag == _STRTAB), segments)
    needed = [_text(file, table + value) for tag, value in entries if tag == _NEEDED]
    paths = [_text(file, table + value) for tag, value in entries if tag in (_RUNPATH, _RPATH)]
    return Links(needed, [folder for path in paths for folder in path.split(":") if folder])


def _segments(file: BinaryIO) -> Iterator[_Segment]:
    file.seek(32)
    (table,) = struct.unpack("<Q", file.read(8))
    file.seek(54)
    size, count = struct.unpack("<HH", file.read(4))
    for index in range(count):
        file.seek(table + index * size)
        kind, _, offset, address, _, length = struct.unpack("<IIQQQQ", file.read(40))
        yield _Segment(kind, offset, address, length)


def _file_offset(address: int, segments: list[_Segment]) -> int:
    home = next(s for s in segments if s.kind == _LOAD and s.address <= address < s.address + s.size)
    return address - home.address + home.offset


def _text(file: BinaryIO, offset: int) -> str:
    file.seek(offset)
    return file.read(_LONGEST_NAME).split(b"\0", 1)[0].decode("utf-8", errors="replace")
