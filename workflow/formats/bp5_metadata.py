"""What the metadata of a BP5 file describe: `mmd.0` has the formats, `md.0` the metadata of each writer and step.

ADIOS2 2.12.1 encodes metadata with FFS (thirdparty/ffs): a format is the layout of a struct with a field for each
variable, by an id that is a hash of it, and what is encoded begins with that id. A writer whose steps get more
variables takes another format, in which those that it had keep their places.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from workflow.formats.bp_index import BP5, HEADER, STEP, VERSION, WRITERS, Record, newest_steps, places_of

_ENTRY = struct.Struct("<2Q")
_ID = 12  # bytes
# In what is encoded: the id, lengths, then the struct, whose third field is the size of the data.
_DATA_SIZE = 40
# fm/fm_internal.h: a format is a header, the description of its struct with the fields, and those of inner structs.
_STRUCT, _FIELD_COUNT, _FIELDS = 8, 16, 36
_FIELD = struct.Struct("<4I")
# toolkit/format/bp5/BP5Serializer.cpp: kind of shape, of arrays an expression, the size and the type, then the name.
_VARIABLE = re.compile(rb"BP(?:[gl]_|[GLJ](?:_|-\d+-[^-]*-)\d+_\d+_)(.*)", re.DOTALL)

# How a variable is in the metadata: name, type and size of its field.
Field = tuple[bytes, bytes, int]


def read_formats(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Id and description of each format in mmd.0, but for one that was not written whole."""
    end = 0
    while end + _ENTRY.size <= len(data):
        id_size, size = _ENTRY.unpack_from(data, end)
        begin = end + _ENTRY.size
        end = begin + id_size + size
        if end <= len(data):
            yield data[begin : begin + id_size], data[begin + id_size : end]


def format_entry(id_: bytes, format_: bytes) -> bytes:
    """A format as it is in mmd.0."""
    return _ENTRY.pack(len(id_), len(format_)) + id_ + format_


def read_layouts(metadata: Path, records: Sequence[Record]) -> list[tuple[bytes, ...]]:
    """Ids of the formats of all writers in a step; each combination once.

    In md.0, a step has its size, the sizes of the metadata and of the attributes of each writer, then all those.
    """
    found: dict[tuple[bytes, ...], None] = {}
    writers = 0
    with metadata.open("rb") as file:
        for kind, numbers in records:
            if kind == WRITERS:
                writers = numbers[0]
            if kind != STEP:
                continue
            file.seek(numbers[0])
            data = file.read(numbers[1])
            found[tuple(data[begin : begin + _ID] for begin in _begins(data, writers))] = None
    return list(found)


def _begins(data: bytes, writers: int) -> Iterator[int]:
    """Where the metadata of each writer begin in those of a step."""
    sizes = struct.unpack_from(f"<{writers}Q", data, 8)
    begins = accumulate(sizes, initial=8 + 16 * writers)
    return (begin for begin, _ in zip(begins, sizes, strict=False))


def whole_steps(folder: Path) -> int:
    """How many steps of a BP5 file, from the first on, are there with all their metadata and data.

    After a power cut the index may name steps of which a part was never written: ADIOS2 (2.12.1) waits without a limit
    for data that are not there. All is appended: before the newest data that are there in a file, none are missing.

    Raises OSError, and ValueError for a file that is not BP5.
    """
    known = {id_ for id_, _ in read_formats((folder / "mmd.0").read_bytes())}
    sizes = {path.name: path.stat().st_size for path in folder.glob("data.*")}
    index = (folder / "md.idx").read_bytes()
    if len(index) < HEADER or index[VERSION] != BP5:
        raise ValueError(f"{folder} is no BP5 file")
    found = None
    checked: set[int] = set()  # subfiles of which the newest data are there
    with (folder / "md.0").open("rb") as file:
        for steps, subfiles, (_, numbers) in newest_steps(index[HEADER:]):
            if not subfiles:
                raise ValueError(f"{folder}: md.idx does not say who wrote step {steps - 1}")
            file.seek(numbers[0])
            metadata = file.read(numbers[1])
            if len(metadata) < numbers[1]:
                found = steps - 1
                continue
            ends = list(zip(subfiles, _ends_of_data(metadata, numbers, len(subfiles)), strict=True))
            if not all(id_ in known and sizes.get(f"data.{number}", 0) >= end for number, (id_, end) in ends):
                found = steps - 1
                continue
            found = steps if found is None else found
            checked |= {number for number, (_, end) in ends if end}
            if checked >= {*subfiles}:
                break
    return found or 0


def _ends_of_data(data: bytes, numbers: Sequence[int], writers: int) -> Iterator[tuple[bytes, int]]:
    """For each writer the id of its format, and where in its subfile the data of the step end; 0: it has none."""
    for writer, begin in enumerate(_begins(data, writers)):
        flushes, (place,) = places_of(numbers, writer)
        # All that the writer put in this step; what was flushed before its end comes first.
        (total,) = struct.unpack_from("<Q", data, begin + _DATA_SIZE)
        blocks = [*flushes, (place, total - sum(size for _, size in flushes))]
        yield data[begin : begin + _ID], max((at + size for at, size in blocks if size > 0), default=0)


def variables_of(format_: bytes) -> dict[str, Field]:
    """The variables whose metadata have this format."""
    found: dict[str, Field] = {}
    (count,) = struct.unpack_from("<I", format_, _FIELD_COUNT)
    for name_at, type_at, size, _ in _FIELD.iter_unpack(format_[_FIELDS : _FIELDS + count * _FIELD.size]):
        name, type_ = (format_[_STRUCT + at : format_.index(b"\0", _STRUCT + at)] for at in (name_at, type_at))
        if match := _VARIABLE.fullmatch(name):
            found[match[1].decode(errors="replace")] = name, type_, size
    return found
