"""Reading a stream whose first steps are in another file, because its run goes on with an earlier one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workflow.stage.stream_engines import ReadEngine, StepStatus
from workflow.stage.variables import Array, BlockTable, Info, Selection


class JoinedReadEngine:
    """The steps of one file, which is complete, then those of another, which may still grow."""

    def __init__(self, earlier: ReadEngine, now: ReadEngine) -> None:
        self._engine, self._next = earlier, [now]
        self._bytes: list[int] = []  # on rank 0, of the steps of the earlier file, where they are known at its end

    def begin(self, timeout_s: float) -> StepStatus:
        """See `ReadEngine`."""
        status = self._engine.begin(timeout_s)
        if status is StepStatus.ENDED and self._next:
            self._bytes = self._engine.bytes_of_all() or []
            self._engine.close()
            self._engine = self._next.pop()
            status = self._engine.begin(timeout_s)
        return status

    def end(self) -> int | None:
        """See `ReadEngine`."""
        return self._engine.end()

    def bytes_of_all(self) -> list[int] | None:
        """See `ReadEngine`."""
        found = self._engine.bytes_of_all()
        return None if found is None else [*self._bytes, *found]

    def close(self) -> None:
        """See `ReadEngine`."""
        for engine in (self._engine, *self._next):
            engine.close()

    def abandon(self) -> None:
        """See `ReadEngine`."""
        for engine in (self._engine, *self._next):
            engine.abandon()

    def variables(self) -> dict[str, Info]:
        """See `ReadEngine`."""
        return self._engine.variables()

    def info(self, name: str) -> Info | None:
        """See `ReadEngine`."""
        return self._engine.info(name)

    def blocks(self, names: Sequence[str]) -> dict[str, BlockTable]:
        """See `ReadEngine`."""
        return self._engine.blocks(names)

    def attributes(self) -> Mapping[str, Array | list[str]]:
        """See `ReadEngine`."""
        return self._engine.attributes()

    def get(self, wanted: Sequence[Selection]) -> list[Array]:
        """See `ReadEngine`."""
        return self._engine.get(wanted)
