"""TCP_NODELAY for SST's connections, so that small messages are sent at once.

EVPath, SST's network layer in ADIOS2 2.12.1, sets TCP_NODELAY only `#ifdef TCP_NODELAY` and does not include the
header that defines it (thirdparty/EVPath/EVPath/cmsockets.c). Without the option a second small message waits for the
acknowledgement of the first, which the receiver delays by 40 ms: now and then or in every step, and with every
transport, because the control messages of a step always go by TCP.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path

_IPPROTO_TCP, _TCP_NODELAY = 6, 1  # on Linux; every rank would pay 2 ms for importing `socket`


class Connections:
    """The TCP connections of this process. ADIOS2 opens them when it first needs them, so they are searched again."""

    def __init__(self) -> None:
        self._steps = 0

    def send_at_once(self) -> None:
        """Call once per step. Searches in the steps 0, 1, 2, 4, 8 and so on, so the cost vanishes in long runs."""
        step, self._steps = self._steps, self._steps + 1
        if step & (step - 1) == 0:
            _set_nodelay()


def _set_nodelay() -> None:
    """Set the option on all open TCP sockets; does nothing where the system does not list open files.

    Through ctypes: making a Python socket of a descriptor may change whether it blocks.
    """
    set_option, yes = ctypes.CDLL(None).setsockopt, ctypes.c_int(1)
    with suppress(OSError):
        for entry in Path("/proc/self/fd").iterdir():
            # The call fails for everything that is not a TCP socket.
            set_option(int(entry.name), _IPPROTO_TCP, _TCP_NODELAY, ctypes.byref(yes), ctypes.sizeof(yes))
