"""Reading a file that a running run writes, from outside of that run: its writer does not know this reader.

A spool that keeps the newest steps only has no data of older ones. The run notes that in its events before it removes
them, so whoever finds no note after reading a step has read valid data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workflow.formats.bp_index import Index, read_index
from workflow.formats.json_lines import Tail
from workflow.formats.stage_file import StreamEnd
from workflow.stage.adios.read_engine import AdiosReadEngine
from workflow.stage.stage_errors import StepRemoved
from workflow.stage.stream_engines import StepStatus
from workflow.stage.variables import Array, Selection

# How often to look whether the run has ended, while no step comes.
_LOOK_S = 0.5
# Events of a run (`workflow.run.state.events`).
_REMOVED, _ENDED = "steps_dropped", "run_finished"


def newest_step(path: Path, known: Index | None = None) -> tuple[int, Index]:
    """The number of the newest whole step of a BP file, -1 where there is none, and its index."""
    index = read_index(path / "md.idx", known) or Index()
    return index.steps - 1, index


class FollowedReadEngine(AdiosReadEngine):
    """The steps of such a file from `end.first_step` on. It ends when its writer has closed it, or the run has ended.

    `removed`: how many steps were left out because the run had removed them.
    """

    def __init__(self, end: StreamEnd, events: Path) -> None:
        super().__init__(end)
        self.removed = 0
        self._end, self._events = end, Tail(events)
        self._now, self._index = end.first_step, Index()
        self._kept_from, self._is_gone, self._has_run_ended = 0, False, False
        self._look()

    def _look(self) -> None:
        """Read the new events of the run."""
        for record in self._events.records(fresh=True):
            if record.get("event") == _REMOVED and record.get("stream") == self._end.stream:
                self._kept_from = max(self._kept_from, int(record["first"]))
            self._has_run_ended |= record.get("event") == _ENDED

    def is_removed(self, step: int) -> bool:
        """Whether the run has removed the data of this step, the present one."""
        self._look()
        self._is_gone |= step < self._kept_from
        return self._is_gone

    def begin(self, timeout_s: float) -> StepStatus:
        """See `ReadEngine`."""
        self._is_gone, waited_s = False, 0.0
        while True:
            # Steps that were written before the run ended are read first.
            had_ended = self._has_run_ended
            status = super().begin(min(_LOOK_S, timeout_s))
            waited_s += _LOOK_S
            if status is not StepStatus.LATE or (waited_s >= timeout_s and not had_ended):
                return status
            if had_ended:
                return StepStatus.ENDED
            self._look()

    def end(self) -> int | None:
        """See `ReadEngine`."""
        self._now, self.removed = self._now + 1, self.removed + self._is_gone
        return super().end()

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """See `ReadEngine`. Raises StepRemoved when the step was removed before all of it was read."""
        try:
            found = super().get(wanted)
        except RuntimeError as error:  # a hole is no compressed block
            if self.is_removed(self._now):
                raise self._gone() from error
            raise
        if self.is_removed(self._now):
            raise self._gone()
        return found

    def _gone(self) -> StepRemoved:
        """Who is so late goes on with the newest step: the oldest that is kept is about to be removed."""
        newest, self._index = newest_step(Path(self._end.path), self._index)
        self._kept_from = max(self._kept_from, newest + self._end.before)
        return StepRemoved(f"stream {self._end.stream}: the run has removed step {self._now} while it was read")
