"""The ranks of this stage. mpi4py is imported only where there is more than one, or a launcher is at work."""

from __future__ import annotations

import os
import sys
import time
import traceback
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from workflow.stage import settings
from workflow.stage.ranks.mpmd_ranks import own_part
from workflow.stage.stage_errors import StageError, StreamTimeout

# What the launchers tell their ranks: MPICH, Cray and Slurm (PMI), PMIx, Open MPI, PALS.
_LAUNCHED = ("PMI_SIZE", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "PALS_RANKID")
_DIAGNOSIS_S = 2.0
_exit_code: int | None = None


@lru_cache(maxsize=1)
def communicator() -> Any:
    """All ranks of this stage, or None for one rank that no launcher started.

    `mpi4py.MPI.COMM_WORLD`; where one launch line starts several stages (`via: ssc`), this stage's part of it.
    With several ranks an exception that nobody catches ends all of them (with the traceback of the
    one at fault) instead of leaving the others waiting. Raises StageError when MPI's number of ranks is
    not the planned one: the program was started by a launcher of another MPI.
    """
    planned = settings.current().ranks
    if settings.current().group is not None:
        part = own_part()
        _end_together(part)
        return part
    if planned == 1 or (planned is None and not any(name in os.environ for name in _LAUNCHED)):
        return None
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if planned is not None and comm.Get_size() != planned:
        raise StageError(
            f"stage {settings.current().stage} was planned with {planned} ranks, but MPI has {comm.Get_size()}: "
            "its launcher and its mpi4py are not of the same MPI (`wf doctor` shows both)"
        )
    if comm.Get_size() > 1:
        _end_together(comm)
    return comm


def rank() -> int:
    """This process's number among the ranks of its stage."""
    comm = communicator()
    return 0 if comm is None else int(comm.Get_rank())


def size() -> int:
    """Number of ranks of this stage."""
    comm = communicator()
    return 1 if comm is None else int(comm.Get_size())


@lru_cache(maxsize=1)
def own_communicator() -> Any:
    """A duplicate of the communicator for this package's own messages; None with one rank. Collective once."""
    comm = communicator()
    return None if comm is None or comm.Get_size() == 1 else comm.Dup()


def leave_stream(error: BaseException | None) -> None:
    """Note that an exception left a stream open: should this rank exit now, the others would wait for it for ever.

    Exceptions that nobody catches end all ranks anyway; `sys.exit` says nothing, so the exit itself must.
    """
    global _exit_code
    alone = size() == 1 and settings.current().group is None
    if isinstance(error, SystemExit) and error.code and not alone:
        _exit_code = error.code if isinstance(error.code, int) else 1


def end_the_others() -> None:
    """At exit: end all ranks where `leave_stream` was told that this one left by `sys.exit`."""
    if _exit_code is not None:
        _abort(communicator(), _exit_code)


def _end_together(comm: Any) -> None:
    def print_and_abort(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        # An agreed error is raised on all ranks: rank 0 speaks for them, if it gets there.
        if getattr(error, "agreed", False) and comm.Get_rank():
            time.sleep(2.0)
        told = isinstance(error, StageError)
        text = plainly(error) if told else "".join(traceback.format_exception(kind, error, trace))
        sys.stderr.write(f"rank {comm.Get_rank()} of {comm.Get_size()}: {text}" if comm.Get_size() > 1 else text)
        if isinstance(error, StreamTimeout) and settings.current().group is not None:
            # Who is waited for is the one at fault, and the supervisor can tell while all of them live.
            time.sleep(_DIAGNOSIS_S)
        _abort(comm, 1)

    sys.excepthook = print_and_abort


def speak_plainly() -> None:
    """From now on errors of `workflow.stage` that nobody catches end the program with their message alone."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_error


def plainly(error: BaseException) -> str:
    """`error: …` and a newline; for a mistake in the program, with its place there."""
    frames = traceback.extract_tb(error.__traceback__) if type(error) is StageError else []
    package = str(Path(__file__).parent)
    places = [f" ({frame.filename}:{frame.lineno})" for frame in frames if not frame.filename.startswith(package)]
    return f"error: {error}{places[-1] if places else ''}\n"


def _print_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, StageError):
        sys.stderr.write(plainly(error))
    elif isinstance(error, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
    else:
        sys.__excepthook__(kind, error, trace)


def _abort(comm: Any, code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    # MPICH leaves its shared memory behind when it is aborted; who has it mapped keeps it.
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
            if "/dev/shm/mpich_shm_" in line:
                Path(line.split(maxsplit=5)[-1]).unlink(missing_ok=True)
    if settings.current().group is not None:
        # What started this process notes whose exit code it is, and then the launcher ends the others. MPI's own
        # Abort would end all at once, and nobody could tell who did it.
        os._exit(code)
    # Launchers do not wait for the output of ranks that they end: let them pass it on first.
    time.sleep(0.2)
    comm.Abort(code)
