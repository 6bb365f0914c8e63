"""The time of a run: Unix seconds at its start, counted on by the monotonic clock.

A wall clock can be set: by hours, forwards or backwards. Deadlines must not pass, or fail to pass, because of that.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable

from workflow.run.events import Event


class Clock:
    """Gives the times of one run's events. `offset_s` is what is added to the monotonic clock."""

    def __init__(self) -> None:
        self.offset_s = time.time() - time.monotonic()

    def now(self) -> float:
        """Unix seconds, as if nobody had set the wall clock since."""
        return time.monotonic() + self.offset_s


def bring_between(events: Iterable[Event], earliest: float, latest: float) -> list[Event]:
    """The events, with their times moved into these bounds where they lie outside. Pure.

    A stage writes times of its own wall clock, which may differ from the run's: it may have been set, or be that of
    another node. What was not in a file at `earliest` and was there at `latest` has happened between these times.
    """
    return [
        event if earliest <= event.t <= latest else dataclasses.replace(event, t=min(max(event.t, earliest), latest))
        for event in events
    ]
