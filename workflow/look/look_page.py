"""The page: what it carries as JSON, and the HTML that holds it, its scripts and the library that draws. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from workflow.formatting import plural, size
from workflow.look.drawn_variables import DataView, VariableLabel, ViewKind
from workflow.look.files_to_look_at import RunTitles
from workflow.look.fit_page_size import thinning_text
from workflow.look.read_numbers import Carried, FileView
from workflow.physical_units import readable
from workflow.report.html.page import TEMPLATES


def make_look_page(
    titles: RunTitles, names: Sequence[str], files: Sequence[FileView], notes: Sequence[str], library: str
) -> str:
    """The whole page.

    `names`: of the runs, as the user knows them; `notes`: what was left out, and why; `library`: the JavaScript of
    Plotly.
    """
    return TEMPLATES.get_template("look.html.j2").render(
        title=titles.title,
        runs=titles.runs,
        names=" and ".join(names),
        summary=summary(files),
        thinned=thinned_lines(files),
        notes=notes,
        library=library,
        model=_model_text(titles.runs, files),
        live=False,
    )


def make_live_page(title: str, run: str, streams: Sequence[str], library: str) -> str:
    """The page of a running run, as it is at first: without steps, which it asks for."""
    return TEMPLATES.get_template("look.html.j2").render(
        title=title,
        runs=[run],
        names=run,
        summary=f"the newest steps of {' and '.join(streams)}",
        thinned=[],
        notes=[],
        library=library,
        model=_model_text([run], []),
        live=True,
    )


def _model_text(runs: Sequence[str], files: Sequence[FileView]) -> str:
    model = json.dumps(to_model(runs, files), allow_nan=False, separators=(",", ":"))
    return model.replace("<", "\\u003c")  # nothing in a name can end the element


def thinned_lines(files: Sequence[FileView]) -> list[str]:
    """What is thinned: `field.bp: V: every 2nd cell along each axis`."""
    texts = ((file, view, thinning_text(view, file.thinned[view.name])) for file in files for view in file.views)
    return [f"{file.name}: {view.name}: {text}" for file, view, text in texts if text]


def summary(files: Sequence[FileView]) -> str:
    """`2 files, 9 variables, 41 steps, 3.1 MB of numbers`."""
    variables = sum(len(file.views) for file in files)
    steps = max((len(file.steps) for file in files), default=0)
    return ", ".join(
        (
            plural(len(files), "file"),
            plural(variables, "variable"),
            plural(steps, "step"),
            f"{size(carried_size(files))} of numbers",
        )
    )


def carried_size(files: Sequence[FileView]) -> int:
    """Bytes of all numbers in the page, as they stand in it."""
    return sum(
        len(text)
        for file in files
        for runs in file.carried.values()
        for columns in runs
        for column in columns
        for text in column.values
        if text is not None
    )


def to_model(runs: Sequence[str], files: Sequence[FileView]) -> dict[str, Any]:
    """What look_panels.js reads."""
    return {
        "runs": list(runs),
        "files": [_file(file) for file in files],
        "first": first_view(files) if files else None,
    }


def _file(file: FileView) -> dict[str, Any]:
    times = [abs(time) for each in file.times for time in each if time is not None]
    time_factor, time_unit = readable(file.time_unit, max(times, default=0.0)) if file.time_unit else (1.0, "")
    largest = _largest(file)
    return {
        "name": file.title or file.name,
        "steps": list(file.steps),
        "times": [list(times) for times in file.times],
        "timeUnit": time_unit,
        "timeFactor": time_factor,
        "views": [_view(file, view, largest) for view in file.views if view.name in file.carried],
    }


def _largest(file: FileView) -> dict[str, float]:
    """Unit → the largest modulus of all values that have it: coordinates of one unit stay in one."""
    found: dict[str, float] = {}
    for name, columns in ((view.name, view.columns) for view in file.views if view.name in file.carried):
        for run in file.carried[name]:
            for column, each in zip(columns, run, strict=True):
                unit = file.labels.get(column.variable, VariableLabel()).unit
                found[unit] = max(found.get(unit, 0.0), abs(each.low or 0.0), abs(each.high or 0.0))
    return found


def _view(file: FileView, view: DataView, largest: Mapping[str, float]) -> dict[str, Any]:
    thinning = file.thinned[view.name]
    return {
        "name": view.name,
        "kind": view.kind,
        "columns": [_column(file, view, index, largest) for index in range(len(view.columns))],
        # Indices into the steps of the file.
        "taken": list(range(0, len(file.steps), thinning.every)),
        "strides": list(thinning.strides),
        "itemBytes": thinning.item_bytes,
        "thinned": thinning_text(view, thinning),
        "runs": [
            {
                "extents": [extent and list(extent) for extent in extents[:: thinning.every]],
                "columns": [column._asdict() for column in columns],
            }
            for extents, columns in zip(view.extents, file.carried[view.name], strict=True)
        ],
    }


def _column(file: FileView, view: DataView, index: int, largest: Mapping[str, float]) -> dict[str, str | float]:
    """`factor`: by what the page multiplies the numbers, so that they are in this unit."""
    column = view.columns[index]
    text, unit = file.labels.get(column.variable, VariableLabel())
    factor, unit = readable(unit, largest.get(unit, 0.0)) if unit else (1.0, "")
    if view.kind == "vectors":
        return {
            "name": column.label,
            "label": f"{text or column.variable} {column.label}",
            "unit": unit,
            "factor": factor,
        }
    label = column.label if view.kind == "particles" or not text else text
    return {"name": column.label, "label": label, "unit": unit, "factor": factor}


_RANKS: dict[ViewKind, int] = {"volume": 0, "image": 0, "particles": 1, "vectors": 2, "line": 3, "scalar": 5}
_COORDINATE = 4
# Cells along an axis of a field; less is a small matrix, such as the corners of a box.
_FEWEST_CELLS = 4


# What a run has archived comes before what it has kept for itself, and what changes over the steps before what stays
# the same; of these fields of two or three dimensions, then particles, vectors, curves, curves that are the coordinates
# of others, scalars; of these the one with the most cells. What is one number everywhere comes last.


def first_view(files: Sequence[FileView]) -> int:
    """The number of the view in the page's list, which has the views of all files that are carried, one after another.

    At least one must be carried. Of equal ones it is the first.
    """
    entries = [(file, view) for file in files for view in file.views if view.name in file.carried]
    return min(range(len(entries)), key=lambda index: _order(*entries[index]))


def _order(file: FileView, view: DataView) -> tuple[bool, bool, bool, int, int]:
    columns = [column for run in file.carried[view.name] for column in run]
    is_constant = all(column.low == column.high for column in columns)
    changes = any(len({text for text in column.values if text is not None}) > 1 for column in columns)
    extents = [extent for each in view.extents for extent in each if extent is not None]
    rank = _RANKS[view.kind]
    if rank == 0 and any(sum(length >= _FEWEST_CELLS for length in extent) < 2 for extent in extents):
        rank = _RANKS["line"]
    if view.kind == "line" and any(_is_monotonic(column, file.thinned[view.name].item_bytes) for column in columns):
        rank = _COORDINATE
    return is_constant, file.is_spool, not changes, rank, -max(map(prod, extents), default=0)


def _is_monotonic(column: Carried, item_bytes: int) -> bool:
    """Whether the values of its first step go up or down all along."""
    text = next((each for each in column.values if each is not None), "")
    slopes = np.diff(np.frombuffer(base64.b64decode(text), f"<f{item_bytes}"))
    return bool(slopes.size and (np.all(slopes > 0) or np.all(slopes < 0)))
