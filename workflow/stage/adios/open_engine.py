"""Opening an ADIOS2 engine. Waiting for the writer before that: `workflow.stage.timeouts`."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from workflow.formats.stage_file import StreamEnd
from workflow.own_process import set_home
from workflow.stage.ranks import own_communicator, size
from workflow.stage.stage_errors import StageError, StreamFailed

# Options of SST's connections. TCP_NODELAY, so that small messages are sent at once.
#
# EVPath, SST's network layer in ADIOS2 2.12.1, sets TCP_NODELAY only `#ifdef TCP_NODELAY` and does not include the
# header that defines it (thirdparty/EVPath/EVPath/cmsockets.c). Without the option a second small message waits for the
# acknowledgement of the first, which the receiver delays by 40 ms: now and then or in every step, and with every
# transport, because the control messages of a step always go by TCP.

# The numbers are Linux's: every rank would pay 2 ms for importing `socket`.
_IPPROTO_TCP, _TCP_NODELAY = 6, 1
_SOL_SOCKET, _SO_KEEPALIVE, _TCP_KEEPIDLE, _TCP_KEEPINTVL, _TCP_USER_TIMEOUT = 1, 9, 4, 5, 18


class Connections:
    """The TCP connections of this process. ADIOS2 opens them when it first needs them, so they are searched again.

    Those that were open before, such as MPI's, may be silent for as long as they like: a limit also ends a connection
    whose other side takes nothing.
    """

    def __init__(self, limit_s: float | None = None) -> None:
        self._steps = 0
        self._others: set[str] = set()
        self._limits: list[tuple[int, int, int]] = []
        if limit_s is not None:
            self._others = _descriptors()
            # The first three are for a connection over which nothing is to be sent.
            self._limits = [
                (_SOL_SOCKET, _SO_KEEPALIVE, 1),
                (_IPPROTO_TCP, _TCP_KEEPIDLE, max(1, round(limit_s / 3))),
                (_IPPROTO_TCP, _TCP_KEEPINTVL, max(1, round(limit_s / 3))),
                (_IPPROTO_TCP, _TCP_USER_TIMEOUT, round(limit_s * 1000)),
            ]

    def send_at_once(self) -> None:
        """Call once per step. Searches in the steps 0, 1, 2, 4, 8 and so on, so the cost vanishes in long runs."""
        step, self._steps = self._steps, self._steps + 1
        if step & (step - 1) == 0:
            sockets = _descriptors()
            _set_option(sockets, _IPPROTO_TCP, _TCP_NODELAY, 1)
            for limit in self._limits:
                _set_option(sockets - self._others, *limit)


def _descriptors() -> set[str]:
    """The open files of this process; none where the system does not list them."""
    with suppress(OSError):
        return {entry.name for entry in Path("/proc/self/fd").iterdir()}
    return set()


def _set_option(descriptors: Iterable[str], level: int, name: int, value: int) -> None:
    """Set an option on these open files; for an option of TCP the call fails for all that is no TCP socket.

    Through ctypes: making a Python socket of a descriptor may change whether it blocks.
    """
    set_option, number = ctypes.CDLL(None).setsockopt, ctypes.c_int(value)
    for descriptor in descriptors:
        set_option(int(descriptor), level, name, ctypes.byref(number), ctypes.sizeof(number))


def bindings() -> Any:
    """ADIOS2's low-level Python bindings: the least overhead, and the same interface in serial and MPI builds."""
    import adios2.bindings

    set_home()

    return adios2.bindings


def is_parallel() -> bool:
    """Whether every rank of this stage reads and writes by itself: several ranks, and an ADIOS2 built with MPI."""
    return size() > 1 and bool(bindings().is_built_with_mpi)


def open_engine(end: StreamEnd, mode: str) -> tuple[Any, Any, Any]:
    """(ADIOS, IO, Engine) of a stream end. Collective where ADIOS2 is parallel. `mode`: a member of adios2's Mode.

    Raises StreamFailed when the writer of an SST stream died before the connection was made, StageError when this
    ADIOS2 cannot open the stream.
    """
    adios = make_adios()
    io = declare_io(adios, end, end.port)
    return adios, io, open_path(io, end, end.path, mode)


def make_adios() -> Any:
    """ADIOS2's outermost object, for the ranks that open a stream."""
    adios2 = bindings()
    return adios2.ADIOS(own_communicator()) if is_parallel() else adios2.ADIOS()


def declare_io(adios: Any, end: StreamEnd, name: str) -> Any:
    """An IO of that name with the engine and the parameters of a stream end."""
    io = adios.DeclareIO(name)
    io.SetEngine(end.engine)
    io.SetParameters({key: str(value) for key, value in end.parameters.items()})
    return io


def open_path(io: Any, end: StreamEnd, path: str, mode: str) -> Any:
    """An engine on `path`: the stream's, or the file of one of its steps. Raises what `open_engine` raises."""
    try:
        return io.Open(path, getattr(bindings().Mode, mode))
    except (RuntimeError, ValueError) as error:
        reason = adios_message(error)
        if end.side == "read" and (suffix := end.traits.contact_suffix):
            raise StreamFailed(
                f"stream {end.stream}: the writer of {path}{suffix} does not answer: it has exited, or the file is "
                f"left over from an earlier run: {reason}"
            ) from error
        raise StageError(
            f"stream {end.stream}: ADIOS2 cannot open {path} with engine {end.engine}: {reason}"
        ) from error


def adios_message(error: BaseException) -> str:
    """ADIOS2's message without terminal colours, date and source location."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    return re.sub(r"^\[[^\]]*\]\s*\[ADIOS2 [A-Z]+\]\s*", "", text).removeprefix("ERROR: ")


def forget_contact_files() -> None:
    """Keep ADIOS2 (2.12.1) from removing the contact files of destroyed writers when the process exits.

    It would print and unlink names that it has freed already. Its list of these names is a global variable of its
    library.
    """
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        path = line.split(maxsplit=5)[-1]
        if "libadios2_core" in path:
            with suppress(OSError, ValueError):  # another version may have no such variable
                ctypes.c_void_p.in_dll(ctypes.CDLL(path), "FileNameList").value = None
                return
