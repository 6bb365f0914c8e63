"""How long the proof waits: for the start of a launch line as long as the plan allows, then for what must follow. Pure.

Launchers need minutes for the start of 10,000 nodes; programs that run answer in seconds.
"""

from __future__ import annotations

# From one answer to the next; from the start of all ends of a stream until it is open, and from then to its last step.
ANSWER_S = 10.0


class ProofDeadlines:
    """Launch lines and streams by their names. Times are of the caller's clock."""

    def __init__(self, start_s: float) -> None:
        self.start_s = start_s
        self._begun: dict[str, float] = {}
        self._moved: dict[str, float] = {}
        self._reached: dict[str, int] = {}

    def begin(self, name: str, now: float) -> None:
        """It runs; the first call counts."""
        self._begun.setdefault(name, now)

    def hear(self, name: str, now: float) -> None:
        """A rank of this line has answered."""
        self._moved[name] = now

    def reach(self, name: str, mark: int, now: float) -> None:
        """All ends of this stream have come as far as `mark`, which counts from 1; 0: some have not begun."""
        if mark > self._reached.get(name, 0):
            self._reached[name], self._moved[name] = mark, now

    def is_over(self, name: str, now: float) -> bool:
        """Whether nothing more is to be expected of it. What was not started has all its time left."""
        if name in self._moved:
            return now >= self._moved[name] + ANSWER_S
        return name in self._begun and now >= self._begun[name] + self.start_s
