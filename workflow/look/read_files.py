"""All files of one run or two → what the page carries of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from workflow.compare.reading_process import ReadingProcess
from workflow.errors import RunError
from workflow.look.look_model import Carried, FileContents, FileView, VariableLabel
from workflow.look.read_archive import read_contents, read_numbers
from workflow.look.thinning import thin
from workflow.look.views import all_steps, make_views

RunFiles = Mapping[str, Path]


def read_files(runs: Sequence[RunFiles], limit: int) -> tuple[list[FileView], list[str]]:
    """The files that one of the runs has, with at most `limit` bytes of numbers in the page; and what was left out.

    Two runs of one file each are taken as the same file, whatever its names.

    Raises:
        RunError: there are no numbers, or no file can be read. WfError: a library that this takes is not installed.
    """
    if all(len(files) == 1 for files in runs):
        name = next(iter(runs[0]))
        runs = [{name: path} for files in runs for path in files.values()]
    with ReadingProcess() as reading:
        return _read_in(reading, runs, limit)


def _read_in(reading: ReadingProcess, runs: Sequence[RunFiles], limit: int) -> tuple[list[FileView], list[str]]:
    notes: list[str] = []
    described = [_describe(reading, name, runs, notes) for name in sorted({name for files in runs for name in files})]
    # Base64 takes four bytes for three.
    chosen = iter(thin([view for file in described for view in file.views], limit * 3 // 4))
    found = []
    for file in described:
        thinned = {view.name: thinning for view, thinning in zip(file.views, chosen, strict=False) if thinning}
        large = [view.name for view in file.views if view.name not in thinned]
        notes += [f"{file.name}: {name} is left out: too large for this page even when thinned" for name in large]
        views = tuple(view for view in file.views if view.name in thinned)
        found.append(_with_numbers(reading, replace(file, views=views, thinned=thinned), runs, notes))
    if not any(file.views for file in found):
        hint = "if a file is still being written, look again when it has ended; what it should hold: wf report"
        raise RunError("there are no numbers to look at" + (f": {'; '.join(notes)}" if notes else ""), hint)
    return [file for file in found if file.views], notes


def _describe(reading: ReadingProcess, name: str, runs: Sequence[RunFiles], notes: list[str]) -> FileView:
    """A file without numbers."""
    contents = [_contents(reading, files.get(name), notes) for files in runs]
    steps = all_steps(contents)
    views, left_out = make_views(contents, steps)
    if left_out:
        notes.append(f"{name}: left out: {', '.join(f'{variable} ({why})' for variable, why in left_out.items())}")
    labels: dict[str, VariableLabel] = {}
    for each in contents:
        labels |= dict(each.labels) if each is not None else {}
    unit = next((each.time_unit for each in contents if each is not None), "")
    times = tuple(_times(each, steps) for each in contents)
    return FileView(name, steps, times, unit, labels, tuple(views), {})


def _contents(reading: ReadingProcess, path: Path | None, notes: list[str]) -> FileContents | None:
    if path is None:
        return None
    try:
        return reading.call(read_contents, path)
    except RunError as error:
        notes.append(f"left out: {error.message}")
        return None


def _times(contents: FileContents | None, steps: Sequence[int]) -> tuple[float | None, ...]:
    known = {mark.number: mark.time for mark in contents.steps} if contents is not None else {}
    return tuple(known.get(step) for step in steps)


def _with_numbers(reading: ReadingProcess, file: FileView, runs: Sequence[RunFiles], notes: list[str]) -> FileView:
    nothing = Carried((), None, None)
    read: list[dict[str, tuple[Carried, ...]]] = []
    for run, files in enumerate(runs):
        numbers: dict[str, tuple[Carried, ...]] = {}
        if file.name in files and any(extent is not None for view in file.views for extent in view.extents[run]):
            try:
                numbers, failed = reading.call(
                    read_numbers, files[file.name], run, file.steps, file.views, file.thinned
                )
                notes += [f"left out: {text}" for text in failed]
            except RunError as error:
                notes.append(f"left out: {error.message}")
        read.append(numbers)
    views = tuple(view for view in file.views if any(view.name in numbers for numbers in read))
    carried = {
        view.name: tuple(numbers.get(view.name, (nothing,) * len(view.columns)) for numbers in read) for view in views
    }
    return replace(file, views=views, carried=carried)
