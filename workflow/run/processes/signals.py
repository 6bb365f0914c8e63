"""Ctrl-C, termination requests and lost terminals, as bytes on a descriptor instead of exceptions."""

from __future__ import annotations

import os
import signal
import threading
from types import TracebackType
from typing import Any

HEARD = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Signals:
    """A context manager: inside it these signals arrive at `descriptor`; outside all is as before.

    Only the main thread can listen to signals; in another one this hears nothing.
    """

    def __init__(self) -> None:
        self.descriptor, self._wakeup = os.pipe()
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Signals:
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._wakeup, False)
        if threading.current_thread() is threading.main_thread():
            # The wakeup descriptor hears of every signal that has a Python handler, hence these.
            heard = [number for number in HEARD if signal.getsignal(number) is not signal.SIG_IGN]  # as under nohup
            self._before = {number: signal.signal(number, _ignore) for number in heard}
            self._wakeup_before = signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before:
            signal.set_wakeup_fd(self._wakeup_before)
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        os.close(self.descriptor)
        os.close(self._wakeup)

    def take(self) -> list[str]:
        """Names of the signals that came since the last call."""
        try:
            numbers = os.read(self.descriptor, 512)
        except BlockingIOError:
            return []
        return [signal.Signals(number).name for number in numbers if number in HEARD]


def _ignore(number: int, frame: object) -> None:
    """The byte on the wakeup descriptor is what counts."""
