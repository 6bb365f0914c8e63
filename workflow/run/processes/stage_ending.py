"""How a stage ended, from the exit of its process and from what its launcher says. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from workflow.launch.launchers import LAUNCHERS
from workflow.run.state.events import RanksEnded


@dataclass(frozen=True)
class Ending:
    """How a stage ended: an exit code, or a signal, or both where a launcher reports the signal of a rank."""

    code: int | None
    signal: int | None
    note: str = ""
    cpu_s: float | None = None  # of all its processes
    by_supervisor: bool = False
    peak_bytes: int | None = None  # the largest resident memory of one of its processes


def to_ending(code: int, launcher: str, lines: Iterable[str]) -> Ending:
    """A process's exit as Popen gives it, with what its launcher's last lines report of the failed rank. Pure."""
    if code < 0:
        return Ending(None, -code)
    known, lines = LAUNCHERS[launcher], list(lines)
    if code and known.not_started is not None and (said := known.not_started.search("\n".join(lines))):
        return Ending(code, None, f"{launcher} did not start it: {said[1]}")
    number = known.signal_of(code, lines) if code else None
    return Ending(code, number, "one of its ranks" if number is not None else "")


def by_first_end(ending: Ending, first: RanksEnded | None) -> Ending:
    """How a stage ended by what was said of the ranks that ended first: a launcher may report how it ended the others.

    An exit code of 0 stands. Pure.
    """
    if first is None or ending.code == 0:
        return ending
    if first.cause == "killed" and first.number is not None:
        return replace(ending, signal=first.number)
    return replace(ending, code=first.number, signal=None) if first.cause == "exited" else ending
