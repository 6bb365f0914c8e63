"""Parts of one stream, each a BP5 file, as one BP5 file that holds no data: its data files are links to theirs.

As ADIOS2 2.12.1 writes and reads them (engine/bp5/BP5Writer.cpp, BP5Reader.cpp, toolkit/format/bp5):

- `md.idx` has the place of each step in `md.0`. The reader takes steps to follow one another there without a gap.
- Places of data are those in a subfile, and the metadata of a step know only their distance from the beginning of the
  step's data. They are kept, and so are the subfiles: each becomes `data.N` with another N.
- The record that tells in which subfile a writer's data are holds until the next one: the number of writers may change.
- `mmd.0` has a format for each layout of a writer's metadata, by an id that is a hash of it.
- Attributes are written with the first step of each part. A reader replaces those that have changed.

The reader keeps some properties of a variable, by its name, from the format that it met first or last: with another
type, kind of shape, operator or level of statistics in a later part it would read wrong data and say nothing. Parts
like that are not joined. Whoever writes into the joined file writes into the parts: its metadata are read-only, so
that ADIOS2 fails when it opens it to write.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from workflow.formats.bp_index import (
    ACTIVE,
    HEADER,
    STEP,
    VERSION,
    WRITERS,
    Record,
    is_blank,
    missing_data,
    read_records,
)

_BP5, _MINOR = 5, 2
_MINOR_VERSION, _BIG_ENDIAN = 38, 36
_ALIKE = {40: "row-major or column-major arrays", 41: "FlattenSteps"}
_ENTRY = struct.Struct("<2Q")
# FFS, fm/fm_internal.h: a format is a header, the description of its struct with the fields, those of inner structs.
_STRUCT, _FIELD_COUNT, _FIELDS = 8, 16, 36
_FIELD = struct.Struct("<4I")
_VARIABLE = re.compile(rb"BP(?:[gl]|[GLJ]_\d+_\d+)_(.*)", re.DOTALL)


class JoinError(ValueError):
    """Parts that cannot be joined."""


@dataclass(frozen=True)
class Piece:
    """The first `steps` steps of a BP5 file, or all that were written whole."""

    path: Path
    steps: int | None = None


@dataclass(frozen=True)
class _Part:
    """What is taken of a piece: the records of the index, and the formats that its metadata may have."""

    path: Path
    header: bytes
    records: list[Record]
    formats: dict[bytes, bytes]

    @property
    def steps(self) -> int:
        return sum(record.kind == STEP for record in self.records)

    @property
    def subfiles(self) -> list[int]:
        return sorted({n for record in self.records if record.kind == WRITERS for n in record.numbers[3:]})


def join_bp5(pieces: Sequence[Piece], target: Path, runs: Path | None = None) -> int:
    """Make `target`, a BP5 file of the steps of all pieces, and return how many they are. The pieces stay as they are.

    Links to files below `runs` are relative if the target is there, too: that folder can be moved. Others are absolute.
    `target` appears whole or not at all.

    Raises:
        JoinError: a piece is no BP5 file, has fewer whole steps than it should, or does not go with the others.
        OSError: a file cannot be read or written.
    """
    parts = [part for part in map(_read_part, pieces) if part is not None and part.steps]
    if not parts:
        raise JoinError("no piece has a step")
    for number, part in enumerate(parts):
        for earlier in parts[:number]:
            _check_alike(earlier, part)
    if os.path.lexists(target):
        raise JoinError(f"{target} exists already")
    folder = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    folder.mkdir()
    try:
        _write(parts, folder, target, runs)
        folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return sum(part.steps for part in parts)


def _read_part(piece: Piece) -> _Part | None:
    """What is taken of a piece; None where nothing is asked for."""
    path, steps = piece.path, piece.steps
    if steps == 0:
        return None
    try:
        index = (path / "md.idx").read_bytes()
    except OSError as error:
        raise JoinError(f"{path} is no BP5 file: md.idx cannot be read: {error.strerror}") from None
    header = index[:HEADER]
    if len(header) < HEADER or header[VERSION] not in ACTIVE:
        raise JoinError(f"{path} is no BP5 file: md.idx has no header")
    if (header[VERSION], header[_MINOR_VERSION]) != (_BP5, _MINOR):
        raise JoinError(
            f"{path} is of version {header[VERSION]}.{header[_MINOR_VERSION]} of the BP format, not {_BP5}.{_MINOR}"
        )
    if header[_BIG_ENDIAN]:
        raise JoinError(f"{path} was written by a big-endian machine")
    records = read_records(index[HEADER:])
    ends = [number for number, record in enumerate(records, 1) if record.kind == STEP]
    if steps is None:
        steps = 0 if is_blank(path / "md.idx") else len(ends)
    if not 0 <= steps <= len(ends):
        raise JoinError(f"{path} has {len(ends)} whole steps, not {steps}")
    del records[ends[steps - 1] if steps else 0 :]
    if unknown := {record.kind for record in records} - {STEP, WRITERS}:
        raise JoinError(f"{path} has records of an unknown type in md.idx: {', '.join(map(repr, sorted(unknown)))}")
    if missing := missing_data(path, records):
        raise JoinError(f"{path}: {missing}")
    return _Part(path, header, records, dict(_formats((path / "mmd.0").read_bytes())))


def _formats(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Id and description of each format in mmd.0, but for one that was not written whole."""
    end = 0
    while end + _ENTRY.size <= len(data):
        id_size, size = _ENTRY.unpack_from(data, end)
        begin = end + _ENTRY.size
        end = begin + id_size + size
        if end <= len(data):
            yield data[begin : begin + id_size], data[begin + id_size : end]


def _check_alike(one: _Part, other: _Part) -> None:
    for place, what in _ALIKE.items():
        if one.header[place] != other.header[place]:
            raise JoinError(f"{one.path} and {other.path} differ in {what}")
    variables = _variables(one)
    for name, stored in _variables(other).items():
        if variables.get(name, stored) != stored:
            raise JoinError(
                f"{one.path} and {other.path} store {name} in different ways: "
                "its type, kind of shape, compression or statistics have changed"
            )


def _variables(part: _Part) -> dict[str, set[tuple[bytes, bytes, int]]]:
    """Name of a variable → how it is stored: name, type and size of its field in the metadata."""
    found: dict[str, set[tuple[bytes, bytes, int]]] = {}
    for format_ in part.formats.values():
        (count,) = struct.unpack_from("<I", format_, _FIELD_COUNT)
        for name_at, type_at, size, _ in _FIELD.iter_unpack(format_[_FIELDS : _FIELDS + count * _FIELD.size]):
            name, type_ = (format_[_STRUCT + at : format_.index(b"\0", _STRUCT + at)] for at in (name_at, type_at))
            if match := _VARIABLE.fullmatch(name):
                found.setdefault(match[1].decode(errors="replace"), set()).add((name, type_, size))
    return found


def _write(parts: Sequence[_Part], folder: Path, target: Path, runs: Path | None) -> None:
    """Fill the folder that becomes `target`."""
    header = bytearray(parts[0].header)
    header[ACTIVE[_BP5]] = 0
    formats = {id_: format_ for part in parts for id_, format_ in part.formats.items()}
    with (folder / "mmd.0").open("wb") as file:
        for id_, format_ in formats.items():
            file.write(_ENTRY.pack(len(id_), len(format_)) + id_ + format_)
    first = 0  # the number of the part's first subfile
    with (folder / "md.idx").open("wb") as index, (folder / "md.0").open("wb") as metadata:
        index.write(header)
        for part in parts:
            with (part.path / "md.0").open("rb") as source:
                for record in part.records:
                    index.write(_moved(record, first, part, source, metadata).to_bytes())
            for subfile in part.subfiles:
                (folder / f"data.{first + subfile}").symlink_to(_link(part.path / f"data.{subfile}", target, runs))
            first += part.subfiles[-1] + 1
    for name in ("mmd.0", "md.0", "md.idx"):
        (folder / name).chmod(0o444)


def _moved(record: Record, first: int, part: _Part, source: BinaryIO, metadata: BinaryIO) -> Record:
    """The record as it is in the joined file. The metadata of a step are copied."""
    if record.kind == WRITERS:
        writers, aggregators, _, *subfiles = record.numbers
        # ADIOS2 takes as many subfiles to exist as one record says: all up to here.
        total = first + part.subfiles[-1] + 1
        return Record(WRITERS, (writers, aggregators, total, *(first + subfile for subfile in subfiles)))
    place, size, *rest = record.numbers
    source.seek(place)
    moved = metadata.tell()
    metadata.write(source.read(size))
    return Record(STEP, (moved, size, *rest))


def _link(file: Path, target: Path, runs: Path | None) -> str:
    """What the link in `target` to this file says. A link in a piece is followed: the piece may be a joined file."""
    while file.is_symlink():
        file = file.parent / file.readlink()
    if runs is not None:
        # The folders may be links, too: a relative path is counted from where a file really is.
        real, folder, common = file.resolve(), target.parent.resolve() / target.name, runs.resolve()
        if real.is_relative_to(common) and folder.is_relative_to(common):
            return os.path.relpath(real, folder)
    return str(file.absolute())
