"""The loop of a campaign: start what there is room for, record what ended, until nothing runs and nothing can start.

Which repetitions are left, how often each may run, the budget, the ledger and a stop are the same wherever they run.
Where that is depends on executors: one after the other in this process, side by side on pilots, or in a job each.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from workflow.campaign.campaign_directory import RUNS_FOLDER, ScheduledTrial, to_scheduled
from workflow.campaign.execution.driver_lease import StopRequests
from workflow.campaign.execution.repetition import DecideOnSite, StartedAttempt, remove_data
from workflow.campaign.ledger import Attempt, History, Ledger, OpenAttempt, Repetition
from workflow.campaign.planning.content_key import changed_file
from workflow.campaign.planning.planned_trials import PlannedCampaign, ReadyTrial
from workflow.campaign.search import asked_repetitions
from workflow.errors import RunError
from workflow.formats.run_clock import steady_time
from workflow.formatting import duration
from workflow.launch.allocation import Allocation
from workflow.provenance.provenance_model import GitState, StartContext
from workflow.run.control.lease import Lease
from workflow.run.records.control_requests import Control
from workflow.site.site_model import Site
from workflow.spec.user_paths import exists

RepetitionEnd = tuple[Repetition, Attempt]
# A repetition whose nodes or pilot were lost is no failure of its program, and runs again, so often at most in
# one call: a call by hand begins anew.
MOST_LOSSES = 3


@dataclass(frozen=True)
class Room:
    """There is room for a repetition. `where`: its hosts and cores, for people; empty: all that the campaign has."""

    repetition: Repetition
    where: str = ""


class Executor(Protocol):
    """Runs repetitions: those that it was made with, and those that are put back. It knows no ledger and no budget."""

    @property
    def waiting(self) -> int:
        """How many wait."""

    @property
    def running(self) -> Sequence[StartedAttempt]:
        """What runs, with what `ended` has not returned yet."""

    @property
    def closed_because(self) -> str:
        """Why no other one starts in this call; empty while one may."""

    @property
    def unresolved(self) -> Sequence[str]:
        """Attempts whose end is not known, in words: the next call looks at them again."""

    def look(self) -> None:
        """What has changed since the last look. Raises RunError where nothing can run."""

    def next_room(self) -> Room | None:
        """Take the next repetition for which there is room now; None where there is none."""

    def put_back(self, repetition: Repetition) -> None:
        """It waits again, also one that was taken and not started."""

    def start(self, room: Room, attempt: StartedAttempt) -> None:
        """Start it. Raises RunError when that is refused."""

    def ended(self) -> Iterator[RepetitionEnd]:
        """The attempts that have ended. Waits for a moment where there is none."""

    def pass_on(self, request: Control) -> None:
        """Ask all that runs to stop; called again until they have. Raises RunError where one cannot be asked."""

    def stop_limits(self) -> Mapping[str, float]:
        """Run that was asked to stop → the seconds that it may take."""

    def close(self) -> None:
        """End what is left of the places where repetitions ran."""


def run_repetitions(
    driver: Driver, executor: Executor, todo: Sequence[Repetition], which: RepetitionChoice
) -> Generator[EndedRepetition, None, str]:
    """Run these repetitions, and tell of each attempt that ended. Returns why some are left, if they are.

    Raises RunError when the executor can run nothing, or what runs does not stop.
    """
    planned, history = driver.planned, driver.ledger.history
    attempts, expected = AttemptsLeft(planned, history, todo, which), set(todo)
    began = time.monotonic()
    stop_since: float | None = None
    spent = ""
    try:
        while True:
            stop = driver.stop.wanted()
            if stop is not None:
                stop_since = stop_since or time.monotonic()
                executor.pass_on(stop)
                _check_stop(executor, time.monotonic() - stop_since)
            executor.look()
            if stop is None:
                while not (spent or executor.closed_because) and (room := executor.next_room()) is not None:
                    nodes = planned.by_key[room.repetition.key].nodes
                    if is_spent(planned, history, nodes, [each.nodes for each in executor.running]):
                        executor.put_back(room.repetition)
                        spent = "the budget is spent"
                    else:
                        executor.start(room, driver.begin(room.repetition, room.where))
            because = spent or executor.closed_because
            if not executor.running and (stop is not None or because or not executor.waiting):
                return "; ".join([*([because] if because else []), *executor.unresolved])
            for repetition, attempt in executor.ended():
                driver.end(repetition, attempt)
                if repetition in expected:
                    if attempts.take(repetition, attempt):
                        executor.put_back(repetition)
                    yield attempts.tell(repetition, attempt, time.monotonic() - began)
    finally:
        executor.close()


def _check_stop(executor: Executor, passed_s: float) -> None:
    """Raises RunError when what was asked to stop takes longer than it may."""
    limits = executor.stop_limits()
    longest_s = max(limits.values(), default=0.0)
    if limits and passed_s > longest_s:
        text = f"{', '.join(limits)}: not stopped within {duration(longest_s)}"
        raise RunError(text, "the next `wf campaign run` finds out how they ended")


@dataclass(frozen=True)
class CampaignContext:
    """`sites`: key of a trial → its site; `decide`: makes a plan for a site."""

    allocation: Allocation
    sites: Mapping[str, Site]
    decide: DecideOnSite
    common: StartContext
    """What all runs are started with: kept in each run directory."""
    git: Mapping[Path, GitState | None] = field(default_factory=dict)
    """Folder of a pipeline → its repository, where there are pipelines of several folders."""

    def start_context(self, trial: ReadyTrial) -> StartContext:
        """What the runs of a trial are started with."""
        folder = trial.loaded.path.parent
        return self.common.model_copy(update={"git": self.git[folder]}) if folder in self.git else self.common


@dataclass(frozen=True)
class Driver:
    """The process that runs a campaign, with what it alone writes and hears."""

    planned: PlannedCampaign
    directory: Path
    ledger: Ledger
    lease: Lease
    stop: StopRequests

    def begin(self, repetition: Repetition, where: str = "") -> StartedAttempt:
        """A new attempt of a repetition, with its line in the ledger. `where`: its hosts and cores, for people.

        Raises RunError when a file changed after planning: the repetition would be taken for one of another key.
        """
        trial = self.planned.by_key[repetition.key]
        if (changed := changed_file(trial.files)) is not None:
            raise _changed_since_planning(changed)
        runs = self.directory / RUNS_FOLDER
        number, name = self._next_attempt(repetition)
        # A killed campaign may have left a run whose line in the ledger was cut off.
        while exists(runs / name):
            number, name = self._next_attempt(repetition)
        t = round(steady_time(), 3)
        self.ledger.begin(repetition, OpenAttempt(name, number, t, where))
        return StartedAttempt(runs / name, number, trial.nodes, t, where)

    def _next_attempt(self, repetition: Repetition) -> tuple[int, str]:
        """Its number, and the name of its run directory."""
        number = self.ledger.history.begin(repetition)
        return number, repetition.name if number == 1 else f"{repetition.name}-a{number}"

    def end(self, repetition: Repetition, attempt: Attempt) -> None:
        """The line in the ledger of an attempt that ended; its data is removed unless it is to be kept.

        Raises RunError when a file changed after planning: nobody knows which version was measured, and the
        attempt counts as interrupted.
        """
        trial = self.planned.by_key.get(repetition.key)
        files = trial.files if trial is not None else {}
        if attempt.state == "succeeded" and (changed := changed_file(files)) is not None:
            error = _changed_since_planning(changed)
            self.ledger.end(repetition, replace(attempt, state="interrupted", reason=error.problems[0].message))
            raise error
        self.ledger.end(repetition, attempt)
        if self.planned.spec.keep == "records" and attempt.state == "succeeded":
            remove_data(self.directory / RUNS_FOLDER / attempt.run)


def _changed_since_planning(path: Path) -> RunError:
    hint = "run again: changed trials are planned and measured again. A file that a run writes cannot be an input"
    return RunError(f"{path} changed after planning", hint)


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
    trial: ScheduledTrial
    repetition: Repetition
    attempt: Attempt
    left_s: float
    """Estimate for those that remain, from those that ran."""


def remaining(planned: PlannedCampaign, history: History, which: RepetitionChoice = UNFINISHED) -> list[Repetition]:
    """The repetitions that are not finished: neither succeeded nor failed as often as they may. Or as `which` says."""
    return [each for each in asked_repetitions(planned, history) if is_left(planned, history, each, which)]


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
        self._total = len(asked_repetitions(planned, history, to_the_end=True))
        self._done = len(asked_repetitions(planned, history)) - len(todo)
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
        trial = to_scheduled(self._planned.by_key[each.key])
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
