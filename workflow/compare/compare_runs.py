"""`wf compare`: do two runs, or two files, hold the same data? Which variable and step differ first, by how much?

Both sides are read step by step and box by box, so that memory does not grow with the data.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from workflow.compare.comparison import Comparison, Difference, FileComparison
from workflow.compare.parts_of_files import ALL_STEPS, CommonPart, FilePart, common_part, find_parts
from workflow.compare.tolerance import DEFAULT_TOLERANCE, check_tolerance
from workflow.data_files.read_steps import (
    DataStep,
    VariableError,
    VariableKind,
    boxes,
    find_data,
    is_data,
    open_data,
)
from workflow.data_files.reading_process import HINT as DAMAGED
from workflow.data_files.reading_process import ReadingProcess
from workflow.engines import engine_of_data, traits_of
from workflow.errors import RunError, WfError
from workflow.formats.step_files import numbered_path
from workflow.run.records.events_file import EVENTS_FILE, read_events
from workflow.run.records.find_runs import find_run
from workflow.run.records.run_directory import read_filled_plan
from workflow.run.state.lifecycle_events import RunFinished
from workflow.spec.suggest import shortened
from workflow.spec.user_paths import path_mistake

__all__ = ["Comparison", "compare_runs"]

# Attributes of openPMD that say when and by what a file was written.
_HOW_WRITTEN = frozenset({"/date", "/software", "/softwareVersion", "/softwareDependencies", "/machine"})

HINT = "wf compare runs/ONE runs/OTHER, or wf compare ONE.bp OTHER.bp"


def compare_runs(
    a: str | os.PathLike[str], b: str | os.PathLike[str], tolerance: float = DEFAULT_TOLERANCE
) -> Comparison:
    """Compare all BP and HDF5 files that two run directories both have, or two such files.

    Files are matched by their path inside the run directory. Two values are equal when they are the same,
    both NaN, or differ by no more than `tolerance` × the larger magnitude. What only one side has is
    named; a missing stream does not make the sides different, because a streamed run keeps fewer files.

    A run is named by its path, by its name below `runs/` (its beginning or its id is enough), or as `latest`.

    Raises:
        WfError: these are not two runs or two files, or numpy or adios2 is missing.
        RunError: one of two files cannot be read. In runs that is noted, and the other files are compared.
    """
    check_tolerance(tolerance)
    a, b = Path(a), Path(b)
    one, other = _side(a), _side(b)
    files_a, files_b = _files(one), _files(other)
    if is_data(one) != is_data(other):
        raise WfError(f"{a} and {b}: one is a file, the other a run; compare two files or two runs")
    if is_data(one):
        pairs, only_a, only_b = [(one.name, one, other)], [], []
    else:
        pairs = [(name, path, files_b[name]) for name, path in files_a.items() if name in files_b]
        only_a = [name for name in files_a if name not in files_b]
        only_b = [name for name in files_b if name not in files_a]
    parts = [{} if is_data(run) else find_parts(run, files) for run, files in ((one, files_a), (other, files_b))]
    notes = [_part_note(given, part) for given, part in ((a, parts[0]), (b, parts[1])) if any(part.values())]
    unlike = [name for name, _, _ in pairs if any(name in part and part[name] is None for part in parts)]
    notes += [f"{name} is left out: it has every n-th step, counted from another one" for name in unlike]
    pairs = [pair for pair in pairs if pair[0] not in unlike]
    with ReadingProcess() as reading:
        files = [
            _compare_in(reading, name, left, right, tolerance, common_part(*(part.get(name) for part in parts)))
            for name, left, right in pairs
        ]
    if left := sorted({name for file in files for name in file.not_compared}):
        notes.append(f"not compared: {', '.join(left)}: when and by what an openPMD file was written")
    notes += [note for name, run in ((a, one), (b, other)) for note in incomplete_notes(name, run)]
    if not is_data(one):
        notes += [_why_no_file(name, run) for name, run, its in ((a, one, files_a), (b, other, files_b)) if not its]
    comparison = Comparison(
        a=str(a), b=str(b), tolerance=tolerance, only_a=only_a, only_b=only_b, files=files, notes=notes
    )
    if is_data(one) and comparison.unreadable:
        raise RunError(comparison.unreadable[0].message, DAMAGED)
    return comparison


def _compare_in(
    reading: ReadingProcess, name: str, a: Path, b: Path, tolerance: float, part: CommonPart
) -> FileComparison:
    """Compare two files in the process that may die of them."""
    try:
        return reading.call(compare_files, name, a, b, tolerance, part)
    except RunError as error:
        tally = _Tally(tolerance)
        tally.note(Difference(what="unreadable", name="", step=None, message=error.message))
        return tally.result(name)


def compare_files(name: str, a: Path, b: Path, tolerance: float, part: CommonPart = ALL_STEPS) -> FileComparison:
    """Compare two files, or the steps that both have; a file that cannot be read is noted."""
    tally = _Tally(tolerance, part.first)
    try:
        with open_data(a) as steps_a, open_data(b) as steps_b:
            wanted = [
                islice(steps, skipped, None if part.last is None else skipped + part.last - part.first)
                for steps, skipped in zip((steps_a, steps_b), part.skipped, strict=True)
            ]
            by_step = not any(
                numbered_path(path) is None and traits_of(engine_of_data(path)).attributes_at_end for path in (a, b)
            )
            for step_a, step_b in _paired(*wanted):
                tally.add(step_a, step_b, by_step)
            if not by_step:
                tally.add_attributes()
    except RunError as error:
        tally.note(Difference(what="unreadable", name="", step=tally.steps, message=error.message))
    return tally.result(name)


def _paired(
    steps_a: Iterator[DataStep], steps_b: Iterator[DataStep]
) -> Iterator[tuple[DataStep | None, DataStep | None]]:
    """The steps side by side: those of openPMD by their number, others in order; None where a side has none."""
    a, b = next(steps_a, None), next(steps_b, None)
    while a is not None or b is not None:
        numbers = (None, None) if a is None or b is None else (a.iteration, b.iteration)
        if numbers[0] is None or numbers[1] is None or numbers[0] == numbers[1]:
            yield a, b
            a, b = next(steps_a, None), next(steps_b, None)
        elif numbers[0] < numbers[1]:
            yield a, None
            a = next(steps_a, None)
        else:
            yield None, b
            b = next(steps_b, None)


class _Tally:
    """The differences found so far, added up over the steps: one for each variable."""

    def __init__(self, tolerance: float, first: int = 0) -> None:
        self.steps = self._first = first
        self._lengths = [first, first]
        self._tolerance, self._bytes = tolerance, 0
        self._variables: set[str] = set()
        self._found: dict[tuple[str, str], Difference] = {}
        self._not_compared: set[str] = set()
        self._attributes: tuple[dict[str, Any], dict[str, Any]] = {}, {}

    def add(self, a: DataStep | None, b: DataStep | None, attributes: bool) -> None:
        """Compare the two sides of one step; None: this side has ended. `attributes`: those of each step, too; else
        they are kept until `add_attributes`."""
        self._lengths = [length + (step is not None) for length, step in zip(self._lengths, (a, b), strict=True)]
        if a is None or b is None:
            self._note_single(a, b)
            return
        kinds_a, kinds_b = a.kinds(), b.kinds()
        self._variables |= kinds_a.keys() | kinds_b.keys()
        for name in sorted(kinds_a.keys() | kinds_b.keys()):
            difference = _compare_kinds(name, kinds_a.get(name), kinds_b.get(name), self.steps)
            difference = difference or self._compare_values(name, kinds_a[name], a, b)
            if difference:
                self.note(difference)
        for known, step in zip(self._attributes, (a, b), strict=True):
            if attributes:
                known.clear()
            known.update(_without_tables(step.attributes()))
        if attributes:
            self._compare_attributes(self.steps)
        self.steps += 1

    def add_attributes(self) -> None:
        """Compare the last value of each attribute, at the last step."""
        self._compare_attributes(max(self._first, self.steps - 1))

    def _compare_attributes(self, step: int) -> None:
        attributes_a, attributes_b = self._attributes
        written = _HOW_WRITTEN if "/openPMD" in attributes_a and "/openPMD" in attributes_b else frozenset()
        for difference in _different_attributes(attributes_a, attributes_b, step):
            if difference.name in written:
                self._not_compared.add(difference.name)
            else:
                self.note(difference)

    def _note_single(self, a: DataStep | None, b: DataStep | None) -> None:
        """An openPMD iteration that only one side has."""
        only = a or b
        if only is not None and only.iteration is not None:
            side = "B" if a is None else "A"
            self.note(
                Difference(
                    what="missing", name=f"/data/{only.iteration}/", step=self.steps, message=f"only in {side}"
                )
            )  # fmt: skip

    def note(self, new: Difference) -> None:
        """Add a difference of a variable: the place of the first one is kept, the sums grow."""
        old = self._found.get((new.what, new.name))
        if old is not None:
            largest = {key: _larger(getattr(old, key), getattr(new, key)) for key in ("max_abs", "max_rel")}
            sums = {key: getattr(old, key) + getattr(new, key) for key in ("steps", "values", "of")}
            new = old.model_copy(update=largest | sums)
        self._found[new.what, new.name] = new

    def result(self, path: str) -> FileComparison:
        """Everything found, the file as a whole first, then in the order of steps."""
        if self._lengths[0] != self._lengths[1] and ("unreadable", "") not in self._found:
            a, b = self._lengths
            text = f"{a} steps and {b} steps"
            self.note(Difference(what="steps", name="", step=min(a, b), steps=abs(a - b), message=text))
        found = sorted(self._found.values(), key=lambda each: (each.name != "", each.step or 0, each.name))
        return FileComparison(
            path=path, steps=self.steps - self._first, variables=len(self._variables), bytes=self._bytes,
            differences=found, not_compared=sorted(self._not_compared),
        )  # fmt: skip

    def _compare_values(self, name: str, kind: VariableKind, a: DataStep, b: DataStep) -> Difference | None:
        from workflow.compare.array_difference import Spread

        spread = Spread(self._tolerance)
        try:
            if kind.local:
                blocks = a.read_blocks(name), b.read_blocks(name)
                shapes = [[list(block.shape) for block in side] for side in blocks]
                if shapes[0] != shapes[1]:
                    message = f"blocks {_short(shapes[0])} and {_short(shapes[1])}"
                    return Difference(what="shape", name=name, step=self.steps, message=message)
                for one, other in zip(*blocks, strict=True):
                    self._bytes += spread.add(one, other, (0,) * one.ndim)
            for start, count in () if kind.local else boxes(kind.shape, kind.type):
                self._bytes += spread.add(a.read(name, start, count), b.read(name, start, count), start)
        except VariableError as error:
            return Difference(what="unreadable", name=name, step=self.steps, message=error.message)
        return spread.difference(name, self.steps)


def _compare_kinds(name: str, a: VariableKind | None, b: VariableKind | None, step: int) -> Difference | None:
    if a is None or b is None:
        return Difference(what="missing", name=name, step=step, message="only in B" if a is None else "only in A")
    if a.type != b.type:
        return Difference(what="type", name=name, step=step, message=f"{a.type} and {b.type}")
    if a.local != b.local:
        message = " and ".join("local blocks" if kind.local else str(list(kind.shape)) for kind in (a, b))
        return Difference(what="shape", name=name, step=step, message=message)
    if a.shape != b.shape:
        return Difference(what="shape", name=name, step=step, message=f"{list(a.shape)} and {list(b.shape)}")
    return None


def _without_tables(attributes: dict[str, Any]) -> dict[str, Any]:
    """Without those of openPMD-api that count the steps of ADIOS2."""
    return {name: value for name, value in attributes.items() if not name.startswith("__openPMD_")}


def _different_attributes(a: dict[str, Any], b: dict[str, Any], step: int) -> Iterator[Difference]:
    import numpy as np

    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            message = "only in B" if name not in a else "only in A"
            yield Difference(what="attribute", name=name, step=step, message=message)
            continue
        one, other = np.asarray(a[name]), np.asarray(b[name])
        numbers = one.dtype.kind in "fc" and other.dtype.kind in "fc"
        if not np.array_equal(one, other, equal_nan=numbers):
            message = f"{_short(a[name])} and {_short(b[name])}"
            yield Difference(what="attribute", name=name, step=step, message=message)


def _short(value: Any) -> str:
    text = repr(value.tolist() if hasattr(value, "tolist") else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _larger(a: float | None, b: float | None) -> float | None:
    return max((each for each in (a, b) if each is not None), default=None)


def _files(path: Path) -> dict[str, Path]:
    return {path.name: path} if is_data(path) else find_data(path)


def _side(given: Path) -> Path:
    """The file or the run that is meant. Raises WfError when it is neither."""
    if mistake := path_mistake(given):
        raise WfError(f"{shortened(str(given))}: {mistake}", HINT)
    if not is_data(given) and given.is_file():
        raise WfError(f"{given}: neither a run directory nor a .bp or .h5 file", HINT)
    return given if is_data(given) else find_run(given)


def _part_note(given: Path, parts: dict[str, FilePart | None]) -> str:
    first, last = next((part.first, part.last) for part in parts.values() if part)
    until = "" if last is None else f" to {last - 1}"
    return f"{given} has the steps from {first}{until} of its record: these are compared"


def _why_no_file(name: Path, run: Path) -> str:
    """What to do so that there is something to compare."""
    with contextlib.suppress(WfError):
        plan = read_filled_plan(run)
        if plan.streams and all(stream.traits.in_memory for stream in plan.streams):
            return f"{name} has no BP or HDF5 file: its streams leave none; add a sink `archive`, which keeps them"
    return f"{name} has no data; a campaign with `keep: records` removes those of its runs"


def incomplete_notes(name: Path, run: Path) -> Iterator[str]:
    """A note for a run that did not succeed: it may have left half of its data."""
    if not (run / EVENTS_FILE).exists():
        return
    verdict = next((event.state for event in read_events(run) if isinstance(event, RunFinished)), "has not ended")
    if verdict != "succeeded":
        yield f"{name} {verdict}: its files may be incomplete"
