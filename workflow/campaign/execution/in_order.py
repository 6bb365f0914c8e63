"""Runs the repetitions of a campaign in this process, one after the other, so that none disturbs another.

What a supervisor imports is imported once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from workflow.campaign.execution.campaign_loop import CampaignContext, RepetitionEnd, Room
from workflow.campaign.execution.repetition import StartedAttempt, run_repetition
from workflow.campaign.ledger import Repetition
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.provenance.collect import to_provenance
from workflow.run.records.control_requests import Control


class InOrder:
    """An executor. After an attempt that was interrupted or lost its nodes, nothing more starts."""

    unresolved: Sequence[str] = ()

    def __init__(
        self,
        planned: PlannedCampaign,
        context: CampaignContext,
        todo: Sequence[Repetition],
        wanted: Callable[[], Control | None],
    ) -> None:
        self._planned, self._context, self._wanted = planned, context, wanted
        self._todo = deque(todo)
        self._ended: list[RepetitionEnd] = []
        self.running: list[StartedAttempt] = []
        self.closed_because = ""

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._todo)

    def look(self) -> None:
        """Nothing changes but by itself."""

    def next_room(self) -> Room | None:
        """For one at a time."""
        return Room(self._todo.popleft()) if self._todo and not self.running else None

    def put_back(self, repetition: Repetition) -> None:
        """It is the next one: its block is not left before it has ended."""
        self._todo.appendleft(repetition)

    def start(self, room: Room, attempt: StartedAttempt) -> None:
        """Run it, to its end: its supervisor hears the requests itself."""
        trial, context = self._planned.by_key[room.repetition.key], self._context
        provenance = to_provenance(context.start_context(trial), trial.plan, trial.loaded)
        ended = run_repetition(attempt, trial.plan, trial.loaded, context.allocation, provenance, self._wanted)
        self.running.append(attempt)
        self._ended.append((room.repetition, ended))
        if ended.state in ("interrupted", "lost"):
            self.closed_because = ended.reason or ended.state

    def ended(self) -> Iterator[RepetitionEnd]:
        """The one that ran."""
        self.running.clear()
        while self._ended:
            yield self._ended.pop()

    def pass_on(self, request: Control) -> None:
        """Nothing runs while the loop looks."""

    def stop_limits(self) -> Mapping[str, float]:
        """Nothing runs while the loop looks."""
        return {}

    def close(self) -> None:
        """Nothing is left."""
