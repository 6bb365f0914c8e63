"""The loop of a campaign: start what there is room for, record what ended, until nothing runs and nothing can start.

Which repetitions are left, how often each may run, the budget, the ledger and a stop are the same wherever they run.
That is a matter of executors: one after the other in this process, side by side on pilots, or in a job each.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from workflow.campaign.execution.driver import Driver
from workflow.campaign.execution.remaining import AttemptsLeft, EndedRepetition, RepetitionChoice, is_spent
from workflow.campaign.execution.repetition import StartedAttempt
from workflow.campaign.ledger import Attempt, Repetition
from workflow.errors import RunError
from workflow.formatting import duration
from workflow.run.records.control_requests import Control

RepetitionEnd = tuple[Repetition, Attempt]


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
