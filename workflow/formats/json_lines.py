"""Files of JSON lines that one process appends to while others read them, or that a killed process has left."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from workflow.formats.read_json import read_json

# So many lines wait in memory for a file that cannot be written; then the oldest are dropped, and counted.
KEPT_LINES = 1000
# No record is longer.
LONGEST_LINE = 16 * 1024**2


@dataclass(frozen=True)
class JsonLines:
    """The records of a file in order, and how many lines could not be read."""

    records: list[dict[str, Any]] = field(default_factory=list)
    unreadable: int = 0
    exists: bool = True


def read_json_lines(path: Path, *, infinity: bool = False) -> JsonLines:
    """All whole records of a file of JSON lines; a missing file holds none. `infinity`: as in `read_json`.

    A last line without its newline is still being written (or its writer was killed) and does not count
    as unreadable; any other line that is not a JSON object does.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return JsonLines(exists=False)
    lines = data.split(b"\n")
    records, unreadable = [], 0
    for position, line in enumerate(lines):
        if not line.strip():
            continue
        record = to_record(line, infinity=infinity)
        if record is not None:
            records.append(record)
        elif position < len(lines) - 1:
            unreadable += 1
    return JsonLines(records, unreadable)


def to_record(line: str | bytes, *, infinity: bool = False) -> dict[str, Any] | None:
    """The JSON object of a line; None when the line is anything else."""
    try:
        record = read_json(line, infinity=infinity)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def append_record(path: Path, record: Mapping[str, Any]) -> None:
    """Append a record in one write, so that several writers leave whole lines. Raises OSError, also where only a part
    of it could be written."""
    data = f"{json.dumps(record)}\n".encode()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        if os.write(file, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(file)  # on NFS the error of the write may come here


def append_to_disk(path: Path, record: Mapping[str, Any] | Sequence[Any]) -> None:
    """Append a record to a file that has one writer. When this returns the record is on the disk, as a whole.

    A last line that a killed writer has left in part is removed.

    Raises:
        OSError: it is not on the disk; the file has the records that it had before.
    """
    is_new = not path.exists()
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        size = _mend_last_line(file)
        rest = f"{json.dumps(record)}\n".encode()
        try:
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(file, size)
            raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(file)
    if is_new:
        _sync_folder(path.parent)


def _mend_last_line(file: int) -> int:
    """Remove a last line that is there in part, or add the newline that it lacks. Returns the size of the file."""
    size = os.fstat(file).st_size
    if not size or os.pread(file, 1, size - 1) == b"\n":
        return size
    data = os.pread(file, size, 0)
    whole = data.rfind(b"\n") + 1
    if _is_json(data[whole:]):  # readers count it as a record already
        return size + os.write(file, b"\n")
    os.ftruncate(file, whole)
    return whole


def _is_json(line: bytes) -> bool:
    try:
        read_json(line)
    except ValueError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Make sure that the name of a new file is on the disk, where the file system knows that for folders."""
    with contextlib.suppress(OSError):
        file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def _read_block(file: BinaryIO) -> bytes:
    try:
        return file.read(LONGEST_LINE)
    except OSError:
        return b""


@dataclass
class Tail:
    """The new whole lines of a growing file."""

    path: Path
    offset: int = 0
    _is_cut: bool = False  # whether what follows is the rest of a line that is too long

    def read(self, *, fresh: bool = False) -> str:
        """What was added since the last call, up to the last newline; "" when nothing was.

        `fresh`: do not believe the size that the system remembers. Opening a file asks an NFS server for its size,
        `stat` alone does not.
        """
        try:
            if not fresh and self.path.stat().st_size <= self.offset:
                return ""
            with self.path.open("rb") as file:
                file.seek(self.offset)
                return b"".join(self._whole_lines(file)).decode("utf-8", errors="replace")
        except OSError:
            return ""

    def _whole_lines(self, file: BinaryIO) -> Iterator[bytes]:
        """What is there up to the last newline, without lines that are longer than any record: a program may print
        without an end. Where a later block cannot be read now, the lines before it are not lost."""
        while data := _read_block(file):
            end = data.rfind(b"\n") + 1
            if end:
                self.offset += end
                yield data[data.find(b"\n") + 1 if self._is_cut else 0 : end]
                self._is_cut = False
                file.seek(self.offset)
            if len(data) < LONGEST_LINE:
                return
            if not end:
                self.offset += len(data)
                self._is_cut = True

    def records(self, *, fresh: bool = False) -> Iterator[dict[str, Any]]:
        """The new lines as records; lines that are not JSON objects are left out."""
        for line in self.read(fresh=fresh).split("\n"):
            if (record := to_record(line)) is not None:
                yield record


class LineWriter:
    """Appends lines to a file, each in one write: readers and crashes do not see half of one.

    No error of the file system is raised: a run does not fail because its records cannot be written. Lines that could
    not be written wait, up to `KEPT_LINES`, and are tried again before the next one; `report` is called once, with the
    first error. When lines were dropped, `to_note(how many)` is the line that is written as soon as that is possible.
    """

    def __init__(self, path: Path, report: Callable[[OSError], None], to_note: Callable[[int], str]) -> None:
        self.path = path
        self.dropped = 0
        self._report, self._to_note = report, to_note
        self._reported = False
        self._file: int | None = None
        self._waiting: deque[bytes] = deque()
        self._open()

    @property
    def is_behind(self) -> bool:
        """Whether lines wait for the file."""
        return bool(self._waiting)

    def append(self, line: str) -> None:
        """Write one line, with its newline, after those that wait."""
        data = line.encode()
        if not self._waiting and self._file is not None and not self.dropped:
            data = data[self._write(data) :]  # nearly always all of it: this runs at every step
            if not data:
                return
        self._waiting.append(data)
        self.flush()
        if len(self._waiting) > KEPT_LINES:
            del self._waiting[1]  # the first one may be in the file in part
            self.dropped += 1

    def flush(self) -> None:
        """Try to write the lines that wait."""
        self._open()
        while self._waiting and (written := self._write(self._waiting[0])):
            if written < len(self._waiting[0]):
                self._waiting[0] = self._waiting[0][written:]
                continue
            self._waiting.popleft()
            if self.dropped:
                self._waiting.appendleft(self._to_note(self.dropped).encode())
                self.dropped = 0

    def sync(self) -> bool:
        """Whether all lines are in the file, and the file is on its disk: then every reader finds them."""
        self.flush()
        if self._waiting or self._file is None:
            return False
        try:
            os.fsync(self._file)
        except OSError as error:
            self.note_error(error)
            return False
        return True

    def close(self) -> None:
        """Try once more to write what waits, and close the file."""
        self.flush()
        if self._file is not None:
            try:
                os.close(self._file)
            except OSError as error:  # on NFS the error of a write may come here
                self.note_error(error)
        self._file = None

    def note_error(self, error: OSError) -> None:
        """Report an error, unless one has been reported."""
        if not self._reported:
            self._reported = True
            self._report(error)

    def _open(self) -> None:
        if self._file is None:
            try:
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            except OSError as error:
                self.note_error(error)

    def _write(self, data: bytes) -> int:
        """How many bytes could be written."""
        if self._file is None:
            return 0
        try:
            return os.write(self._file, data)
        except OSError as error:
            self.note_error(error)
            return 0
