"""Ctrl-C, termination requests and lost terminals, as bytes on a descriptor instead of exceptions."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from workflow.interrupts import has_come

CAUGHT = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Signals:
    """A context manager: inside it these signals can be read at `descriptor`; outside all is as before.

    Only the main thread can set signal handlers; entered in another thread, this catches nothing. The descriptor
    may be read in any thread, also while the main thread is blocked.
    """

    def __init__(self) -> None:
        self._released = False
        self.descriptor, self._wakeup = os.pipe()
        self._caught: list[int] = []
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Signals:
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._wakeup, False)
        if threading.current_thread() is threading.main_thread():
            # Only signals with a Python handler are written to the wakeup descriptor. nohup ignores some.
            self._caught = [number for number in CAUGHT if signal.getsignal(number) is not signal.SIG_IGN]
            handled: dict[int, Callable[[int, Any], None]] = dict.fromkeys(self._caught, self._handle)
            # SIGINT is what stages are asked to stop by. They would inherit that it is ignored (`wf run … &` in a
            # script), but not a handler.
            handled.setdefault(signal.SIGINT, _ignore)
            # A program that runs a pipeline in its own process may have ignored it: exit codes would be lost.
            if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
                handled[signal.SIGCHLD] = _ignore
            # First the descriptor: a signal between the two would be handled, and written nowhere.
            self._wakeup_before = signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
            self._before = {number: signal.signal(number, handler) for number, handler in handled.items()}
            if has_come() and signal.SIGINT in self._caught:
                os.write(self._wakeup, bytes([signal.SIGINT]))
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
        return [signal.Signals(number).name for number in numbers if number in self._caught]

    def release(self) -> None:
        """The run is over: a signal has its former effect again, also one that came since the last `take`.

        The main thread may be blocked by a terminal that accepts no output, and must be able to end.
        """
        self._released = True
        for name in self.take():
            os.kill(os.getpid(), signal.Signals[name])

    def _handle(self, number: int, _frame: object) -> None:
        """Nothing to do: the byte on the wakeup descriptor is enough."""
        if self._released:
            before = self._before[number]
            signal.signal(number, signal.SIG_DFL if before is None else before)
            os.kill(os.getpid(), number)


def _ignore(_number: int, _frame: object) -> None:
    """As SIG_IGN, but not inherited by the programs that this process starts."""
