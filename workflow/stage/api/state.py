"""What a stage keeps from one attempt to the next: its state, and values of its first attempt."""

from __future__ import annotations

import io
import json
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from workflow.formats.kept_state import (
    ONCE_FILE,
    STATE_DIR,
    KeptState,
    StateFile,
    is_whole,
    rank_path,
    read_states,
    remove_state,
    write_record,
)
from workflow.formats.stage_file import StageSettings
from workflow.replace_file import replace_file
from workflow.stage import settings
from workflow.stage.api.opened_ends import steps_of_streams
from workflow.stage.api.stopping import expect_state, state_is_due
from workflow.stage.ranks import communicator, rank, size
from workflow.stage.stage_errors import StageError

_OTHERS = "wf.json"  # in the file of a rank: the values that are no arrays
# The newest may be damaged.
_LEAST_KEPT = 2
# A reader of a live stream may be so many steps behind, beside those in its queue: an attempt begins before those.
_MOST_BEHIND = 4


# In the file of a rank, the beginning of the names of what windows keep: no name that a program can give.
_WINDOW = "window "

# All values of a program are saved together, by one State: two could be of different steps.
_program: tuple[StageSettings, State] | None = None


def program_state() -> State | None:
    """The State of this program, where it has created one."""
    return _program[1] if _program is not None and _program[0] is settings.current() else None


class State(dict[str, Any]):
    """What a program needs to go on where it was: a mapping from names to values, which the next attempt of the stage,
    or the next part of the run, finds as it was.

    >>> state = stage.State(total=np.zeros(64), largest=0.0)
    >>> for step in field:
    ...     state["total"] += step.read("V").sum(axis=0)
    ...     with mean.step():
    ...         mean.write("mean", state["total"] / (step.index + 1))
    ...     state.save()

    Create it after the streams are opened and before the loop, with the values at the first step. In an attempt that
    goes on at a later step it has the values that were saved there. It is saved where the pipeline says so: by
    `checkpoint: {every: 60 s}` of the stage at most so often, and when the run is stopped; by `on_failure: restart`
    each time. Values are NumPy arrays, or what JSON has: numbers, texts, lists and mappings. Each rank has its own.
    What `Reader.window` keeps is saved with them. Collective over the ranks.

    Raises StageError when the state of the step at which this attempt begins cannot be read, or has other names.
    """

    def __init__(self, /, **initial: Any) -> None:
        super().__init__(initial)
        current = settings.current()
        global _program
        if program_state() is not None and current.run_dir:
            raise StageError("this program has a State already; put all values into one, and create it before the loop")
        _program = current, self
        self._folder = Path(current.run_dir) / "stages" / current.stage / STATE_DIR
        self._every_s = current.save_every_s
        self._last_s = time.monotonic()
        self._due = False
        self._number = 0
        self._kept: list[KeptState] = []  # on rank 0: those on disk, the oldest first
        self._carried: dict[str, Callable[[], Mapping[str, Any]]] = {}
        self._found: dict[str, Any] | None = None  # of windows, in the state that was taken; None: there was none
        if self._every_s is not None:
            expect_state()
        if current.run_dir:
            self._restore(initial)

    @property
    def saves(self) -> bool:
        """Whether it is saved at all: the pipeline has `checkpoint` or `on_failure: restart` for it."""
        return self._every_s is not None

    @property
    def interval_s(self) -> float | None:
        """At most so often it is saved, in seconds; 0: each time; None: not at all."""
        return self._every_s

    def is_due(self) -> bool:
        """Whether `save()` would save now: for values that take time to collect. Collective over the ranks."""
        if self._every_s is None:
            return False
        if not self._due:
            self._due = self._every_s == 0 or self._has_passed() or state_is_due()
        return self._due

    def _has_passed(self) -> bool:
        """Whether the time since the last state has passed, on rank 0."""
        passed, comm = time.monotonic() - self._last_s >= (self._every_s or 0), communicator()
        return passed if comm is None else bool(comm.bcast(passed))

    def save(self, **values: Any) -> None:
        """Save the values, as those that belong to all steps read and written so far. Collective over the ranks.

        Call it in the loop over the steps, when a step is written or before the next one is begun. `values` replace
        those of these names. Does nothing unless it is due (`is_due`).

        Raises TypeError for a value that cannot be saved, OSError when a file cannot be written.
        """
        if not self.is_due():
            return
        self.update(values)
        self._due, self._last_s = False, time.monotonic()
        self._number += 1
        path = rank_path(self._folder, self._number, rank())
        content = _to_bytes({**self, **self._values_of_windows()})
        replace_file(path, content)
        mine, comm = StateFile(path.name, len(content), zlib.crc32(content)), communicator()
        # The record is written when the files of all ranks are there.
        files = [mine] if comm is None else comm.gather(mine)
        if files is not None:
            state = KeptState(self._number, steps_of_streams(), files)
            write_record(self._folder, state)
            self._kept.append(state)
            self._remove_old()

    def carry(self, name: str, values: Callable[[], Mapping[str, Any]]) -> dict[str, Any] | None:
        """From now on save these values with those of the program: what the window of this name keeps between steps.

        Returns those of the state that was taken, empty where it has none of them; None where none was taken.
        """
        if self.saves:
            self._carried[name] = values
        if self._found is None:
            return None
        prefix = f"{_WINDOW}{name} "
        return {key.removeprefix(prefix): value for key, value in self._found.items() if key.startswith(prefix)}

    def _values_of_windows(self) -> dict[str, Any]:
        return {
            f"{_WINDOW}{name} {key}": value for name, make in self._carried.items() for key, value in make().items()
        }

    def _remove_old(self) -> None:
        """On rank 0: remove what neither an attempt of this stage nor a state of a reader can need."""
        kept = self._kept
        old = [each for each, after in pairwise(kept[: 1 - _LEAST_KEPT]) if _is_far_before(after, kept[-1])]
        needed = _needed_by_readers(kept) if old else set()
        for each in old:
            if each.number not in needed:
                remove_state(self._folder, each)
                kept.remove(each)

    def _restore(self, initial: Mapping[str, Any]) -> None:
        """Take the state of the step at which this attempt begins. Those after it are of an attempt that has failed."""
        comm = communicator()
        found = self._choose() if rank() == 0 else (False, None)
        again, number = found if comm is None else comm.bcast(found)
        if number is None:
            # Without `again` nothing was saved: what may fail goes on in the next part with the steps that come.
            if again and any(steps_of_streams().values()):
                raise StageError("the state of the step at which this attempt begins is not there, or damaged")
            return
        self._number = number
        values = _read(rank_path(self._folder, number, rank()))
        self._found = {name: values.pop(name) for name in [*values] if name.startswith(_WINDOW)}
        if values.keys() != initial.keys():
            raise StageError(
                f"the saved state has {', '.join(sorted(values))}, but the program has {', '.join(sorted(initial))}: "
                "it has changed since"
            )
        self.update(values)

    def _choose(self) -> tuple[bool, int | None]:
        """On rank 0: whether an earlier attempt may have saved a state, and the number of the newest one that belongs
        to the steps at which the streams begin."""
        again = self._folder.exists()
        # The folder alone says that the program has a state between its steps: it cannot begin at any of them.
        self._folder.mkdir(exist_ok=True)
        states, begins, found = read_states(self._folder), steps_of_streams(), None
        for state in states:
            fits = state.steps == begins and len(state.files) == size() and is_whole(self._folder, state)
            if found is None and fits:
                found = state.number
            if found is None:
                remove_state(self._folder, state)
            else:
                self._kept.insert(0, state)
        if again and found is None:
            print("note: there is no saved state that can be used: it begins at the first step", file=sys.stderr)
        return again, found


def _needed_by_readers(kept: Sequence[KeptState]) -> set[int]:
    """The numbers of those of these states, the oldest first, to which a stage behind this one that begins at one of
    its own states goes back: for each of those the newest that is not after it."""
    current, found = settings.current(), set[int]()
    for end in current.ends:
        for step in _begins_behind(end.stream, current, set()) if end.side == "write" else ():
            before = [own.number for own in kept if own.steps[end.stream] <= step]
            found |= set(before[-1:])
    return found


def _begins_behind(stream: str, current: StageSettings, visited: set[str]) -> Iterator[int]:
    """The steps of a stream at which a stage behind it may have to begin: those of the states that its readers have
    saved. A reader without a state writes a step for each that it reads, and begins where the stages behind it do: at
    the same step, or at a later one where it has skipped some. `visited`: streams that are not looked at again: they
    may go round in a circle."""
    if stream in visited:
        return
    visited.add(stream)
    for reader in current.readers.get(stream, ()):
        folder = Path(current.run_dir) / "stages" / reader / STATE_DIR
        if folder.exists():
            yield from (theirs.steps.get(stream, 0) for theirs in read_states(folder))
        else:
            for passed in current.written.get(reader, ()):
                yield from _begins_behind(passed, current, visited)


def _is_far_before(state: KeptState, newest: KeptState) -> bool:
    """Whether no reader of this stage can be so far behind that a state from before this one is needed."""
    ends = settings.current().ends
    queued = {end.stream: end.queue[0] for end in ends if end.side == "write"}
    behind = {name: newest.steps[name] - state.steps[name] for name in queued or state.steps}
    return all(steps >= queued.get(name, 0) + _MOST_BEHIND for name, steps in behind.items())


def _to_bytes(values: Mapping[str, Any]) -> bytes:
    """The content of a file: arrays and NumPy's numbers as they are, the others as JSON."""
    arrays = {name: np.asarray(value) for name, value in values.items() if isinstance(value, np.ndarray | np.generic)}
    if wrong := [name for name, array in arrays.items() if array.dtype.hasobject]:
        raise TypeError(f"state {wrong[0]!r} has Python objects as elements, which cannot be saved; use numbers")
    others = {name: value for name, value in values.items() if name not in arrays}
    arrays[_OTHERS] = np.frombuffer(json.dumps(others).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _read(path: Path) -> dict[str, Any]:
    """The values in a file. Raises StageError when it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        others = json.loads(arrays.pop(_OTHERS).tobytes())
    # What NumPy and its reader of zip files raise for damaged bytes has no common class.
    except Exception as error:
        raise StageError(f"the saved state {path} cannot be read: {error}") from error
    return {**others, **{name: array if array.ndim else array[()] for name, array in arrays.items()}}


def once(name: str, make: Callable[[], Any]) -> Any:
    """The value of `make()`, as the first attempt of this stage found it. Collective over the ranks.

    For what a program derives from the first step that it reads, and needs in all steps that follow: an attempt that
    goes on at step 41 gets the same value again. It must consist of what JSON has: numbers, texts, lists, mappings.
    Rank 0's value is taken. Without a run `make` is called.

    >>> edges = stage.once("edges", lambda: [float(field.min()), float(field.max())])

    Raises TypeError for a value that JSON does not have, OSError when it cannot be kept.
    """
    comm = communicator()
    value = _keep(name, make) if rank() == 0 else None
    return value if comm is None else comm.bcast(value)


def _keep(name: str, make: Callable[[], Any]) -> Any:
    current = settings.current()
    if current.by_hand:
        return make()
    path = Path(current.run_dir) / "stages" / current.stage / ONCE_FILE
    known: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
    if name not in known:
        known[name] = json.loads(json.dumps(make()))
        replace_file(path, json.dumps(known).encode())
    return known[name]
