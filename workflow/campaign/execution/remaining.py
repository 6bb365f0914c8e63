"""Which repetitions are left, and whether the budget allows the next one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workflow.campaign.file.trials import Repetition, make_schedule
from workflow.campaign.ledger import Attempt, History, RepetitionId
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
    again: Mapping[RepetitionId, int] = field(default_factory=dict)
    """Measured again, once → how often they had been measured before."""


UNFINISHED = RepetitionChoice()


@dataclass(frozen=True)
class RepetitionToRun:
    """A repetition that is to run."""

    identity: RepetitionId
    repetition: Repetition
    trial: ReadyTrial


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


def repetitions(planned: PlannedCampaign) -> list[RepetitionToRun]:
    """All repetitions in the order in which they run."""
    spec = planned.spec
    schedule = make_schedule(len(planned.ready), spec.repetitions, spec.warmup, spec.order)
    found = []
    for each in schedule:
        trial = planned.ready[each.trial]
        found.append(RepetitionToRun(RepetitionId(trial.key, each.number, each.warmup), each, trial))
    return found


def remaining(
    planned: PlannedCampaign, history: History, which: RepetitionChoice = UNFINISHED
) -> list[RepetitionToRun]:
    """The repetitions that are not finished: neither succeeded nor failed as often as they may. Or as `which` says."""
    return [each for each in repetitions(planned) if is_left(planned, history, each, which)]


def is_left(
    planned: PlannedCampaign, history: History, each: RepetitionToRun, which: RepetitionChoice = UNFINISHED
) -> bool:
    """Whether a repetition is one of those."""
    if (before := which.again.get(each.identity)) is not None:
        return len(history.measurements(each.identity)) <= before
    failures = history.failures.get(each.identity, 0)
    wanted = failures > 0 if which.only_failed else which.failed_anew or failures <= planned.spec.retries
    return wanted and not history.succeeded(each.identity)


class AttemptsLeft:
    """How often each repetition of a call may run yet, and how many need no further attempt."""

    def __init__(
        self, planned: PlannedCampaign, history: History, todo: Sequence[RepetitionToRun], which: RepetitionChoice
    ) -> None:
        self._todo = todo
        self._failures = [attempts_left(planned, history, each, which) for each in todo]
        self._losses = [MOST_LOSSES for _ in todo]
        self._total = len(repetitions(planned))
        self._done = self._total - len(todo)
        self._ended = 0

    def take(self, index: int, attempt: Attempt) -> bool:
        """Count an attempt that ended; returns whether its repetition waits again."""
        self._failures[index] -= attempt.state == "failed"
        self._losses[index] -= attempt.state == "lost"
        may = self._failures[index] > 0 and self._losses[index] >= 0
        again = attempt.state in ("failed", "lost") and may
        self._done += not again and attempt.state != "interrupted"
        self._ended += 1
        return again

    def tell(self, index: int, attempt: Attempt, passed_s: float) -> EndedRepetition:
        """What to show of an attempt that `take` has counted, `passed_s` after the begin of the call."""
        left_s = passed_s / self._ended * (self._total - self._done)
        each = self._todo[index]
        return EndedRepetition(self._done, self._total, each.trial, each.repetition, attempt, left_s)


def attempts_left(planned: PlannedCampaign, history: History, each: RepetitionToRun, which: RepetitionChoice) -> int:
    """How often a repetition may fail yet, plus one."""
    anew = which.only_failed or which.failed_anew or each.identity in which.again
    return planned.spec.retries + 1 - (0 if anew else history.failures.get(each.identity, 0))


def is_spent(
    planned: PlannedCampaign, history: History, nodes: int, promised: tuple[float, float] = (0.0, 0.0)
) -> bool:
    """Whether the next repetition would exceed the budget, if it takes as long as expected.

    `promised`: seconds and node-seconds that those which run now are expected to take.
    """
    budget, expected = planned.spec.budget, planned.spec.expected or 0.0
    if budget.time is not None and history.spent_s + promised[0] + expected > budget.time:
        return True
    node_s = history.spent_node_s + promised[1] + expected * nodes
    return budget.node_hours is not None and node_s > budget.node_hours * 3600
