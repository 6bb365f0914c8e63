"""Decides whether the supervisor of a run has died, by its beats in the lease and in the guard's own pipe. Pure.

Nobody's clock is compared: the guard counts its own seconds between changes of the counter. Seconds in which it could
not look, because it was suspended or its file system hung, do not count: the file may have changed meanwhile.
Where the file system shows the beats late, the longest delay so far is added to the silence that is allowed.

A file system may hide the beats for minutes while all processes live. A supervisor whose beats come through the
launcher of the guards lives, whatever the lease says. Not all launchers pass them to all nodes: without any such beat
the lease alone counts.
"""

from __future__ import annotations

from workflow.formats.control_files import BEAT_S, SILENCE_S

# Between two looks at the lease. Of 10,000 nodes these are 5,000 opens a second. A silent one is looked at more often.
LOOK_S, _SILENT_LOOK_S = 2.0, 0.5
_SUSPECT_S = 5.0
_LONGEST_S = 60.0


class BeatJudge:
    """Takes the counter at each look; `silent_s` is how long it has not changed."""

    def __init__(self) -> None:
        self.silent_s = 0.0
        self._pipe_silent_s: float | None = None  # None: no beat has ever come through it
        self._beat: int | None = None
        self._longest_s = 0.0

    @property
    def next_look_s(self) -> float:
        """When to look again, from now."""
        return LOOK_S if self.silent_s < _SUSPECT_S else _SILENT_LOOK_S

    @property
    def limit_s(self) -> float:
        """The silence of the lease after which it says nothing for the supervisor."""
        return min(SILENCE_S + max(0.0, self._longest_s - BEAT_S - 1.25 * LOOK_S), _LONGEST_S)

    @property
    def sees_beats(self) -> bool | None:
        """Whether the lease shows that the supervisor lives; None where that is not known yet."""
        if self.silent_s >= self.limit_s:
            return False
        return None if self._beat is None else True

    @property
    def is_dead(self) -> bool:
        """Whether the supervisor has been silent for too long. Without any lease nothing is known."""
        if self._pipe_silent_s is not None and self._pipe_silent_s < SILENCE_S:
            return False
        return self._beat is not None and self.silent_s >= self.limit_s

    def look(self, beat: int | None, passed_s: float) -> None:
        """The counter in the lease, None where it cannot be read, `passed_s` after the look before."""
        if beat is None or beat == self._beat:
            self.silent_s += min(passed_s, 2 * self.next_look_s)
            return
        if self._beat is not None:
            self._longest_s = max(self._longest_s, self.silent_s)
        self._beat, self.silent_s = beat, 0.0

    def listen(self, heard: bool, passed_s: float) -> None:
        """Whether a beat has come through the pipe, `passed_s` after the call before."""
        if heard:
            self._pipe_silent_s = 0.0
        elif self._pipe_silent_s is not None:
            self._pipe_silent_s += passed_s
