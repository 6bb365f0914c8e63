"""Has the supervisor of the run died? By the beats in its lease, as one node sees them. Pure.

Nobody's clock is compared: the guard counts its own seconds between changes of the counter. Seconds in which it could
not look, because it was suspended or its file system hung, do not count: the file may have changed meanwhile.
Where the file system shows the beats late, the silence that is allowed is longer by what was the longest so far.
"""

from __future__ import annotations

SILENCE_S = 10.0
USUAL_S = 2.0  # between two beats
LOOK_S = 0.5
_LONGEST_S = 60.0


class BeatJudge:
    """Takes the counter at each look; `silent_s` is how long it has not changed."""

    def __init__(self) -> None:
        self.silent_s = 0.0
        self._beat: int | None = None
        self._longest_s = 0.0

    @property
    def has_seen_lease(self) -> bool:
        """Whether a lease could be read at any time."""
        return self._beat is not None

    @property
    def limit_s(self) -> float:
        """The silence after which the supervisor is dead."""
        return min(SILENCE_S + max(0.0, self._longest_s - USUAL_S - 2 * LOOK_S), _LONGEST_S)

    @property
    def is_dead(self) -> bool:
        """Whether the supervisor has been silent for too long. Without any lease nothing is known."""
        return self.has_seen_lease and self.silent_s >= self.limit_s

    def look(self, beat: int | None, passed_s: float) -> None:
        """The counter in the lease, None where it cannot be read, `passed_s` after the look before."""
        if beat is None or beat == self._beat:
            self.silent_s += min(passed_s, 2 * LOOK_S)
            return
        if self._beat is not None:
            self._longest_s = max(self._longest_s, self.silent_s)
        self._beat, self.silent_s = beat, 0.0
