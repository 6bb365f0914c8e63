"""Waiting for a condition, with a deadline and words for what was waited for."""

from __future__ import annotations

import time
from collections.abc import Callable

WITHIN_S = 120.0


def wait_until(condition: Callable[[], object], what: str, within_s: float = WITHIN_S, every_s: float = 0.02) -> None:
    """Return when `condition()` is true; raises TimeoutError that says `what` was waited for."""
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {within_s:g} s for: {what}")
        time.sleep(every_s)
