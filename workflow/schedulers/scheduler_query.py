"""Asks a scheduler's command, with a deadline: one that is down may block for ever."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

QUERY_DEADLINE_S = 5.0
Query = Callable[[Sequence[str]], str]
"""A command → what it printed. Raises QueryError."""


class QueryError(Exception):
    """A command of a scheduler gave no answer; the text says why."""


def end_of_job(read: Callable[[], float | None], notes: list[str]) -> float | None:
    """When the job ends; None where it has no limit. None and a note where `read` raises QueryError."""
    try:
        return read()
    except QueryError as error:
        notes.append(f"the end of the job is not known: {error}")
        return None


def ask(command: Sequence[str], deadline_s: float = QUERY_DEADLINE_S) -> str:
    """What the command prints. Raises QueryError when it is missing, fails, or takes too long.

    It runs in a session of its own: what ends the process group of the caller does not end the question.
    """
    name = command[0]
    try:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=deadline_s,
            start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise QueryError(f"{name} gave no answer within {deadline_s:g} s") from None
    except OSError as error:
        raise QueryError(f"{name}: {error.strerror}") from error
    if answer.returncode:
        said = (answer.stderr or answer.stdout).strip().splitlines()[:1] or ["no message"]
        raise QueryError(f"{name} failed with exit code {answer.returncode}: {said[0]}")
    return answer.stdout
