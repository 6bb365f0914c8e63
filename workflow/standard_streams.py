"""Standard input, output and error as the caller has left them: closed, full, or a terminal that is gone.

What is printed for people never decides over work that is done. `keep_writable` is called once, where a program of `wf`
begins (`program_start`); from then on what cannot be written is dropped, and `output_fault` says why.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import select
import sys
from typing import TextIO

from workflow.errors import EXIT_OK, WfError

_ERRORS = "workflow.standard_streams"
_faults: dict[str, OSError] = {}


def keep_writable(only_prints: bool = False) -> None:
    """Open what is closed on /dev/null, so that no other file gets descriptor 0, 1 or 2, and replace `sys.stdout` and
    `sys.stderr` by streams whose writes do not fail. Those that somebody has replaced already are left alone.

    `only_prints`: what this program prints is all that it does. Where standard output cannot be written it ends: with a
    WfError, and without a word where the reader of a pipe has left.
    """
    closed = [descriptor for descriptor in range(3) if not _is_open(descriptor)]
    for _ in closed:
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free
    codecs.register_error(_ERRORS, _bytes_or_question_mark)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _kept(sys.stdout, sys.__stdout__, _Kept(1, "standard output", 1 in closed, only_prints))
    sys.stderr = _kept(sys.stderr, sys.__stderr__, _Kept(2, "standard error", 2 in closed))


def output_fault() -> str:
    """Why something that was printed was lost: `standard output cannot be written: No space left on device`; empty
    where nothing was. A pipe that its reader has left is no fault: it has seen what it wanted."""
    faults = [(name, error) for name, error in _faults.items() if error.errno != errno.EPIPE]
    return "; ".join(f"{name} cannot be written: {error.strerror}" for name, error in faults)


def is_lost(stream: TextIO) -> bool:
    """Whether nobody can read what is written to this stream any more."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return isinstance(raw, _Kept) and raw.is_lost


def drop_output(descriptor: int) -> None:
    """From now on what is written to this descriptor goes nowhere."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def _kept(stream: TextIO | None, at_start: TextIO | None, file: _Kept) -> TextIO:
    """A stream in place of `stream`; `stream` itself where it is not the one that Python has opened."""
    if stream is None:
        return io.TextIOWrapper(io.BufferedWriter(file), "utf-8", _ERRORS, line_buffering=True)
    if stream is not at_start or not isinstance(stream, io.TextIOWrapper):
        return stream
    by_line = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(io.BufferedWriter(file), stream.encoding, _ERRORS, line_buffering=by_line)


class _Kept(io.FileIO):
    """A descriptor whose first failed write is kept as its fault; from then on it is /dev/null."""

    def __init__(self, descriptor: int, name: str, was_closed: bool, is_needed: bool = False) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._called, self._was_closed, self._is_needed = name, was_closed, is_needed
        self.is_lost = False

    def write(self, data: object) -> int:
        """As that of a file; it does not fail."""
        view = memoryview(data).cast("B")  # type: ignore[arg-type]
        if self._was_closed and not self.is_lost:
            self._lose(OSError(errno.EBADF, "it is closed"))
        while not self.is_lost:
            try:
                if (count := super().write(view)) is not None:
                    return count
                # Somebody else has made the pipe or the terminal non-blocking.
                select.select([], [self], [])
            except OSError as error:
                self._lose(error)
        return len(view)

    def _lose(self, error: OSError) -> None:
        self.is_lost = True
        _faults.setdefault(self._called, error)
        with contextlib.suppress(OSError):
            drop_output(self.fileno())
        if self._is_needed:
            raise SystemExit(EXIT_OK) if error.errno == errno.EPIPE else WfError(output_fault())


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _bytes_or_question_mark(error: UnicodeError) -> tuple[bytes | str, int]:
    """Bytes of a path that are no text as they are; characters that the encoding lacks as `?`."""
    assert isinstance(error, UnicodeEncodeError)
    codes = [ord(character) for character in error.object[error.start : error.end]]
    return bytes(code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else ord("?") for code in codes), error.end
