"""The signals of a process of wf: what its caller has left, and Ctrl-C that comes before a run can be stopped by it.

Python raises KeyboardInterrupt wherever it is at that moment. In a callback, such as those of the import system, the
exception is printed and lost: the program goes on, and whoever has pressed Ctrl-C once waits for ever.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_came = False
# Ignored on purpose: by nohup, and by shells in what they start with `&`. Python ignores the last two itself, and
# `subprocess` gives them back to what it starts.
_KEPT = {
    getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGPIPE", "SIGXFSZ") if hasattr(signal, name)
}


def own_signals() -> None:
    """A process of wf that a caller, a scheduler or a launcher starts begins with this: their dispositions and mask
    outlive exec(2). What it starts itself inherits them: the probes of the proof, and readers of data, do without.

    While SIGCHLD is ignored the exit status of a child is lost, and a signal that is blocked or ignored stops nothing.
    So none is blocked, and none ignored but those of `_KEPT`; stages inherit that. The caller's umask and limits are
    meant for the stages and stay; only the number of open files is raised (`stage_processes`), not for stages.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in signal.valid_signals() - _KEPT:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def interrupts_noted() -> Iterator[None]:
    """Remember inside that SIGINT has come. It is raised as before; where it means something else, it stays so."""
    global _came
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _came = False


def has_come() -> bool:
    """Whether SIGINT has come inside `interrupts_noted`."""
    return _came


@contextlib.contextmanager
def interrupts_ignored() -> Iterator[None]:
    """For the last words of a verb that ends anyway. Afterwards SIGINT does what it did: tests call verbs, too."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def first_interrupt_waits(say: Callable[[], None]) -> Iterator[None]:
    """For what must not be left half done: the first Ctrl-C is raised at the end, and `say` is called at once; the
    second one is raised where it comes. Nothing changes in other threads, and where SIGINT means something else."""
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or before not in (_note, signal.default_int_handler):
        yield
        return
    came = False

    def wait(_number: int, _frame: FrameType | None) -> None:
        nonlocal came
        signal.signal(signal.SIGINT, before)
        came = True
        say()

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)


def _note(_number: int, _frame: object) -> None:
    global _came
    _came = True
    raise KeyboardInterrupt
