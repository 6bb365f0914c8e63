"""SST's TCP connections, told to send at once.

EVPath, SST's network layer in ADIOS2 2.12.1, asks for TCP_NODELAY only `#ifdef TCP_NODELAY` and does not include the
header that defines it (thirdparty/EVPath/EVPath/cmsockets.c). Without it a second small message waits for the answer to
the first, which the other end delays: 40 ms, now and then or in every step, by whatever transport the data itself goes,
as agreeing on a step always goes by TCP.
"""

from __future__ import annotations

import ctypes
import socket
from contextlib import suppress
from pathlib import Path


class Connections:
    """Those of this process, looked at again and again, as ADIOS2 makes them when it first needs them."""

    def __init__(self) -> None:
        self._turn = 0

    def send_at_once(self) -> None:
        """Call once a step. Looks in the steps 0, 1, 2, 4, 8 and so on, so that it costs nothing in the long run."""
        turn, self._turn = self._turn, self._turn + 1
        if turn & (turn - 1) == 0:
            _tell_all()


def _tell_all() -> None:
    """Where the system does not list what is open there is nothing to do.

    Not by Python's sockets: making one of a descriptor may change whether it blocks.
    """
    set_option, yes = ctypes.CDLL(None).setsockopt, ctypes.c_int(1)
    with suppress(OSError):
        for entry in Path("/proc/self/fd").iterdir():
            # Refused by all that is not a TCP socket.
            set_option(int(entry.name), socket.IPPROTO_TCP, socket.TCP_NODELAY, ctypes.byref(yes), ctypes.sizeof(yes))
