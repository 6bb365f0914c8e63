"""The index of a BP file, `md.idx`: how many steps are whole, and whether the writer still has it open.

Layout (ADIOS2 2.12.1, engine/bp5/BP5Writer.cpp WriteMetadataFileIndex and engine/bp4): a header of 64 bytes with the
byte order at byte 36 (1: big-endian), the version at byte 37 and the active flag at byte 39 (BP4: 38). BP5: records of
one type byte, a 64-bit length and as many bytes; type `s` is a step. BP4: one record of 64 bytes a step. The record of
a step is the last thing written of it, so a step that is there can be read.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

HEADER = 64
ENDIAN, VERSION = 36, 37
ACTIVE = {5: 39, 4: 38}
BP5 = 5
_BP4_RECORD = 64
_BLANK = 256
_BP5_HEAD = struct.Struct("<cQ")
_BIG_HEAD = struct.Struct(">cQ")
STEP, WRITERS = b"s", b"w"


class Record(NamedTuple):
    """A record of BP5: its type, and numbers of 64 bits.

    `STEP`: the place and size of the step's metadata in md.0 and the number of flushes; then for each writer the place
    and size of each flush, and the place of the rest of its data. `WRITERS`, of the steps that follow: the numbers of
    writers, aggregators and subfiles, and the subfile of each writer. Places of data are those in the subfile.
    """

    kind: bytes
    numbers: tuple[int, ...]

    def to_bytes(self) -> bytes:
        """As it is in the file."""
        count = len(self.numbers)
        return _BP5_HEAD.pack(self.kind, 8 * count) + struct.pack(f"<{count}Q", *self.numbers)


@dataclass(frozen=True)
class Index:
    """The contents of the index; `offset` is where the next record begins."""

    steps: int = 0
    active: bool = True
    offset: int = HEADER
    writers: int = 0  # of the last step, ranks of one communicator; 0: not known


def header_of(path: Path) -> bytes | None:
    """The header of an index; None when there is no whole one, or it is another file."""
    try:
        with path.open("rb") as file:
            header = file.read(HEADER)
    except OSError:
        return None
    return header if len(header) == HEADER and header[VERSION] in ACTIVE else None


def read_index(path: Path, known: Index | None = None) -> Index | None:
    """The index of a BP file, continuing from what was `known`. None when there is none yet, or it is another file."""
    known = known or Index()
    try:
        with path.open("rb") as file:
            header = file.read(HEADER)
            if len(header) < HEADER or header[VERSION] not in ACTIVE:
                return None
            file.seek(known.offset)
            rest = file.read()
    except OSError:
        return None
    version = header[VERSION]
    is_big = header[ENDIAN] == 1
    steps, used = _steps(rest, version, is_big)
    writers = _writers(rest, is_big) if version == BP5 else 0
    return Index(known.steps + steps, header[ACTIVE[version]] != 0, known.offset + used, writers or known.writers)


def missing_part(folder: Path) -> str:
    """Which part of a BP file is cut off, as far as its index shows; empty where none is, or it is another file.

    ADIOS2 (2.12.1) waits without a limit for data that are not there. Of a file that is still written nothing is said.
    """
    try:
        index = (folder / "md.idx").read_bytes()
    except OSError as error:
        return f"md.idx cannot be read: {error.strerror}"
    if len(index) < HEADER:
        return "md.idx is truncated"
    version = index[VERSION]
    if version not in ACTIVE or index[ACTIVE[version]]:
        return ""
    is_big = index[ENDIAN] == 1
    if _steps(index[HEADER:], version, is_big)[1] != len(index) - HEADER:
        return "md.idx is truncated"
    return missing_data(folder, read_records(index[HEADER:], is_big)) if version == BP5 else ""


def read_records(data: bytes, is_big: bool = False) -> list[Record]:
    """The records of BP5 in what follows the header, without one that is cut off. `is_big`: of a big-endian machine."""
    return [_decoded(data, *body, is_big) for body in _bodies(data, is_big)]


def _decoded(data: bytes, kind: bytes, begin: int, end: int, is_big: bool = False) -> Record:
    return Record(kind, struct.unpack_from(f"{'>' if is_big else '<'}{(end - begin) // 8}Q", data, begin))


def newest_steps(data: bytes) -> Iterator[tuple[int, tuple[int, ...], Record]]:
    """From the newest step to the first one, in what follows the header: how many steps there are up to it, the subfile
    of each writer, and its record. Of a long file only what is asked for is decoded."""
    bodies = list(_bodies(data))
    steps = sum(kind == STEP for kind, _, _ in bodies)
    changes = [number for number, (kind, _, _) in enumerate(bodies) if kind == WRITERS]
    for number in range(len(bodies) - 1, -1, -1):
        if bodies[number][0] != STEP:
            continue
        while changes and changes[-1] > number:
            changes.pop()
        writers = _decoded(data, *bodies[changes[-1]]).numbers[3:] if changes else ()
        yield steps, writers, _decoded(data, *bodies[number])
        steps -= 1


def places_of(numbers: Sequence[int], writer: int) -> tuple[list[tuple[int, int]], Sequence[int]]:
    """From the record of a step, for one writer: place and size of each flush, and the place of the rest."""
    each = 2 * numbers[2] + 1
    own = numbers[3 + writer * each : 3 + (writer + 1) * each]
    return list(zip(own[:-1:2], own[1::2], strict=True)), own[-1:]


def data_begins(folder: Path, step: int) -> dict[str, int]:
    """File → where the data of a step, and of those after it, begin in a BP5 directory; {}: there is no such step.

    All is appended: what is before that belongs to earlier steps. Raises OSError.
    """
    index = (folder / "md.idx").read_bytes()
    found: dict[str, int] = {}
    for steps, subfiles, (_, numbers) in newest_steps(index[HEADER:]):
        if steps == step + 1:
            for writer, subfile in enumerate(subfiles):
                flushes, rest = places_of(numbers, writer)
                first = min([*(place for place, _ in flushes), *rest])
                name = f"data.{subfile}"
                found[name] = min(found.get(name, first), first)
            return found
    return {}


def missing_data(folder: Path, records: Iterable[Record]) -> str:
    """Which file of a BP5 directory lacks data of these steps; empty where none does.

    How long the data of the last step are is not in the index: nothing is known of a file that is cut off within them.
    """
    subfiles: tuple[int, ...] = ()
    places: dict[str, set[int]] = {}  # file → where data begin
    least: dict[str, int] = {}  # file → how long it is at least
    for kind, numbers in records:
        if kind == WRITERS:
            subfiles = numbers[3:]
        elif kind == STEP:
            least["md.0"] = numbers[0] + numbers[1]
            for writer, subfile in enumerate(subfiles):
                file, (flushes, rest) = f"data.{subfile}", places_of(numbers, writer)
                places.setdefault(file, set()).update(place for place, _ in flushes)
                least[file] = max([least.get(file, 0), *(place + size for place, size in flushes if size)])
                places[file].update(rest)
    for file, begins in places.items():
        # At the last place there may be nothing, not even what fills up a page before it.
        least[file] = max([least[file], *(place + 1 for place in begins if place < max(begins))])
    for file, size in least.items():
        try:
            found = (folder / file).stat().st_size
        except OSError:
            return f"{file} is missing"
        if found < size:
            return f"{file} is truncated"
    return ""


def is_blank(path: Path) -> bool:
    """Whether the BP5 file of this index describes no variable and no attribute up to now: it has no data then.

    ADIOS2 (2.12.1) writes one such step into a file that is closed without any. `mmd.0` describes what the steps
    hold: 212 bytes for nothing, 244 with a variable of the shortest name (`BPg_x`), 808 with an attribute.
    """
    try:
        with path.with_name("mmd.0").open("rb") as file:
            start = file.read(_BLANK + 1)
    except OSError:
        return False
    return len(start) <= _BLANK and b"BP" not in start


def deactivate(path: Path) -> bool:
    """Mark the file of a writer that died as ended, so that readers take its whole steps and do not wait.

    Returns whether that was needed and has been done (what ADIOS2's adios2_deactivate_bp does).
    """
    index = read_index(path)
    if index is None or not index.active:
        return False
    try:
        with path.open("r+b") as file:
            version = os.pread(file.fileno(), 1, VERSION)[0]
            os.pwrite(file.fileno(), b"\0", ACTIVE[version])
    except OSError:
        return False
    return True


def _steps(data: bytes, version: int, is_big: bool = False) -> tuple[int, int]:
    """(step records, bytes of whole records) in what follows the header."""
    if version == 4:
        count = len(data) // _BP4_RECORD
        return count, count * _BP4_RECORD
    steps = used = 0
    for kind, _, used in _bodies(data, is_big):  # noqa: B007  # the last one is where the next begins
        steps += kind == STEP
    return steps, used


def _writers(data: bytes, is_big: bool) -> int:
    """The number of writers in the last record that tells it; 0: none does."""
    last = None
    for body in _bodies(data, is_big):
        last = body if body[0] == WRITERS else last
    return 0 if last is None else _decoded(data, *last, is_big).numbers[0]


def _bodies(data: bytes, is_big: bool = False) -> Iterator[tuple[bytes, int, int]]:
    """The records of BP5: type, and where the body begins and ends. Not one that is cut off."""
    end, head = 0, _BIG_HEAD if is_big else _BP5_HEAD
    while end + head.size <= len(data):
        kind, length = head.unpack_from(data, end)
        begin = end + head.size
        end = begin + length
        if end > len(data):
            return
        yield kind, begin, end
