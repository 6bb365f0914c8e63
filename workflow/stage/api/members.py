"""Reading the streams of the members of an ensemble, which come and go. On one rank."""

from __future__ import annotations

import contextlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from types import TracebackType

from workflow.formats.bp_index import Index, read_index
from workflow.formats.event_names import STAGE_IGNORED, STAGE_STOPPED, STOP_REQUESTED
from workflow.formats.json_lines import Tail
from workflow.formats.stage_file import StreamEnd
from workflow.stage.api.reader import Reader
from workflow.stage.api.step import Step
from workflow.stage.stage_errors import StageError, exit_reason
from workflow.stage.telemetry import process_metrics
from workflow.stage.uncaught_errors import leave_together, note_early_exit

# How often to look for events of the run, while no step comes.
_LOOK_S = 0.2
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 1e-3, 2e-2
# While nothing comes, each look opens the index of each member: of many less often.
_PAUSE_OF_ONE_S = 5e-4


class _Source:
    """The stream of one member, and its reader: of a file once that has a step."""

    def __init__(self, end: StreamEnd, open_it: Callable[[StreamEnd], Reader]) -> None:
        self.stream = end.stream
        self._end, self._open_it, self._index = end, open_it, Index()
        self._reader: Reader | None = None
        if end.traits.in_memory:
            self._reader = open_it(end)

    def poll(self) -> Step | None:
        """The next step if it is there. Raises StopIteration at the end."""
        if not self.may_have_more():
            return None
        if self._reader is None:
            self._reader = self._open_it(self._end)
        return self._reader.poll()

    def may_have_more(self) -> bool:
        """Whether the index shows a step, or the end: a file is opened when its first step is there."""
        if self._end.traits.in_memory:
            return True
        index = read_index(Path(self._end.path) / "md.idx", self._index)
        if index is None:
            return False
        self._index = index
        read = self._end.first_step if self._reader is None else self._reader.steps_begun
        return self._end.before + index.steps > read or not index.active

    def release(self) -> None:
        """Release the present step."""
        if self._reader is not None:
            self._reader.release_step()

    def close(self, error: str = "") -> None:
        """Close its file, if it is open."""
        if self._reader is not None:
            self._reader.close(error)


class Order:
    """Whose steps were sent, in order: one line for each, written before the step is sent.

    Members send at the same time, so that a second attempt would merge their steps in another order than the first one,
    whose steps others have read. It repeats what is recorded.
    """

    def __init__(self, path: Path | None, begin: int = 0) -> None:
        """`begin`: how many steps a former attempt has left behind."""
        self._file: FileIO | None = None
        records: list[list[int]] = []
        if path is not None:
            data = path.read_bytes() if path.exists() else b""
            whole = data[: data.rfind(b"\n") + 1]
            try:
                records = [[int(each) for each in json.loads(line)] for line in whole.splitlines()]
            except (ValueError, TypeError) as error:
                raise StageError(f"{path} is damaged: {error}; start the run anew") from error
            self._file = FileIO(path, "r+" if data else "w")
            self._file.truncate(len(whole))  # the last line was cut off
            self._file.seek(len(whole))
        self.known, self._recorded = len(records), deque(records[begin:])

    def next(self) -> list[int] | None:
        """The members of the next step; None where that is open."""
        return self._recorded.popleft() if self._recorded else None

    def note(self, members: Sequence[int]) -> None:
        """Record the next step. Raises StageError where that is not possible."""
        if self._file is None:
            return
        line = json.dumps([*members]).encode() + b"\n"
        try:
            written = self._file.write(line)
        except OSError as error:
            raise StageError(f"the order of the merged steps cannot be recorded: {error.strerror}") from error
        if written != len(line):
            raise StageError("the order of the merged steps cannot be recorded: the disk is full")


class _RunStoppedError(Exception):
    """The next step would be one of a member that ends only because the run is stopped."""


class Members:
    """The streams of members at one port. A member that has ended, or does not begin, or without which the run goes
    on, leaves.

    Members are numbered by their place in the pipeline, from 0.
    """

    def __init__(
        self, ends: Sequence[StreamEnd], events: Path, open_it: Callable[[StreamEnd], Reader], order: Order
    ) -> None:
        self._sources = {number: _Source(end, open_it) for number, end in enumerate(ends)}
        self._events, self._look_at, self._pause_s = Tail(events), 0.0, _SHORTEST_PAUSE_S
        self._leaving, self._is_stopped = set[str](), False
        self._order = order

    def __enter__(self) -> Members:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave_together(error)
        for source in self._sources.values():
            source.close(exit_reason(error))
        note_early_exit(error)

    def steps(self) -> Iterator[tuple[int, Step]]:
        """(member, step) of whatever comes first; each member in turn where several have one."""
        with contextlib.suppress(_RunStoppedError):
            yield from self._one_by_one()

    def _one_by_one(self) -> Iterator[tuple[int, Step]]:
        while (recorded := self._order.next()) is not None:
            for number in recorded:
                yield number, self._await(number)
                self._sources[number].release()
        while self._sources:
            found = False
            for number in list(self._sources):
                if (step := self._poll(number)) is not None:
                    found = True
                    self._order.note([number])
                    yield number, step
                    self._sources[number].release()
            self._rest(found=found)

    def steps_together(self) -> Iterator[dict[int, Step]]:
        """The same step of all members that are there, by member: the first of each, the second, ….

        One that ends earlier than the others is not in the steps that follow. If the run is stopped, they end with the
        first member that has no more: with all its steps they go on in the next part of the run.
        """
        with contextlib.suppress(_RunStoppedError):
            yield from self._together()

    def _together(self) -> Iterator[dict[int, Step]]:
        while (recorded := self._order.next()) is not None:
            yield {number: self._await(number) for number in recorded}
            self._release(recorded)
            for number in self._sources.keys() - {*recorded}:  # it had left
                self._sources.pop(number).close()
        held: dict[int, Step] = {}
        while self._sources:
            found, known = False, len(self._sources)
            for number in [each for each in self._sources if each not in held]:
                if (step := self._poll(number)) is not None:
                    found, held[number] = True, step
            if len(self._sources) < known:
                self._check_stop()
            held = {number: step for number, step in held.items() if number in self._sources}
            newest = max((step.index for step in held.values()), default=0)
            if late := [number for number, step in held.items() if step.index < newest]:
                # A member that had left, and is there again in a later part of the run.
                self._release(late)
                held = {number: step for number, step in held.items() if number not in late}
            elif held and len(held) == len(self._sources):
                self._order.note(sorted(held))
                yield {number: held[number] for number in sorted(held)}
                self._release(held)
                held = {}
            else:
                self._rest(found=found)

    def _release(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number in self._sources:
                self._sources[number].release()

    def _await(self, number: int) -> Step:
        """The next step of a member that has sent it before. Raises StageError where it has ended without it."""
        while number in self._sources:
            if (step := self._poll(number)) is not None:
                self._rest(found=True)
                return step
            self._rest(found=False)
        self._check_stop()
        raise StageError(f"member {number} has fewer steps than an earlier attempt has read of it: start the run anew")

    def _poll(self, number: int) -> Step | None:
        source = self._sources[number]
        leaves = source.stream in self._leaving  # its steps are all there
        try:
            step = source.poll()
        except StopIteration:
            del self._sources[number]
            return None
        # What is in its index counts, also where its data are seen later.
        if step is None and leaves and not source.may_have_more():
            self._sources.pop(number).close()
        return step

    def _rest(self, *, found: bool) -> None:
        """Where nothing has come: let members go that send nothing more, and wait a little, longer each time."""
        if found:
            self._pause_s = _SHORTEST_PAUSE_S
            return
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_S
            self._look()
        process_metrics().enter()  # it computes nothing meanwhile
        time.sleep(self._pause_s)
        process_metrics().leave()
        self._pause_s = min(2 * self._pause_s, max(_LONGEST_PAUSE_S, _PAUSE_OF_ONE_S * len(self._sources)))

    def _look(self) -> None:
        for record in self._events.records(fresh=True):
            if record.get("event") in (STAGE_IGNORED, STAGE_STOPPED):
                self._leaving.update(record.get("streams", ()))
            self._is_stopped = self._is_stopped or record.get("event") == STOP_REQUESTED

    def _check_stop(self) -> None:
        self._look()
        if self._is_stopped:
            raise _RunStoppedError
