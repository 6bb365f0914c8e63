"""How ranks ended, as launchers and schedulers put it. Pure; the tables of words are in the launchers' own modules."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeGuard, get_args

# What ends a whole job, or a step of it.
SchedulerCause = Literal[
    "out_of_memory",
    "node_lost",
    "preempted",  # another job gets the nodes
    "requeued",  # the job is started again from its beginning
    "time_limit",
    "cancelled",  # somebody ended the job or the step
]
EndCause = Literal[
    "killed",  # by a signal
    "exited",  # by itself, with an exit code that is not 0
    SchedulerCause,
    "not_started",
]
NOT_STARTED = 127  # the exit code of a rank or stage whose program was not started, as shells have it


def is_of_scheduler(cause: EndCause) -> TypeGuard[SchedulerCause]:
    """Whether this may have ended the whole job or step, not a rank alone."""
    return cause in get_args(SchedulerCause)


class RankEnd(NamedTuple):
    """One line of a launcher's output: which ranks ended, and how.

    `host` and `ranks` (`1`, `0-3`) as printed, "" where the line names none. `number`: the signal or the exit code.
    """

    cause: EndCause
    words: str
    host: str = ""
    ranks: str = ""
    number: int | None = None


class EndPattern(NamedTuple):
    """What the output looks like that says how ranks ended.

    `text` matches to the end of a line. It may have the groups host, ranks, number (a signal or an exit code) and
    name (of a signal, as the C library describes it).
    """

    cause: EndCause
    text: re.Pattern[str]


def end_pattern(cause: EndCause, text: str) -> EndPattern:
    """A pattern for what begins with `text`, the launcher's name, and goes on to the end of the line.

    It need not begin a line: a rank that dies may have written half of one.
    """
    return EndPattern(cause, re.compile(f"{text}.*$", re.MULTILINE))


def signal_of_shell(code: int) -> int | None:
    """The signal that an exit code means as shells and most launchers give it, 128 + its number; None: no signal."""
    return code - 128 if 128 < code < 128 + signal.NSIG else None


def find_ends(text: str, patterns: Sequence[EndPattern]) -> list[RankEnd]:
    """The ends that this output reports, in its order."""
    found = [(match.start(), pattern.cause, match) for pattern in patterns for match in pattern.text.finditer(text)]
    return [_to_end(cause, match) for _, cause, match in sorted(found, key=lambda each: each[0])]


def _to_end(cause: EndCause, match: re.Match[str]) -> RankEnd:
    groups = match.groupdict()
    number = int(groups["number"]) if groups.get("number") else None
    if groups.get("name"):
        number = signal_number(groups["name"])
    return RankEnd(cause, match[0].strip(), groups.get("host") or "", groups.get("ranks") or "", number)


def signal_number(text: str) -> int | None:
    """The signal that the C library describes so (`Killed`, `Segmentation fault (core dumped)`); None: it is none."""
    plain = text.removesuffix(" (core dumped)")
    return next((int(number) for number in signal.valid_signals() if signal.strsignal(number) == plain), None)
