"""What happens when a rank exits early: an uncaught exception or `sys.exit` in one rank ends all ranks of the stage."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from workflow.stage.stage_errors import RunStopped, StageError

_PACKAGE = str(Path(__file__).resolve().parent)
_RANK_0_FIRST_S = 2.0  # an agreed error: how long the other ranks leave rank 0 to print it
_FLUSH_S = 0.2
_LEAVE_S, _LEAVE_PAUSE_S, _LEAVE_TAG = 60.0, 0.01, 31999
_comm: Any = None
_has_left = False
_exit_code: int | None = None


def abort_together(comm: Any) -> None:
    """From now on an uncaught exception in any rank of `comm` ends all of them, with the traceback of that rank."""
    global _comm
    _comm = comm
    sys.excepthook = _print_and_abort


def print_plain_errors() -> None:
    """From now on an uncaught error of `workflow.stage` ends the program with its message instead of a traceback."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_error


def note_early_exit(error: BaseException | None) -> None:
    """Call when an exception leaves the `with` block of a stream.

    An uncaught exception ends all ranks through `sys.excepthook`. `sys.exit` does not call that hook, and the other
    ranks would wait for this one without limit: `abort_if_noted` ends them at exit.
    """
    global _exit_code
    if isinstance(error, SystemExit) and error.code and _comm is not None:
        _exit_code = error.code if isinstance(error.code, int) else 1


def leave_together(error: BaseException | None, limit_s: float | None = None) -> None:
    """Call before a stream is closed because of an exception: closing waits for all ranks. Where not all of them leave
    it by `sys.exit(0)` within `limit_s` (default: 60 s), the others would wait for this one without limit: then this
    ends all of them.

    By messages between ranks: the others may be inside a collective call of the same communicator.
    """
    global _has_left
    is_exit = isinstance(error, SystemExit) and not error.code and not isinstance(error, RunStopped)
    if not is_exit or _comm is None or _comm.Get_size() == 1 or _has_left:
        return
    rank, size, deadline = _comm.Get_rank(), _comm.Get_size(), time.monotonic() + (limit_s or _LEAVE_S)
    if rank:
        _comm.send(None, dest=0, tag=_LEAVE_TAG)
    for source in [0] if rank else range(1, size):
        while not _comm.iprobe(source=source, tag=_LEAVE_TAG):
            if time.monotonic() > deadline:
                sys.stderr.write(
                    f"error: rank {rank} of {size} left a stream by `sys.exit(0)`, and rank {source} did not: all "
                    "ranks must leave it at the same step and in the same way\n"
                )
                _abort(1)
            time.sleep(_LEAVE_PAUSE_S)
        _comm.recv(source=source, tag=_LEAVE_TAG)
    for other in () if rank else range(1, size):
        _comm.send(None, dest=other, tag=_LEAVE_TAG)
    _has_left = True  # of several streams the first one tells


def abort_if_noted() -> None:
    """At exit: end all ranks where `note_early_exit` saw this rank leave a stream by `sys.exit`."""
    if _exit_code is not None:
        _abort(_exit_code)


def plain_message(error: BaseException, rank: str = "") -> str:
    """`error: …` and a newline; for a mistake in the program, with the file and line of the call.

    The form is that of all messages of `wf`; `rank` is empty, or says which one prints it.
    """
    import traceback  # only a failing program pays for the import

    frames = traceback.extract_tb(error.__traceback__) if type(error) is StageError else []
    places = [f"{frame.filename}:{frame.lineno}: " for frame in frames if not frame.filename.startswith(_PACKAGE)]
    return f"error: {places[-1] if places else ''}{rank}{error}\n"


def _print_and_abort(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    rank, size = _comm.Get_rank(), _comm.Get_size()
    if getattr(error, "agreed", False) and rank:
        time.sleep(_RANK_0_FIRST_S)
    import traceback

    who = f"rank {rank} of {size}: " if size > 1 else ""
    if isinstance(error, StageError):
        sys.stderr.write(plain_message(error, who))
    else:
        sys.stderr.write(who + "".join(traceback.format_exception(kind, error, trace)))
    _abort(1)


def _print_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, StageError):
        sys.stderr.write(plain_message(error))
    elif isinstance(error, KeyboardInterrupt):
        sys.stderr.write("note: interrupted\n")
    else:
        sys.__excepthook__(kind, error, trace)


def _abort(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    # An aborted MPICH leaves its shared memory segments behind; ranks that have mapped them keep them.
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
            if "/dev/shm/mpich_shm_" in line:
                Path(line.split(maxsplit=5)[-1]).unlink(missing_ok=True)
    # A launcher drops the output of ranks that it kills: leave it time to pass the output on.
    time.sleep(_FLUSH_S)
    _comm.Abort(code)
