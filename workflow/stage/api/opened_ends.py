"""The streams of this stage that were opened by port, and how many of their steps are read or written."""

from __future__ import annotations

from typing import Protocol

from workflow.formats.sides import Side
from workflow.formats.stage_file import StreamEnd
from workflow.stage import settings


class CountedEnd(Protocol):
    """A reader or a writer."""

    @property
    def steps_begun(self) -> int:
        """How many of its steps are read, the present one included, or written."""


# Whether they are still open or not.
opened_ends: dict[tuple[str, Side], CountedEnd] = {}


def end_key(end: StreamEnd) -> tuple[str, Side]:
    """Under which an end is listed."""
    return end.stream, end.side


def steps_of_streams() -> dict[str, int]:
    """Stream of this stage → how many of its steps were read, the present one included, or written."""
    found = {}
    for end in settings.current().ends:
        opened = opened_ends.get(end_key(end))
        first = end.first_step - end.repeated
        found[end.stream] = first if opened is None else opened.steps_begun
    return found
