"""Wait for a condition, with a deadline and a message."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(true: Callable[[], bool], what: str, deadline_s: float, every_s: float = 0.02) -> None:
    """Return when `true()` is; raises TimeoutError that says `what` was waited for."""
    end = time.monotonic() + deadline_s
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {deadline_s:g} s for {what}")
        time.sleep(every_s)
