"""What a program of `wf` does first, where it begins: what its caller has left behind must not end it, nor its work."""

from __future__ import annotations

from workflow.interrupts import own_signals
from workflow.own_process import find_programs_beside, set_home
from workflow.standard_streams import keep_writable


def begin_program(only_prints: bool = False) -> None:
    """Signals, standard streams, HOME and PATH. `only_prints`: as in `keep_writable`, which may raise WfError.

    What it starts inherits all of it. Guards, which launchers start, call `own_signals` alone: they open
    no data, and handle their output themselves.
    """
    own_signals()
    keep_writable(only_prints)
    set_home()
    find_programs_beside()
