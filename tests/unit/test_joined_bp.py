"""Parts of a stream as one BP5 file, on small directories made by hand: places, numbers, links, and what is refused."""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from workflow.formats.bp5_metadata import format_entry, read_formats, read_layouts, variables_of
from workflow.formats.bp_index import HEADER, STEP, WRITERS, Index, Record, read_index, read_records
from workflow.formats.joined_bp import FIRST_SUBFILE, BpPiece, JoinError, join_bp5

Fields = dict[str, tuple[str, int]]
X: Fields = {"BPG_8_10_x": ("MetaArrayMM8", 64), "BPg_time": ("float", 8)}
DATA = b"0123456789" * 1000


def make_format(fields: Fields) -> tuple[bytes, bytes]:
    """Id and description as FFS has them."""
    known = {"BitFieldCount": ("integer", 8), **fields}
    texts, places = b"MetaData\0", []
    for text in (text for name, (type_, _) in known.items() for text in (name, type_)):
        places.append(28 + 16 * len(known) + len(texts))
        texts += text.encode() + b"\0"
    described = b"".join(
        struct.pack("<4I", places[2 * n], places[2 * n + 1], size, 8 * n) for n, (_, size) in enumerate(known.values())
    )
    whole = bytes(8) + bytes(8) + struct.pack("<I", len(known)) + bytes(16) + described + texts
    return hashlib.sha256(whole).digest()[:12], whole


def make_piece(
    path: Path,
    *steps: list[Fields],
    subfiles: tuple[int, ...] = (0,),
    flushes: tuple[tuple[int, int], ...] = (),
    header: dict[int, int] | None = None,
    last: int = 2000,
) -> Path:
    """A BP5 directory with metadata of these formats, one for each writer, in each step."""
    path.mkdir()
    head = bytearray(HEADER)
    head[37:41] = (5, 2, 1, ord("n"))
    for place, value in (header or {}).items():
        head[place] = value
    formats = dict(make_format(fields) for step in steps for fields in step)
    (path / "mmd.0").write_bytes(b"".join(format_entry(*each) for each in formats.items()))
    metadata, records = b"", [Record(WRITERS, (len(subfiles), 1, max(subfiles) + 1, *subfiles))]
    for number, step in enumerate(steps):
        blocks = [make_format(fields)[0] + bytes([number] * (8 + 4 * writer)) for writer, fields in enumerate(step)]
        sizes = [len(block) for block in blocks] + [0] * len(blocks)
        whole = struct.pack(f"<Q{len(sizes)}Q", sum(sizes) + 8 * len(sizes), *sizes) + b"".join(blocks)
        own = (*(n for flush in flushes for n in flush), last + number)
        records.append(Record(STEP, (len(metadata), len(whole), len(flushes), *own * len(step))))
        metadata += whole
    (path / "md.0").write_bytes(metadata)
    (path / "md.idx").write_bytes(bytes(head) + b"".join(record.to_bytes() for record in records))
    for subfile in subfiles:
        (path / f"data.{subfile}").write_bytes(DATA)
    return path


def numbers(path: Path, kind: bytes) -> list[tuple[int, ...]]:
    return [each.numbers for each in read_records((path / "md.idx").read_bytes()[HEADER:]) if each.kind == kind]


def metadata_of(path: Path) -> list[bytes]:
    data = (path / "md.0").read_bytes()
    return [data[place : place + size] for place, size, *_ in numbers(path, STEP)]


def test_places_and_numbers(tmp_path: Path) -> None:
    a = make_piece(tmp_path / "a.bp", [X], [X], [X], flushes=((100, 50), (300, 20)))
    b = make_piece(tmp_path / "b.bp", [X, X, X], [X, X, X], subfiles=(1, 0, 1))
    # Between steps there may be what a writer left that died and went on.
    data = (b / "md.0").read_bytes()
    (place, size, *rest) = numbers(b, STEP)[1]
    (b / "md.0").write_bytes(data[:place] + b"left over" + data[place:])
    index = (b / "md.idx").read_bytes()
    whole = Record(STEP, (place, size, *rest)).to_bytes()
    (b / "md.idx").write_bytes(index.replace(whole, Record(STEP, (place + 9, size, *rest)).to_bytes()))
    before = metadata_of(a)[:2] + metadata_of(b)
    joined = tmp_path / "ab.bp"
    assert join_bp5([BpPiece(a, 2), BpPiece(b)], joined) == 4
    assert read_index(joined / "md.idx") == Index(4, False, (joined / "md.idx").stat().st_size, 3)
    index = (joined / "md.idx").read_bytes()
    first = (a / "md.idx").read_bytes()
    assert index[:39] == first[:39] and index[39] == 0 and first[39] == 1 and index[40:HEADER] == first[40:HEADER]
    assert metadata_of(joined) == before
    sizes = [len(each) for each in before]
    steps = numbers(joined, STEP)
    assert [step[:2] for step in steps] == [(sum(sizes[:n]), size) for n, size in enumerate(sizes)]
    assert (joined / "md.0").stat().st_size == sum(sizes)
    # Where data are in their subfiles is as it was.
    assert [step[2:] for step in steps] == [(2, 100, 50, 300, 20, 2000 + n) for n in range(2)] + [
        (0, *[2000 + n] * 3) for n in range(2)
    ]
    # Writers, aggregators, subfiles up to here, and each writer's.
    n = FIRST_SUBFILE
    assert numbers(joined, WRITERS) == [(1, 1, n + 1, n), (3, 1, n + 3, n + 2, n + 1, n + 2)]
    assert dict(read_formats((joined / "mmd.0").read_bytes())) == dict([make_format(X)])
    links = {path.name: str(path.readlink()) for path in joined.glob("data.*")}
    assert links == {f"data.{n}": f"{a}/data.0", f"data.{n + 1}": f"{b}/data.0", f"data.{n + 2}": f"{b}/data.1"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bp", "ab.bp", "b.bp"]


def test_a_joined_file_is_joined(tmp_path: Path) -> None:
    a = make_piece(tmp_path / "a.bp", [X, X], subfiles=(0, 2))
    b = make_piece(tmp_path / "b.bp", [X], [X])
    join_bp5([BpPiece(a), BpPiece(b, 1)], tmp_path / "ab.bp")
    join_bp5([BpPiece(tmp_path / "ab.bp"), BpPiece(b, 0), BpPiece(b)], tmp_path / "abb.bp")
    links = {path.name: str(path.readlink()) for path in (tmp_path / "abb.bp").glob("data.*")}
    files = [f"{a}/data.0", f"{a}/data.2", f"{b}/data.0", f"{b}/data.0"]
    n = FIRST_SUBFILE
    assert links == {f"data.{n + number}": file for number, file in enumerate(files)}
    assert numbers(tmp_path / "abb.bp", WRITERS) == [
        (2, 1, n + 3, n, n + 1),
        (1, 1, n + 3, n + 2),
        (1, 1, n + 4, n + 3),
    ]


def test_links_are_relative_in_the_folder_of_runs(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name in ("one/streams", "two/streams"):
        (runs / name).mkdir(parents=True)
    (runs / "latest").symlink_to("two")
    a = make_piece(runs / "one/streams/a.bp", [X])
    b = make_piece(tmp_path / "b.bp", [X])
    joined = runs / "latest/streams/a.bp"
    join_bp5([BpPiece(a), BpPiece(b)], joined, runs=runs)
    one, other = f"data.{FIRST_SUBFILE}", f"data.{FIRST_SUBFILE + 1}"
    assert str((joined / one).readlink()) == "../../../one/streams/a.bp/data.0"
    assert str((joined / other).readlink()) == f"{b}/data.0"
    runs.rename(tmp_path / "moved")
    moved = tmp_path / "moved/two/streams/a.bp"
    assert (moved / one).read_bytes() == (moved / other).read_bytes() == DATA


def test_what_is_not_whole_does_not_count(tmp_path: Path) -> None:
    a = make_piece(tmp_path / "a.bp", [X], [X], [X])
    index = (a / "md.idx").read_bytes()
    (a / "md.idx").write_bytes(index[:-1])
    (a / "mmd.0").write_bytes((a / "mmd.0").read_bytes()[:-1] + b"\0" * 18)
    with pytest.raises(JoinError, match=r"a\.bp has 2 whole steps, not 3"):
        join_bp5([BpPiece(a, 3)], tmp_path / "joined.bp")
    assert join_bp5([BpPiece(a)], tmp_path / "joined.bp") == 2


def test_a_file_without_variables_is_no_part(tmp_path: Path) -> None:
    blank = make_piece(tmp_path / "blank.bp", [{}])
    a = make_piece(tmp_path / "a.bp", [X])
    assert join_bp5([BpPiece(blank), BpPiece(a)], tmp_path / "joined.bp") == 1
    assert join_bp5([BpPiece(blank, 1), BpPiece(a)], tmp_path / "with.bp") == 2
    with pytest.raises(JoinError, match="no piece has a step"):
        join_bp5([BpPiece(blank), BpPiece(tmp_path / "missing.bp", 0)], tmp_path / "none.bp")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({37: 4}, r"b\.bp is of version 4\.2 of the BP format, not 5\.2"),
        ({38: 1}, r"b\.bp is of version 5\.1 of the BP format, not 5\.2"),
        ({37: 3}, r"b\.bp is no BP5 file: md\.idx has no header"),
        ({36: 1}, r"b\.bp was written by a big-endian machine"),
        ({40: ord("y")}, r"a\.bp and .*b\.bp differ in row-major or column-major arrays"),
        ({41: 1}, r"a\.bp and .*b\.bp differ in FlattenSteps"),
    ],
)
def test_headers_that_are_refused(change: dict[int, int], said: str, tmp_path: Path) -> None:
    a = make_piece(tmp_path / "a.bp", [X])
    b = make_piece(tmp_path / "b.bp", [X], header=change)
    with pytest.raises(JoinError, match=said):
        join_bp5([BpPiece(a), BpPiece(b)], tmp_path / "joined.bp")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bp", "b.bp"]


@pytest.mark.parametrize(
    ("file", "data", "said"),
    [
        ("md.idx", None, "is no BP5 file: md.idx cannot be read: No such file"),
        ("md.idx", b"short", "is no BP5 file: md.idx has no header"),
        ("md.0", b"\0", "md.0 is truncated"),
        ("md.0", bytes(1000), "what is in md.0 is not described in mmd.0"),
        ("mmd.0", b"", "what is in md.0 is not described in mmd.0"),
        ("data.0", None, "data.0 is missing"),
        ("data.0", DATA[:500], "data.0 is truncated"),
    ],
)
def test_files_that_are_refused(file: str, data: bytes | None, said: str, tmp_path: Path) -> None:
    a = make_piece(tmp_path / "a.bp", [X], [X])
    if data is None:
        (a / file).unlink()
    else:
        (a / file).write_bytes(data)
    with pytest.raises(JoinError, match=said):
        join_bp5([BpPiece(a, 2)], tmp_path / "joined.bp")
    assert [path.name for path in tmp_path.iterdir()] == ["a.bp"]


def test_records_that_are_refused(tmp_path: Path) -> None:
    a = make_piece(tmp_path / "a.bp", [X])
    index = (a / "md.idx").read_bytes()
    (a / "md.idx").write_bytes(index[:HEADER] + Record(b"q", (1, 2)).to_bytes() + index[HEADER:])
    with pytest.raises(JoinError, match=r"records of an unknown type in md\.idx: b'q'"):
        join_bp5([BpPiece(a)], tmp_path / "joined.bp")
    # A step whose writers are not known.
    step = read_records(index[HEADER:])[-1]
    (a / "md.idx").write_bytes(index[:HEADER] + step.to_bytes())
    with pytest.raises(JoinError, match=r"md\.idx does not say who wrote the first step"):
        join_bp5([BpPiece(a)], tmp_path / "joined.bp")
    with pytest.raises(JoinError, match=r"has 1 whole steps, not -1"):
        join_bp5([BpPiece(a, -1)], tmp_path / "joined.bp")


@pytest.mark.parametrize(
    "other",
    [
        {"BPG_8_10_x": ("MetaArrayOpMM8", 72)},
        {"BPG_8_10_x": ("MetaArray", 56)},
        {"BPG_4_9_x": ("MetaArrayMM4", 64)},
        {"BPL_8_10_x": ("MetaArrayMM8", 64)},
        {"BPg_x": ("float", 8)},
        {"BPG-4-abcd-8_10_x": ("MetaArrayMM8", 64)},
        {"BPg_time": ("float", 4)},
        {"BPg_time": ("string", 8)},
    ],
)
def test_variables_that_are_stored_otherwise(other: Fields, tmp_path: Path) -> None:
    a = make_piece(tmp_path / "a.bp", [X])
    b = make_piece(tmp_path / "b.bp", [X], [{"BPg_new": ("float", 8), **other}])
    c = make_piece(tmp_path / "c.bp", [other])
    (name,) = (name.rpartition("_")[2] for name in other)
    with pytest.raises(JoinError, match=rf"a\.bp and .*c\.bp store {name} in different ways"):
        join_bp5([BpPiece(a), BpPiece(c)], tmp_path / "joined.bp")
    # Steps that are not taken do not matter.
    assert join_bp5([BpPiece(a), BpPiece(b, 1)], tmp_path / "joined.bp") == 2


def test_writers_that_no_longer_write_what_others_do(tmp_path: Path) -> None:
    y: Fields = {"BPG_8_10_y": ("MetaArrayMM8", 64)}
    both = make_piece(tmp_path / "both.bp", [X, X], subfiles=(0, 0))
    one = make_piece(tmp_path / "one.bp", [X, y], subfiles=(0, 0))
    none = make_piece(tmp_path / "none.bp", [y, y], subfiles=(0, 0))
    with pytest.raises(JoinError, match=r"both\.bp and .*one\.bp: writer 1 writes time in the first"):
        join_bp5([BpPiece(both), BpPiece(none), BpPiece(one)], tmp_path / "joined.bp")
    # Fewer, and more; a variable that nobody writes.
    fewer = make_piece(tmp_path / "fewer.bp", [X])
    assert join_bp5([BpPiece(both), BpPiece(fewer), BpPiece(both), BpPiece(none)], tmp_path / "joined.bp") == 4


def test_nothing_is_left_where_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a = make_piece(tmp_path / "a.bp", [X])
    (tmp_path / "there.bp").symlink_to("nowhere")
    with pytest.raises(JoinError, match=r"there\.bp exists already"):
        join_bp5([BpPiece(a)], tmp_path / "there.bp")
    (tmp_path / "there.bp").unlink()

    def fail(*_: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(Path, "symlink_to", fail)
    with pytest.raises(OSError, match="no space"):
        join_bp5([BpPiece(a)], tmp_path / "joined.bp")
    assert os.listdir(tmp_path) == ["a.bp"]  # noqa: PTH208


def test_formats_and_layouts(tmp_path: Path) -> None:
    id_, format_ = make_format({**X, "BPl_rank": ("integer", 4), "BPG-8-YWJjZA==-8_10_sum_of": ("MetaArray", 56)})
    assert variables_of(format_) == {
        "x": (b"BPG_8_10_x", b"MetaArrayMM8", 64),
        "time": (b"BPg_time", b"float", 8),
        "rank": (b"BPl_rank", b"integer", 4),
        "sum_of": (b"BPG-8-YWJjZA==-8_10_sum_of", b"MetaArray", 56),
    }
    assert list(read_formats(format_entry(id_, format_) + b"\x0c")) == [(id_, format_)]
    y: Fields = {"BPG_8_10_y": ("MetaArrayMM8", 64)}
    path = make_piece(tmp_path / "a.bp", [X, y], [X, y], [y, y], subfiles=(0, 1))
    x_id, y_id = make_format(X)[0], make_format(y)[0]
    records = read_records((path / "md.idx").read_bytes()[HEADER:])
    assert read_layouts(path / "md.0", records) == [(x_id, y_id), (y_id, y_id)]
