"""Parts of one stream, each a BP5 file, as one BP5 file that holds no data: its data files are links to theirs.

As ADIOS2 2.12.1 writes and reads them (engine/bp5/BP5Writer.cpp, BP5Reader.cpp, toolkit/format/bp5):

- `md.idx` has the place of each step in `md.0`. The reader takes steps to follow one another there without a gap.
- Places of data are those in a subfile, and the metadata of a step know only their distance from the beginning of the
  step's data. They are kept, and so are the subfiles: each becomes `data.N` with another N.
- The record that tells in which subfile a writer's data are holds until the next one: the number of writers may change.
- `mmd.0` has a format for each layout of a writer's metadata, by an id that is a hash of it: `bp5_metadata`.
- Attributes are written with the first step of each part. A reader replaces those that have changed; it fails where
  the type of one has.

Two kinds of parts are not joined, because the reader would take wrong data or crash (it does so, too, where ADIOS2
appended the second part to the first):

- It keeps properties of a variable, by its name, from the formats that it met first or last. Type, kind of shape, the
  use of an operator and the level of statistics must not change.
- When it reads step by step, it remembers where in a writer's metadata a variable was, and looks there in each later
  step that has the variable, although the writer may have another layout without it.

A writer numbers its subfiles from 0. Those of a joined file have numbers that none reaches, so that a program that
opens the file to write or to append does not follow the links into the parts: it makes `data.0` anew.
"""

from __future__ import annotations

import os
import secrets
import shutil
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workflow.formats.bp5_metadata import Field, format_entry, read_formats, read_layouts, variables_of
from workflow.formats.bp_index import (
    ACTIVE,
    BP5,
    HEADER,
    STEP,
    VERSION,
    WRITERS,
    Record,
    is_blank,
    missing_data,
    read_records,
)

_MINOR = 2
_MINOR_VERSION, _BIG_ENDIAN = 38, 36
_ALIKE = {40: "row-major or column-major arrays", 41: "FlattenSteps"}
# More than a writer has subfiles.
FIRST_SUBFILE = 1_000_000


class JoinError(ValueError):
    """Parts that cannot be joined."""


@dataclass(frozen=True)
class BpPiece:
    """The first `steps` steps of a BP5 file, or all that were written whole."""

    path: Path
    steps: int | None = None


@dataclass(frozen=True)
class _Part:
    """What is taken of a piece: the records of the index, and the formats of its metadata by their ids.

    `layouts`: the formats of all writers in a step, each combination once. `variables`: those of a format.
    """

    path: Path
    header: bytes
    records: list[Record]
    formats: dict[bytes, bytes]
    layouts: list[tuple[bytes, ...]]
    variables: dict[bytes, dict[str, Field]]

    @property
    def steps(self) -> int:
        return sum(record.kind == STEP for record in self.records)

    @property
    def subfiles(self) -> list[int]:
        return sorted({n for record in self.records if record.kind == WRITERS for n in record.numbers[3:]})


def is_joined(path: Path) -> bool:
    """Whether a BP5 file holds no data itself, because `join_bp5` has made it."""
    return (path / f"data.{FIRST_SUBFILE}").is_symlink()


def join_bp5(pieces: Sequence[BpPiece], target: Path, runs: Path | None = None) -> int:
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
            _check_layouts(earlier, part)
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


def _read_part(piece: BpPiece) -> _Part | None:
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
    if (header[VERSION], header[_MINOR_VERSION]) != (BP5, _MINOR):
        raise JoinError(
            f"{path} is of version {header[VERSION]}.{header[_MINOR_VERSION]} of the BP format, not {BP5}.{_MINOR}"
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
    if records and records[0].kind != WRITERS:
        raise JoinError(f"{path}: md.idx does not say who wrote the first step")
    if missing := missing_data(path, records):
        raise JoinError(f"{path}: {missing}")
    formats = dict(read_formats((path / "mmd.0").read_bytes()))
    try:
        layouts = read_layouts(path / "md.0", records)
        variables = {id_: variables_of(formats[id_]) for id_ in {id_ for layout in layouts for id_ in layout}}
    except (KeyError, ValueError, struct.error):
        raise JoinError(f"{path}: what is in md.0 is not described in mmd.0") from None
    return _Part(path, header, records, formats, layouts, variables)


def _check_alike(one: _Part, other: _Part) -> None:
    for place, what in _ALIKE.items():
        if one.header[place] != other.header[place]:
            raise JoinError(f"{one.path} and {other.path} differ in {what}")
    stored: dict[str, set[Field]] = {}
    for variables in one.variables.values():
        for name, field in variables.items():
            stored.setdefault(name, set()).add(field)
    for variables in other.variables.values():
        for name, field in variables.items():
            if stored.get(name, {field}) != {field}:
                raise JoinError(
                    f"{one.path} and {other.path} store {name} in different ways: "
                    "its type, kind of shape, compression or statistics have changed"
                )


def _check_layouts(earlier: _Part, later: _Part) -> None:
    known: dict[int, set[str]] = {}  # writer → variables that a reader has met in its metadata
    for layout in earlier.layouts:
        for writer, id_ in enumerate(layout):
            known.setdefault(writer, set()).update(earlier.variables[id_])
    for layout in later.layouts:
        written = set().union(*(later.variables[id_] for id_ in layout))
        for writer, id_ in enumerate(layout):
            if lost := (known.get(writer, set()) & written) - set(later.variables[id_]):
                raise JoinError(
                    f"{earlier.path} and {later.path}: writer {writer} writes {min(lost)} in the first, in the second "
                    "others do: ADIOS2 could not read that step by step"
                )


def _write(parts: Sequence[_Part], folder: Path, target: Path, runs: Path | None) -> None:
    """Fill the folder that becomes `target`."""
    header = bytearray(parts[0].header)
    header[ACTIVE[BP5]] = 0
    formats = {id_: format_ for part in parts for id_, format_ in part.formats.items()}
    with (folder / "mmd.0").open("wb") as file:
        for id_, format_ in formats.items():
            file.write(format_entry(id_, format_))
    subfiles = FIRST_SUBFILE
    with (folder / "md.idx").open("wb") as index, (folder / "md.0").open("wb") as metadata:
        index.write(header)
        for part in parts:
            numbers = {subfile: subfiles + n for n, subfile in enumerate(part.subfiles)}
            subfiles += len(numbers)
            for subfile, number in numbers.items():
                (folder / f"data.{number}").symlink_to(_link(part.path / f"data.{subfile}", target, runs))
            with (part.path / "md.0").open("rb") as source:
                for record in part.records:
                    if record.kind == WRITERS:
                        writers, aggregators, _, *own = record.numbers
                        # ADIOS2, when it appends, takes a number of a subfile to be less than how many there are.
                        moved = (writers, aggregators, subfiles, *(numbers[subfile] for subfile in own))
                    else:
                        place, size, *rest = record.numbers
                        moved = (metadata.tell(), size, *rest)
                        source.seek(place)
                        metadata.write(source.read(size))
                    index.write(Record(record.kind, moved).to_bytes())


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
