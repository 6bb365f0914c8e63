"""Which repetitions are left, and whether the budget allows the next one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workflow.campaign.ledger import Attempt, History, Repetition
from workflow.campaign.planning.planned_trials import PlannedCampaign, ReadyTrial

# A repetition whose nodes or pilot were lost is no failure of its program, and runs again, so often at most in
# one call: a call by hand begins anew.
MOST_LOSSES = 3


@dataclass(frozen=True)
class RepetitionChoice:
    """Which repetitions a call runs: those that are not finished, and more, or fewer."""

    only_failed: bool = False
    """Those that failed, whatever the number of their attempts, and nothing else."""
    failed_anew: bool = False
    """And those that failed as often as they may."""
    again: Mapping[Repetition, int] = field(default_factory=dict)
    """Measured again, once → how often they had been measured before."""


UNFINISHED = RepetitionChoice()


@dataclass(frozen=True)
class EndedRepetition:
    """An attempt has ended; `done` counts those that need no further one."""

    done: int
    total: int
    trial: ReadyTrial
    repetition: Repetition
    attempt: Attempt
    left_s: float
    """Estimate for those that remain, from those that ran."""


def remaining(planned: PlannedCampaign, history: History, which: RepetitionChoice = UNFINISHED) -> list[Repetition]:
    """The repetitions that are not finished: neither succeeded nor failed as often as they may. Or as `which` says."""
    return [each for each in planned.repetitions if is_left(planned, history, each, which)]


def is_left(planned: PlannedCampaign, history: History, each: Repetition, which: RepetitionChoice = UNFINISHED) -> bool:
    """Whether a repetition is one of those."""
    if (before := which.again.get(each)) is not None:
        return len(history.measurements(each)) <= before
    failures = history.failures.get(each, 0)
    wanted = failures > 0 if which.only_failed else which.failed_anew or failures <= planned.spec.retries
    return wanted and not history.succeeded(each)


class AttemptsLeft:
    """How often each repetition of a call may run yet, and how many need no further attempt."""

    def __init__(
        self, planned: PlannedCampaign, history: History, todo: Sequence[Repetition], which: RepetitionChoice
    ) -> None:
        self._planned = planned
        self._failures = {each: attempts_left(planned, history, each, which) for each in todo}
        self._losses = dict.fromkeys(todo, MOST_LOSSES)
        self._total = len(planned.repetitions)
        self._done = self._total - len(todo)
        self._ended = 0

    def take(self, each: Repetition, attempt: Attempt) -> bool:
        """Count an attempt that ended; returns whether its repetition waits again."""
        self._failures[each] -= attempt.state == "failed"
        self._losses[each] -= attempt.state == "lost"
        may = self._failures[each] > 0 and self._losses[each] >= 0
        again = attempt.state in ("failed", "lost") and may
        self._done += not again and attempt.state != "interrupted"
        self._ended += 1
        return again

    def tell(self, each: Repetition, attempt: Attempt, passed_s: float) -> EndedRepetition:
        """What to show of an attempt that `take` has counted, `passed_s` after the begin of the call."""
        left_s = passed_s / self._ended * (self._total - self._done)
        trial = self._planned.by_key[each.key]
        return EndedRepetition(self._done, self._total, trial, each, attempt, left_s)


def attempts_left(planned: PlannedCampaign, history: History, each: Repetition, which: RepetitionChoice) -> int:
    """How often a repetition may fail yet, plus one."""
    anew = which.only_failed or which.failed_anew or each in which.again
    return planned.spec.retries + 1 - (0 if anew else history.failures.get(each, 0))


def is_spent(planned: PlannedCampaign, history: History, nodes: int, running: Sequence[int]) -> bool:
    """Whether a repetition on so many nodes would exceed the budget, if it takes as long as expected.

    `running`: the nodes of each that runs now, which is expected to take as long.
    """
    budget, expected = planned.spec.budget, planned.spec.expected or 0.0
    if budget.time is not None and history.spent_s + expected * (len(running) + 1) > budget.time:
        return True
    node_s = history.spent_node_s + expected * (sum(running) + nodes)
    return budget.node_hours is not None and node_s > budget.node_hours * 3600
