"""Which view the page opens with: the one that is likely to show most. Pure.

What changes over the steps comes before what stays the same; of these fields of two or three dimensions, then
particles, vectors, curves, curves that are the coordinates of others, scalars; of these the one with the most cells.
What is one number everywhere comes last.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from math import prod

import numpy as np

from workflow.look.look_model import Carried, DataView, FileView, ViewKind

_RANKS: dict[ViewKind, int] = {"volume": 0, "image": 0, "particles": 1, "vectors": 2, "line": 3, "scalar": 5}
_COORDINATE = 4
# Cells along an axis of a field; less is a small matrix, such as the corners of a box.
_FEWEST_CELLS = 4


def first_view(files: Sequence[FileView]) -> int:
    """The number of the view in the page's list, which has the views of all files that are carried, one after another.

    At least one must be carried. Of equal ones it is the first.
    """
    entries = [(file, view) for file in files for view in file.views if view.name in file.carried]
    return min(range(len(entries)), key=lambda index: _order(*entries[index]))


def _order(file: FileView, view: DataView) -> tuple[bool, bool, int, int]:
    columns = [column for run in file.carried[view.name] for column in run]
    is_constant = all(column.low == column.high for column in columns)
    changes = any(len({text for text in column.values if text is not None}) > 1 for column in columns)
    extents = [extent for each in view.extents for extent in each if extent is not None]
    rank = _RANKS[view.kind]
    if rank == 0 and any(sum(length >= _FEWEST_CELLS for length in extent) < 2 for extent in extents):
        rank = _RANKS["line"]
    if view.kind == "line" and any(_is_monotonic(column, file.thinned[view.name].item_bytes) for column in columns):
        rank = _COORDINATE
    return is_constant, not changes, rank, -max(map(prod, extents), default=0)


def _is_monotonic(column: Carried, item_bytes: int) -> bool:
    """Whether the values of its first step go up or down all along."""
    text = next((each for each in column.values if each is not None), "")
    slopes = np.diff(np.frombuffer(base64.b64decode(text), f"<f{item_bytes}"))
    return bool(slopes.size and (np.all(slopes > 0) or np.all(slopes < 0)))
