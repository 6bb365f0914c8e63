"""SST's TCP connections, told to send at once.

EVPath, SST's network layer in ADIOS2 2.12.1, asks for TCP_NODELAY only `#ifdef TCP_NODELAY` and does not include the
header that defines it (thirdparty/EVPath/EVPath/cmsockets.c). Without it a second small message waits for the answer to
the first, which the other end delays: 40 ms, now and then or in every step, by whatever transport the data itself goes,
as agreeing on a step always goes by TCP.
"""

from __future__ import annotations

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
            for descriptor in _sockets():
                _send_at_once(descriptor)


def _sockets() -> list[int]:
    """The open sockets of this process; none where the system does not tell."""
    found = []
    with suppress(OSError):
        for entry in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                if entry.readlink().name.startswith("socket:"):
                    found.append(int(entry.name))
    return found


def _send_at_once(descriptor: int) -> None:
    with suppress(OSError):
        theirs = socket.socket(fileno=descriptor)
        try:
            if theirs.family in (socket.AF_INET, socket.AF_INET6) and theirs.type == socket.SOCK_STREAM:
                theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        finally:
            theirs.detach()
