"""The page: what it carries as JSON, and the HTML that holds it, its scripts and the library that draws. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from workflow.formatting import plural, size
from workflow.look.first_view import first_view
from workflow.look.look_model import DataView, FileView
from workflow.look.run_titles import RunTitles
from workflow.look.thinning import thinning_text
from workflow.physical_units import printed
from workflow.report.html.page import TEMPLATES


def make_look_page(
    titles: RunTitles, names: Sequence[str], files: Sequence[FileView], notes: Sequence[str], library: str
) -> str:
    """The whole page.

    `names`: of the runs, as the user knows them; `notes`: what was left out, and why; `library`: the JavaScript of
    Plotly.
    """
    model = json.dumps(to_model(titles.runs, files), allow_nan=False, separators=(",", ":"))
    return TEMPLATES.get_template("look.html.j2").render(
        title=titles.title,
        runs=titles.runs,
        names=" and ".join(names),
        summary=summary(files),
        thinned=thinned_lines(files),
        notes=notes,
        library=library,
        # Nothing in a name can end the element.
        model=model.replace("<", "\\u003c"),
    )


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
    return {"runs": list(runs), "files": [_file(file) for file in files], "first": first_view(files)}


def _file(file: FileView) -> dict[str, Any]:
    return {
        "name": file.title or file.name,
        "steps": list(file.steps),
        "times": [list(times) for times in file.times],
        "timeUnit": printed(file.time_unit) if file.time_unit else "",
        "views": [_view(file, view) for view in file.views if view.name in file.carried],
    }


def _view(file: FileView, view: DataView) -> dict[str, Any]:
    thinning = file.thinned[view.name]
    return {
        "name": view.name,
        "kind": view.kind,
        "columns": [_column(file, view, index) for index in range(len(view.columns))],
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


def _column(file: FileView, view: DataView, index: int) -> dict[str, str]:
    column = view.columns[index]
    text, unit = file.labels.get(column.variable, ("", ""))
    unit = printed(unit) if unit else ""
    if view.kind == "vectors":
        return {"name": column.label, "label": f"{text or column.variable} {column.label}", "unit": unit}
    label = column.label if view.kind == "particles" or not text else text
    return {"name": column.label, "label": label, "unit": unit}
