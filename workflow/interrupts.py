"""Ctrl-C that comes before a run can be stopped by it.

Python raises KeyboardInterrupt wherever it is at that moment. In a callback, such as those of the import system, the
exception is printed and lost: the program goes on, and whoever has pressed Ctrl-C once waits for ever.
"""

from __future__ import annotations

import signal

_came = False


def note_interrupts() -> None:
    """From now on remember that SIGINT has come. It is raised as before; where it is ignored, it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _note)


def has_come() -> bool:
    """Whether SIGINT has come since `note_interrupts`."""
    return _came


def ignore_interrupts() -> None:
    """For the last words of a process that ends anyway."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _note(_number: int, _frame: object) -> None:
    global _came
    _came = True
    raise KeyboardInterrupt
