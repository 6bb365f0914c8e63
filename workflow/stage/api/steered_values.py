"""Values of a stage that are changed while it runs: by a user (`wf set`), a notebook or another stage.

All ranks take a change at the same step: rank 0 reads the requests and decides, the others get its decision at each
step. What is taken is on the disk before it is used, so that every later attempt takes it at the same step.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from workflow.formats.json_lines import Tail
from workflow.formats.stage_file import StageSettings
from workflow.formats.steering_files import (
    ASKED_FILE,
    TAKEN_FILE,
    Value,
    ValueChange,
    append_change,
    in_order,
    read_changes,
    to_change,
)
from workflow.stage import settings
from workflow.stage.api.opened_ends import steps_of_streams
from workflow.stage.ranks import own_communicator, rank
from workflow.stage.stage_errors import RanksDiffer, StageError
from workflow.stage.telemetry import process_metrics

# How often rank 0 looks for requests.
LOOK_S = 0.25


def steered(step: int, /, **initial: Value) -> dict[str, Value]:
    """The values with which step number `step` is computed, by name. Collective over the ranks.

    >>> for step in range(steps):
    ...     values = stage.steered(step, feed=0.03)
    ...     advance(feed=values["feed"])

    Call it once before each step of the stage is computed. The number is that of the step in the stream that the stage
    writes, counted from 0; a program that goes on at a later step gives that one. `initial` are the values at the
    start; those that the pipeline declares by `steer:` take precedence, and are the only ones that change. A change
    holds from one step on, on all ranks, and is recorded; so it is taken at the same step again when the stage is
    started again, and by `wf resume` and `wf replay`. Without a run the values stay as they are.

    Raises StageError when the pipeline declares a value that the program does not have, or a step comes before the one
    of the last call; RanksDiffer when the ranks call it for different steps.
    """
    global _steering
    current = settings.current()
    if not current.steer:
        return dict(initial)
    if _steering is None or _steering.of is not current:
        _steering = SteeredValues(current, initial)
    return _steering.at(step)


def steer(stage: str, /, *, at_step: int | None = None, **values: Value) -> None:
    """Ask for new values of another stage, as `wf set` does. Returns at once; rank 0's call counts.

    >>> if step.read("V").max() > 0.4:
    ...     stage.steer("sim", feed=0.025)

    `at_step`: the first step of that stage that is computed with them; by default the next one that it begins. The
    supervisor checks them against what the pipeline declares. What is refused changes nothing: it is an event, and a
    note in the report. Without a run nothing happens.

    A request is known by the steps of its streams that this stage has begun, and by its number among those made there.
    A stage that is started again and makes it again at the same place gets nothing new: what has been asked since then
    holds. What it asks for before its first step is asked for once.

    Raises TypeError for a value that is no number, text, true or false, and ValueError for a number that is not finite.
    """
    plain = {name: _plain(name, value) for name, value in values.items()}
    process_metrics().write("steer", id=_next_id(), stage=stage, values=plain, step=at_step)


class _Asking(NamedTuple):
    """How many requests an attempt of this stage has made at one place of its work."""

    of: StageSettings
    place: str
    made: int


_asking: _Asking | None = None


def _next_id() -> str:
    """The same in each attempt of this stage that comes to this place."""
    global _asking
    current = settings.current()
    steps = steps_of_streams()
    reads = [end for end in current.ends if end.side == "read"]
    # The first step of an attempt begins with reading: what comes before it is no part of the last step before.
    is_start = bool(reads) and all(steps[end.stream] == end.first_step for end in reads)
    place = "start" if is_start else str(sum(steps.values()))
    same = _asking is not None and _asking.of is current and _asking.place == place
    made = _asking.made + 1 if _asking is not None and same else 0
    _asking = _Asking(current, place, made)
    return f"{current.stage}-{place}-{made}"


def _plain(name: str, value: Any) -> Value:
    """NumPy's numbers as Python's."""
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, bool | int | float | str):
        raise TypeError(f"{name}: expected a number, a text, True or False, got {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name}: expected a finite number, got {value}")
    return value


class SteeredValues:
    """The values of this stage, asked for at each step by all ranks in the same order."""

    def __init__(self, current: StageSettings, initial: dict[str, Value]) -> None:
        if unknown := sorted(current.steer.keys() - initial.keys()):
            has = ", ".join(sorted(initial)) or "none"
            raise StageError(
                f"the pipeline declares {unknown[0]!r} in `steer:`, and the program can be steered in {has}"
            )
        self.of = current
        self._values = {**initial, **current.steer}
        self._comm = own_communicator()
        self._last: int | None = None
        self._folder = Path(current.run_dir) / "stages" / current.stage
        before = read_changes(self._folder / TAKEN_FILE) if rank() == 0 else []
        taken = [each for each in before if not each.refused]
        # What was taken once is taken again, and nothing new in steps that others may have.
        self._first = max((end.first_step for end in current.ends if end.side == "write"), default=0)
        self._first = max([self._first, *(each.step for each in taken if each.step is not None)])
        # Those to come, in the order of their steps; the same on all ranks.
        self._changes = in_order([*map(to_change, current.changes), *taken])
        if self._comm is not None:
            self._changes = self._comm.bcast(self._changes)
        # Ids: what is asked for again, by a stage that was started again, is not taken again.
        self._answered = {each.id for each in (*before, *self._changes)}
        self._asked: list[ValueChange] = []  # on rank 0: what was asked for, and not answered yet
        self._tail = Tail(self._folder / ASKED_FILE)
        self._due = 0.0

    def at(self, step: int) -> dict[str, Value]:
        """The values of this step. Collective over the ranks."""
        if self._last is not None and step < self._last:
            raise StageError(f"stage.steered was called for step {step} after step {self._last}: steps go forward")
        new = self._take(step) if rank() == 0 else []
        if self._comm is not None:
            asked, new = self._comm.bcast((step, new))
            if asked != step:
                error = RanksDiffer(
                    f"rank 0 called stage.steered for step {asked}, but rank {rank()} for step {step}: call it for the "
                    "same step on all ranks"
                )
                error.agreed = False  # rank 0 does not know of it
                raise error
        if new:
            self._changes = in_order([*self._changes, *new])
        while self._changes and (self._changes[0].step or 0) <= step:
            self._apply(self._changes.pop(0), step)
        self._last = step
        return dict(self._values)

    def _apply(self, change: ValueChange, step: int) -> None:
        old = {name: self._values[name] for name in change.values if name in self._values}
        self._values.update(change.values)
        # What an attempt finds that begins later was recorded when it was taken.
        if change.step == step or self._last is not None:
            process_metrics().write(
                "steered", id=change.id, step=step, old=old, new=dict(change.values), by=change.by
            )  # fmt: skip

    def _take(self, step: int) -> list[ValueChange]:
        """On rank 0: the changes that begin at this step, each recorded before it is used."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + LOOK_S
            self._read(step)
        if not self._asked or step < self._first:
            return []
        due = [each for each in self._asked if each.step is None or each.step <= step]
        self._asked = [each for each in self._asked if each not in due]
        return [change for change in (replace(each, step=step) for each in due) if self._record(change)]

    def _read(self, step: int) -> None:
        """What is new in the file of requests. What was asked for a step that is over is refused."""
        for record in self._tail.records(fresh=True):
            try:
                change = to_change(record)
            except TypeError:
                continue  # damaged
            if change.id in self._answered:
                continue
            self._answered.add(change.id)
            passed = self._first if self._last is None else max(self._first, self._last + 1)
            if change.step is not None and change.step < passed:
                why = f"step {change.step} has passed: {self.of.stage} is at step {max(step, self._first)}"
                self._record(replace(change, refused=why))
            else:
                self._asked.append(change)

    def _record(self, change: ValueChange) -> bool:
        """Note what becomes of a request. Returns whether its values are to be used."""
        try:
            append_change(self._folder / TAKEN_FILE, change)
        except OSError as error:
            change = replace(change, refused=f"it cannot be recorded: {error.strerror}")
        if change.refused:
            values = dict(change.values)
            process_metrics().write("refused", id=change.id, values=values, by=change.by, reason=change.refused)
        return not change.refused


_steering: SteeredValues | None = None
