"""Opening an ADIOS2 engine: waiting for the other end, and what is said when it does not come."""

from __future__ import annotations

import ctypes
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from workflow.formats.stage_file import StreamEnd
from workflow.stage.ranks.communicator import communicator, own_communicator, size
from workflow.stage.stage_errors import StageError, StreamFailed, StreamTimeout

_POLL_S = 0.01


def bindings() -> Any:
    """ADIOS2's own Python layer: the thinnest, and the same in its serial and its MPI build."""
    import adios2.bindings

    return adios2.bindings


def is_parallel() -> bool:
    """Whether every rank of this stage reads and writes by itself: several ranks and an ADIOS2 built with MPI."""
    return size() > 1 and bool(bindings().is_built_with_mpi)


def open_engine(end: StreamEnd, mode: str) -> tuple[Any, Any, Any]:
    """(ADIOS, IO, Engine) of an end; collective where ADIOS2 is parallel. `mode`: a member of adios2's Mode.

    Raises StreamTimeout when there is nothing to read within the end's `open_timeout_s`, StreamFailed when
    the writer vanished meanwhile, StageError when this ADIOS2 cannot open it.
    """
    adios2 = bindings()
    if end.engine.upper() == "SSC":
        if not adios2.is_built_with_mpi:
            raise StageError(
                f"stream {end.stream}: this Python's ADIOS2 has no MPI, and SSC needs it: `make adios2-mpi` builds "
                "one, then run `.venv-mpi/bin/wf`"
            )
        adios = adios2.ADIOS(own_communicator() or communicator())
    else:
        adios = adios2.ADIOS(own_communicator()) if is_parallel() else adios2.ADIOS()
    io = adios.DeclareIO(end.port)
    io.SetEngine(end.engine)
    io.SetParameters({key: str(value) for key, value in end.parameters.items()})
    try:
        return adios, io, io.Open(end.path, getattr(adios2.Mode, mode))
    except (RuntimeError, ValueError) as error:
        reason = plain(error)
        if end.side == "read" and end.engine.upper() == "SST":
            raise StreamFailed(
                f"stream {end.stream}: its writer was there ({end.path}.sst) but has gone, or was left behind by "
                f"an earlier run: {reason}"
            ) from error
        raise StageError(
            f"stream {end.stream}: ADIOS2 cannot open {end.path} with engine {end.engine}: {reason}"
        ) from error


def wait_for_writer(end: StreamEnd) -> None:
    """Return when there is something to open. Raises StreamTimeout after the end's `open_timeout_s`.

    ADIOS2 would wait too, but deaf to Ctrl-C, an hour for a file, and it polls more slowly.
    """
    awaited = awaited_path(end)
    deadline = time.monotonic() + end.open_timeout_s
    while awaited is not None and not _has_content(awaited):
        if time.monotonic() >= deadline:
            if end.open_timeout_s == 0:
                raise StreamFailed(f"stream {end.stream}: there is no {end.path}")
            limit = f"within {end.open_timeout_s:g} s"
            raise StreamTimeout(f"stream {end.stream}: no writer has opened {end.path} {limit}")
        time.sleep(_POLL_S)


def _has_content(path: Path) -> bool:
    """ADIOS2 makes its files first and fills them then."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def awaited_path(end: StreamEnd) -> Path | None:
    """The file whose presence tells that the writer has opened this stream; None where no file tells."""
    engine, path = end.engine.upper(), Path(end.path)
    if engine == "SST":
        by_file = end.parameters.get("RegistrationMethod", "File").lower() == "file"
        return Path(f"{end.path}.sst") if by_file else None
    if engine == "SSC":
        return None
    return path / "md.idx" if engine in ("BP5", "BP4") else path


def plain(error: BaseException) -> str:
    """ADIOS2's message without its colours, date and origin."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    return re.sub(r"^\[[^\]]*\]\s*\[ADIOS2 [A-Z]+\]\s*", "", text).removeprefix("ERROR: ")


def forget_contact_files() -> None:
    """Keep ADIOS2 (2.12.1) from removing the contact files of destroyed writers when the process exits.

    It would print and unlink names that it has freed already. Its list of them is a global variable of its library.
    """
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        path = line.split(maxsplit=5)[-1]
        if "libadios2_core" in path:
            with suppress(OSError, ValueError):  # another version may have no such variable
                ctypes.c_void_p.in_dll(ctypes.CDLL(path), "FileNameList").value = None
                return
