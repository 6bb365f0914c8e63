"""Appending lines to a file that cannot always be written, and reading files that grow."""

from __future__ import annotations

import errno
import io
import itertools
import json
import multiprocessing
import os
import resource
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from workflow.formats import json_lines
from workflow.formats.json_lines import LineWriter, Tail, append_record, append_to_disk, read_json_lines
from workflow.replace_file import create_whole


def in_another_process(what: Callable[[Path], None], folder: Path) -> None:
    """Limits on the size of files hold for a process: not for the one that runs the tests."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        pool.submit(what, folder).result()


def limit(nbytes: int) -> None:
    """No file of this process can be longer: the system then refuses to write, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, resource.RLIM_INFINITY))


def make_writer(path: Path) -> tuple[LineWriter, list[str]]:
    errors: list[str] = []
    writer = LineWriter(path, lambda error: errors.append(str(error.strerror)), lambda count: f'{{"lost": {count}}}\n')
    return writer, errors


def test_a_full_disk_raises_nothing_and_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "lines").symlink_to("/dev/full")
    writer, errors = make_writer(tmp_path / "lines")
    for number in range(5):
        writer.append(f"{number}\n")
    writer.close()
    assert errors == ["No space left on device"]
    assert writer.is_behind


def test_a_file_that_cannot_be_opened_raises_nothing(tmp_path: Path) -> None:
    writer, errors = make_writer(tmp_path / "none" / "lines")
    writer.append("1\n")
    (tmp_path / "none").mkdir()
    writer.append("2\n")
    assert (tmp_path / "none" / "lines").read_text() == "1\n2\n"
    assert len(errors) == 1


def write_with_a_gap(folder: Path) -> None:
    writer, errors = make_writer(folder / "lines")
    limit(250)
    for number in range(40):
        writer.append(json.dumps({"number": number}) + "\n")
    assert (folder / "lines").stat().st_size == 250, "the last line has been written in part"
    limit(resource.RLIM_INFINITY)
    writer.append(json.dumps({"number": 40}) + "\n")
    assert len(errors) == 1


def test_nothing_is_missing_when_there_is_space_again(tmp_path: Path) -> None:
    in_another_process(write_with_a_gap, tmp_path)
    found = read_json_lines(tmp_path / "lines")
    assert [record["number"] for record in found.records] == list(range(41))
    assert found.unreadable == 0


def write_with_a_long_gap(folder: Path) -> None:
    json_lines.KEPT_LINES = 10
    writer, _ = make_writer(folder / "lines")
    limit(250)
    for number in range(100):
        writer.append(json.dumps({"number": number}) + "\n")
    limit(resource.RLIM_INFINITY)
    writer.append(json.dumps({"number": 100}) + "\n")


def test_what_had_to_be_dropped_is_counted(tmp_path: Path) -> None:
    in_another_process(write_with_a_long_gap, tmp_path)
    found = read_json_lines(tmp_path / "lines")
    numbers = [record["number"] for record in found.records if "number" in record]
    (lost,) = [record["lost"] for record in found.records if "lost" in record]
    assert len(numbers) + lost == 101
    assert numbers[-9:] == list(range(92, 101)), "the newest lines are kept"
    assert found.unreadable == 0


def test_tail_gives_whole_lines_once(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "log")
    assert tail.read() == ""
    (tmp_path / "log").write_bytes(b"one\ntw")
    assert tail.read() == "one\n"
    assert tail.read() == ""
    with (tmp_path / "log").open("ab") as file:
        file.write(b"o\n\xff\n")
    assert tail.read() == "two\n�\n"


def test_tail_asks_again_where_the_system_remembers_an_old_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an NFS client does: `stat` gives what it remembers, opening a file asks the server."""
    path = tmp_path / "log"
    path.write_text("one\n")
    old = path.stat()
    tail = Tail(path)
    assert tail.read() == "one\n"
    path.write_text("one\ntwo\n")
    monkeypatch.setattr(Path, "stat", lambda _: old)
    assert tail.read() == ""
    assert tail.read(fresh=True) == "two\n"


def append_to_a_full_disk(folder: Path) -> None:
    append_to_disk(folder / "records", {"id": "a"})
    limit(len('{"id": "a"}') + 6)
    with pytest.raises(OSError, match="records"):
        append_to_disk(folder / "records", {"id": "b"})
    with pytest.raises(OSError, match="No space left"):
        append_record(folder / "requests", {"id": "b, which is longer"})


def test_a_record_is_on_the_disk_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    in_another_process(append_to_a_full_disk, tmp_path)
    append_to_disk(tmp_path / "records", ["c"])
    assert (tmp_path / "records").read_text() == '{"id": "a"}\n["c"]\n'


def test_a_record_that_the_disk_does_not_take_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "records"
    append_to_disk(file, {"id": "a"})

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        append_to_disk(file, {"id": "b"})
    assert file.read_text() == '{"id": "a"}\n'


@pytest.mark.parametrize(("left", "expected"), [('{"id": "x', ""), ('{"id": "x"}', '{"id": "x"}\n')])
def test_a_last_line_that_a_killed_writer_has_left_is_mended(left: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "records"
    file.write_text('{"id": "a"}\n' + left)
    append_to_disk(file, {"id": "b"})
    assert file.read_text() == '{"id": "a"}\n' + expected + '{"id": "b"}\n'


def test_a_line_without_an_end_costs_no_memory_and_hides_nothing(tmp_path: Path) -> None:
    """As a program prints that draws a bar, into a file that the supervisor follows."""
    path = tmp_path / "log"
    path.write_text('{"a": 1}\n')
    os.truncate(path, 200_000_000)
    tail = Tail(path)
    tracemalloc.start()
    assert list(tail.records()) == [{"a": 1}]
    assert tail.read() == ""
    with path.open("a") as file:
        file.write('the rest\n{"a": 2}\n{"a": 3')
    assert list(tail.records()) == [{"a": 2}]
    with path.open("a") as file:
        file.write("}\n")
    assert list(tail.records()) == [{"a": 3}]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000_000


def test_lines_before_a_block_that_cannot_be_read_now_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "LONGEST_LINE", 8)
    (tmp_path / "lines").write_text("first\nsecond\nthird\n")
    reads = itertools.count()

    class Stale(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if next(reads) == 1:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            return super().read(size)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", lambda path, mode: Stale(path, mode))
        tail = Tail(tmp_path / "lines")
        assert (tail.read(), tail.read()) == ("first\n", "second\nthird\n")


def test_a_file_that_is_created_whole_is_there_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there are no hard links, and the file system fails just then; two hosts may have the same ids."""
    path = tmp_path / "lease"
    tried: list[str] = []

    def refuse(source: Path, _: Path) -> None:
        tried.append(source.name)
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    def fail(_: Path, target: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(target))

    monkeypatch.setattr(os, "link", refuse)
    with monkeypatch.context() as broken, pytest.raises(OSError, match="Input/output error"):
        broken.setattr(Path, "replace", fail)
        create_whole(path, b"text")
    assert list(tmp_path.iterdir()) == []
    create_whole(path, b"text")
    with pytest.raises(FileExistsError):
        create_whole(path, b"other")
    assert path.read_bytes() == b"text" and [each.name for each in tmp_path.iterdir()] == ["lease"]
    assert all(os.uname().nodename in name for name in tried), tried
