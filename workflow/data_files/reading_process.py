"""Files of data are read in a process of their own: ADIOS2 and HDF5 may crash on damaged bytes, or wait for ever.

Decision 50. The process is started once for all files that a verb reads, again when it has died, and answers one call
after another. Of ADIOS2 (2.12.1) were seen, on truncated BP5: SIGSEGV and SIGABRT, and an endless wait for data that
the file does not have.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, ParamSpec, TypeVar

from workflow.errors import RunError, WfError
from workflow.own_process import code_command, set_home
from workflow.spec.user_paths import check_utf8

P = ParamSpec("P")
T = TypeVar("T")

# It asks again and again for bytes, and gets none: the end of the file is not there.
POLLING_S = 5.0
# It reads nothing, and no call of a library returns: the largest box is uncompressed in less, and a file system that is
# well has answered.
SILENT_S = 120.0
_LOOK_S = 0.1
HINT = "copy it again, or run again; what it should hold: wf report"
_PROC = Path("/proc")
_PATH_BYTES = 4096
_COUNT_BYTES = 8
_SAID_BYTES = 100_000
# Where this process notes which file it reads, if it is one that may die of it, and how many calls it has made.
_note: int | None = None
_calls = 0


class ReadingProcess:
    """Calls functions in a process that may die of what it reads: a context manager."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        # What it prints, and which file it reads.
        self._said, self._noted = _unnamed_file(), _unnamed_file()

    def __enter__(self) -> ReadingProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        os.close(self._said)
        os.close(self._noted)

    def call(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What a function of a module returns. Its arguments and its result are pickled.

        Raises:
            RunError: the process died of a file or waited for it without end: the message names the file.
            WfError: as the function raised it.
        """
        pipe = self._started()
        try:
            pipe.send((function, arguments, named))
            trouble = self._wait(pipe)
            answer = None if trouble else pipe.recv()
        except (EOFError, ConnectionError):
            trouble = ""
            answer = None
        if answer is None:
            raise RunError(f"{self._being_read()}: {self._end_of(trouble)}", HINT)
        if isinstance(answer, _Raised):
            raise answer.kind(answer.message, answer.hint)
        result: T = answer.result
        return result

    def _started(self) -> Connection:
        if self._pipe is None or self._process is None:
            self._pipe, theirs = Pipe()
            with theirs:
                os.ftruncate(self._said, 0)
                os.lseek(self._said, 0, os.SEEK_SET)
                fds = (theirs.fileno(), self._noted)
                program = f"from {__name__} import serve; serve{fds}"
                set_home()
                self._process = subprocess.Popen(
                    code_command(program), pass_fds=fds, stdin=subprocess.DEVNULL, stderr=self._said
                )
        return self._pipe

    def _wait(self, pipe: Connection) -> str:
        """Return when there is an answer or the process has ended: an empty text, or why it is waited for no longer."""
        assert self._process is not None
        seen, since, calls = _look(self._process.pid), time.monotonic(), self._calls()
        while not pipe.poll(_LOOK_S):
            now = _look(self._process.pid)
            before, calls = calls, self._calls()
            if seen is None or now is None or now.read != seen.read or calls != before:
                seen, since = now, time.monotonic()
                continue
            quiet = time.monotonic() - since
            if now.busy:  # it computes, or a disk works for it
                seen = now
            elif quiet > POLLING_S and now.calls > seen.calls + 2:
                return "its reader waited for data that the file does not contain: the file is truncated"
            if quiet > SILENT_S:
                why = "it is damaged, or its file system does not answer"
                return f"its reader has read nothing for {SILENT_S:.0f} s: {why}"
        return ""

    def _calls(self) -> bytes:
        """How many calls of a library it has begun."""
        return os.pread(self._noted, _COUNT_BYTES, _PATH_BYTES)

    def _being_read(self) -> str:
        return os.pread(self._noted, _PATH_BYTES, 0).rstrip(b"\0").decode("utf-8", "replace")

    def _end_of(self, trouble: str) -> str:
        """End the process; what has happened to it."""
        assert self._process is not None
        if trouble:
            self._end()
            return trouble
        code = self._process.wait()
        self._end()
        lines = os.pread(self._said, _SAID_BYTES, 0).decode("utf-8", "replace").split("\n")
        said = "".join(f" ({line.strip()})" for line in lines if line.strip().startswith("what():"))
        if code >= 0:
            return f"the process that read it ended with exit code {code}{said}: it is damaged"
        return f"the process that read it was ended by {signal.Signals(-code).name}{said}: it is damaged"

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


def _unnamed_file() -> int:
    file, name = tempfile.mkstemp()
    Path(name).unlink()
    return file


def note_reading(path: Path) -> None:
    """Note which file the library is given now: it may be the end of this process. Each call is a sign of progress.
    Raises WfError for a name that no library takes."""
    global _calls
    check_utf8(path)
    if _note is not None:
        _calls += 1
        count = _calls.to_bytes(_COUNT_BYTES, "little")
        os.pwrite(_note, os.fsencode(path)[:_PATH_BYTES].ljust(_PATH_BYTES, b"\0") + count, 0)


def serve(pipe: int, note: int) -> None:
    """What the process does: answer calls until nobody asks."""
    global _note
    _note = note
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Ctrl-C is for the process that asks: it ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(pipe) as asked:
        while True:
            try:
                function, arguments, named = asked.recv()
                asked.send(_answer(function, arguments, named))
            except (EOFError, ConnectionError):
                return


class _Returned(NamedTuple):
    result: Any


class _Raised(NamedTuple):
    kind: type[WfError]
    message: str
    hint: str


def _answer(function: Callable[..., Any], arguments: Any, named: Any) -> _Returned | _Raised:
    try:
        return _Returned(function(*arguments, **named))
    except WfError as error:
        return _Raised(type(error), error.message, error.hint)
    # Damaged bytes lead to errors of every kind: MemoryError, UnicodeDecodeError, IndexError.
    except Exception as error:
        assert _note is not None
        path = os.pread(_note, _PATH_BYTES, 0).rstrip(b"\0").decode("utf-8", "replace")
        return _Raised(RunError, f"{path}: cannot be read: {type(error).__name__}: {error}", HINT)


class _Look(NamedTuple):
    """Bytes that a process has read, its calls of `read`, and whether a thread of it computes or waits for a disk."""

    read: int
    calls: int
    busy: bool


def _look(pid: int) -> _Look | None:
    """None where that cannot be seen: no deadline then."""
    try:
        io = dict(line.split(": ", 1) for line in (_PROC / f"{pid}/io").read_text().split("\n") if line)
        stats = [(thread / "stat").read_text() for thread in (_PROC / f"{pid}/task").iterdir()]
    except OSError:
        return None
    return _Look(int(io["rchar"]), int(io["syscr"]), any(stat.rpartition(")")[2].split()[0] in "RD" for stat in stats))
