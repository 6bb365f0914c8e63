"""How long a repetition of a trial will take, by what has been measured. Pure."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from workflow.campaign.ledger import History


class EstimatedDurations:
    """Estimates for the trials of one campaign, which become better with each attempt that ends. In seconds.

    Of a trial: the median of its attempts that succeeded, warm-ups included; else of the other trials', as they are,
    since nothing says how trials compare; else what the campaign file expects; else its deadline, after which a
    repetition has ended in any case.
    """

    def __init__(self, expected_s: float | None, deadline_s: float) -> None:
        self._without_s = deadline_s if expected_s is None else expected_s
        self._of_trial: dict[str, list[float]] = {}
        self._of_all: list[float] = []

    @classmethod
    def from_history(cls, history: History, expected_s: float | None, deadline_s: float) -> EstimatedDurations:
        """With all that a ledger holds."""
        estimates = cls(expected_s, deadline_s)
        for repetition, attempt in history.ended.items():
            if attempt.state == "succeeded":
                estimates.add(repetition.key, attempt.wall_s)
        return estimates

    def add(self, key: str, wall_s: float) -> None:
        """An attempt of the trial `key` has succeeded."""
        insort(self._of_trial.setdefault(key, []), wall_s)
        insort(self._of_all, wall_s)

    def of(self, key: str) -> float:
        """Of a repetition of the trial `key`."""
        return _median(self._of_trial.get(key) or self._of_all) or self._without_s

    def is_measured(self, key: str) -> bool:
        """Whether the estimate is by attempts of this very trial."""
        return key in self._of_trial

    @property
    def any_measured(self) -> bool:
        """Whether anything has been measured: without, all estimates are what the file says."""
        return bool(self._of_all)


def _median(ordered: Sequence[float]) -> float:
    """Of values in their order; 0 of none."""
    if not ordered:
        return 0.0
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
