"""The last steps of a stream as one array: a loop over windows instead of steps, which goes on after a restart.

What a window keeps between two steps is saved with the state of the program. A program that has no state gets one that
is saved when all steps of the window are new, so each value is written once: the steps since are done again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from workflow.distribution.boxes import Shape
from workflow.stage.api.state import State, program_state
from workflow.stage.api.step import StartAndCount, Step
from workflow.stage.stage_errors import StageError, StepRemoved
from workflow.stage.variables import Array, Info, fresh_array, selection

if TYPE_CHECKING:
    import xarray

# The box of a variable: (start, count); by default the whole variable; or what a function makes of the whole's shape.
WantedBox = StartAndCount | Callable[[Shape], StartAndCount] | None
Wanted = str | Iterable[str] | Mapping[str, WantedBox]
_KNOWN = "known"  # in the saved state: what the window is of


class StepReader(Protocol):
    """What gives the steps: a `Reader`. `steps`: how many are finished so far."""

    name: str
    steps: int

    def __next__(self) -> Step:
        """The next step; StopIteration at the end of the stream."""


class Kept(NamedTuple):
    """The values of a variable in the last steps: its global type and shape, and the box of it."""

    info: Info
    start: Shape
    extent: Shape
    slots: Slots


class Window:
    """The last steps of a stream, the newest one included.

    `step`: the newest step, from which anything else can be read; `steps`: the numbers of all, the oldest first. There
    are fewer at the beginning of the stream: `len(window)` is their number.
    """

    def __init__(self, step: Step, steps: tuple[int, ...], kept: Mapping[str, Kept]) -> None:
        self.step, self.steps = step, steps
        self._kept = kept
        self._views = {name: each.slots.last(len(steps)) for name, each in kept.items()}

    def __len__(self) -> int:
        return len(self.steps)

    def read(self, name: str) -> Array:
        """The values of a variable, an array of shape [n, …] with the oldest step first. It is not a copy.

        The array cannot be changed, and its values stay as they are in later steps. Raises StageError for a variable
        that the window was not asked for.
        """
        self._check(name)
        return self._views[name]

    def box(self, name: str) -> tuple[Shape, Shape]:
        """(start, count) of what `read` returns of each step, in the whole variable."""
        self._check(name)
        return self._kept[name].start, self._kept[name].extent

    def to_xarray(self) -> xarray.Dataset:
        """All variables of the window as a dataset of xarray, with an axis `step`; see `Reader.to_xarray`."""
        from workflow.stage.api.labelled_arrays import to_dataset  # only programs that use xarray pay for it

        return to_dataset(self.step, self.steps, self._views)

    def _check(self, name: str) -> None:
        if name not in self._kept:
            raise StageError(f"this window is of {', '.join(self._kept)}, not of {name!r}: name it in `reader.window`")


class Windows(Iterator[Window]):
    """The loop over the windows of a stream; see `Reader.window`."""

    def __init__(self, reader: StepReader, length: int, wanted: Wanted) -> None:
        if length < 1:
            raise ValueError(f"a window has at least one step, not {length}")
        self._reader, self._length, self._boxes = reader, int(length), _to_boxes(wanted)
        if not self._boxes:
            raise ValueError("a window needs the names of its variables")
        self._steps: list[int] = []
        self._kept: dict[str, Kept] = {}
        self._state: State | None = None
        self._saves_itself = False
        self._new = 0  # how many steps have come since the state was saved

    def __iter__(self) -> Windows:
        return self

    def __next__(self) -> Window:
        if self._state is None:
            self._begin()
        else:
            self._save(self._state)
        while True:
            step = next(self._reader)
            try:
                self._add(step)
            except StepRemoved:
                continue
            self._new += 1
            return Window(step, tuple(self._steps), self._kept)

    def _begin(self) -> None:
        """At the first step: what an earlier attempt has kept."""
        self._state = program_state()
        if self._state is None:
            self._state, self._saves_itself = State(), True
        found = self._state.carry(self._reader.name, self._to_values)
        # A state that was saved before the first window has none of its values.
        if found or (found is not None and self._reader.steps):
            self._take(found)

    def _save(self, state: State) -> None:
        """Between two steps: all that the program has written belongs to the steps before."""
        if self._saves_itself and (state.interval_s or self._new >= self._length):
            state.save()
            self._new = 0

    def _add(self, step: Step) -> None:
        for name, box in self._boxes.items():
            info, known = step.info(name), self._kept.get(name)
            if known is None:
                self._kept[name] = self._first(name, info, box)
            elif known.info != info:
                raise StageError(
                    f"stream {self._reader.name}: {name} has type {info.type} and shape {info.shape} in step "
                    f"{step.index}, but {known.info.type} and {known.info.shape} in the steps before: a window needs "
                    "one shape; read such a variable step by step"
                )
        found = step.read_many({name: (each.start, each.extent) for name, each in self._kept.items()})
        for name, each in self._kept.items():
            each.slots.add(np.asarray(found[name]))
        self._steps = [*self._steps, step.index][-self._length :]

    def _first(self, name: str, info: Info, box: WantedBox) -> Kept:
        if info.type == "string":
            raise StageError(f"stream {self._reader.name}: {name} is text: read it by `window.step.read`")
        start, count = (box(info.shape) if callable(box) else box) or (None, None)
        whole = selection(name, info.shape, start, count)
        return Kept(info, whole.start, whole.extent, Slots(self._length))

    def _to_values(self) -> dict[str, Any]:
        """What the next step needs: all but the oldest, where the window is full."""
        steps = self._steps[-self._length + 1 :] if self._length > 1 else []
        known = {name: [each.info.type, each.info.shape, each.start, each.extent] for name, each in self._kept.items()}
        arrays = {str(i): each.slots.last(len(steps)) for i, each in enumerate(self._kept.values())}
        return {_KNOWN: {"length": self._length, "steps": steps, "variables": known}, **arrays}

    def _take(self, values: Mapping[str, Any]) -> None:
        known: Mapping[str, Any] = values.get(_KNOWN, {"length": 0, "variables": {}})
        if known["length"] != self._length or (known["variables"] and {*known["variables"]} != {*self._boxes}):
            saved = f"{known['length']} steps of {', '.join(known['variables'])}" if known["length"] else "no window"
            raise StageError(
                f"stream {self._reader.name}: the saved state has {saved}, but the program wants {self._length} steps "
                f"of {', '.join(self._boxes)}: it has changed since"
            )
        self._steps = [int(step) for step in known["steps"]]
        for i, (name, (kind, shape, start, count)) in enumerate(known["variables"].items()):
            slots = Slots(self._length)
            for each in values[str(i)]:
                slots.add(each)
            self._kept[name] = Kept(Info(kind, tuple(shape)), tuple(start), tuple(count), slots)


class Slots:
    """The values of the last steps, one after the other in memory.

    The room is twice as long as the window. When it is full, the last values are copied to the beginning of another
    one: that is at most one more copy for each step, and arrays that were handed out stay as they are.
    """

    def __init__(self, length: int) -> None:
        self._length, self._end = length, 0
        self._room: Array | None = None

    def add(self, values: Array) -> None:
        """Add those of the next step."""
        if self._room is None or self._end == len(self._room):
            before, known = min(self._end, self._length - 1), self._room
            room = fresh_array((2 * self._length, *values.shape), values.dtype.str)
            if known is not None:
                room[:before] = known[self._end - before : self._end]
            self._room, self._end = room, before
        self._room[self._end] = values
        self._end += 1

    def last(self, number: int) -> Array:
        """Those of so many steps, the oldest first; it cannot be changed."""
        found = np.empty(0) if self._room is None else self._room[self._end - number : self._end]
        found.flags.writeable = False
        return found


def _to_boxes(wanted: Wanted) -> dict[str, WantedBox]:
    if isinstance(wanted, str):
        return {wanted: None}
    return dict(wanted) if isinstance(wanted, Mapping) else dict.fromkeys(wanted)
