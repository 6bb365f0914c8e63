"""Ctrl-C that comes before a run can be stopped by it.

Python raises KeyboardInterrupt wherever it is at that moment. In a callback, such as those of the import system, the
exception is printed and lost: the program goes on, and whoever has pressed Ctrl-C once waits for ever.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

_came = False


def note_interrupts() -> None:
    """From now on remember that SIGINT has come. It is raised as before; where it is ignored, it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _note)


def has_come() -> bool:
    """Whether SIGINT has come since `note_interrupts`."""
    return _came


@contextlib.contextmanager
def interrupts_ignored() -> Iterator[None]:
    """For the last words of a verb that ends anyway. Afterwards SIGINT does what it did: tests call verbs, too."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _note(_number: int, _frame: object) -> None:
    global _came
    _came = True
    raise KeyboardInterrupt
