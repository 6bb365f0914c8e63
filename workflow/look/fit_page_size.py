"""How much of each view the page can carry: fewer digits first, then fewer cells, then fewer steps. Pure.

What is kept is kept as it was written: every n-th value, no averages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod

from workflow.look.drawn_variables import DataView, ViewKind
from workflow.stage import Shape

# More than these a window hardly shows: cells are dropped before steps down to here, then steps, then more cells.
ENOUGH_CELLS: dict[ViewKind, int] = {
    "scalar": 1,
    "line": 2048,
    "image": 256**2,
    "volume": 48**3,
    "particles": 10_000,
    "vectors": 10_000,
}
ENOUGH_STEPS = 40
# An axis keeps at least this many cells, if it has them.
FEWEST_CELLS = 8


@dataclass(frozen=True)
class Thinning:
    """What is taken of a view: every n-th step, every n-th cell or particle of each axis, 4 or 8 bytes a number."""

    every: int = 1
    strides: Shape = ()
    item_bytes: int = 8


def thin(views: Sequence[DataView], limit: int) -> list[Thinning | None]:
    """What is taken of each view, so that all together have at most `limit` bytes; None: not even a few cells fit.

    Each gets an equal share of the bytes; what small ones do not need goes to the others. Those of one size are thinned
    alike, so that they can be compared.
    """
    found: list[Thinning | None] = [None] * len(views)
    left, waiting = limit, len(views)
    sizes = [carried_bytes(view, whole(view)) for view in views]
    for _, group in groupby(sorted(range(len(views)), key=sizes.__getitem__), key=sizes.__getitem__):
        share = left // waiting
        for index in group:
            found[index] = thinned = _fit(views[index], share)
            waiting -= 1
            left -= carried_bytes(views[index], thinned) if thinned else 0
    return found


def whole(view: DataView) -> Thinning:
    """All of a view."""
    return Thinning(1, (1,) * _dimensions(view), view.item_bytes)


def carried_bytes(view: DataView, thinning: Thinning) -> int:
    """Bytes of the numbers that are taken."""
    cells = sum(
        prod(kept_extent(extent, thinning.strides))
        for extents in view.extents
        for extent in extents[:: thinning.every]
        if extent is not None
    )
    return cells * len(view.columns) * thinning.item_bytes


def kept_extent(extent: Shape, strides: Shape) -> Shape:
    """How many cells of each axis are taken."""
    return tuple(-(-length // stride) for length, stride in zip(extent, strides, strict=True))


def thinning_text(view: DataView, thinning: Thinning) -> str:
    """`every 3rd step (14 of 41), every 2nd cell along each axis`; empty where all is there."""
    parts = []
    steps = max(len(extents) for extents in view.extents)
    if thinning.every > 1:
        parts.append(f"every {ordinal(thinning.every)} step ({len(range(0, steps, thinning.every))} of {steps})")
    largest = max(thinning.strides, default=1)
    if largest > 1 and view.kind in ("line", "particles", "vectors"):
        what = {"line": "value", "particles": "particle", "vectors": "vector"}[view.kind]
        parts.append(f"every {ordinal(largest)} {what}")
    elif largest > 1 and len(set(thinning.strides)) == 1:
        parts.append(f"every {ordinal(largest)} cell along each axis")
    elif largest > 1:
        strides = enumerate(thinning.strides)
        parts += [f"every {ordinal(stride)} cell along axis {axis}" for axis, stride in strides if stride > 1]
    if thinning.item_bytes < view.item_bytes:
        parts.append("numbers with 7 digits")
    return ", ".join(parts)


def ordinal(count: int) -> str:
    """`2nd`, `3rd`, `11th`."""
    suffix = "th" if count % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{suffix}"


def _fit(view: DataView, share: int) -> Thinning | None:
    """The least thinning with which a view takes no more than `share` bytes."""
    thinning = whole(view)
    steps = max((len(extents) for extents in view.extents), default=0)
    while carried_bytes(view, thinning) > share:
        if thinning.item_bytes == 8:
            thinning = replace(thinning, item_bytes=4)
            continue
        kept = -(-steps // thinning.every)
        coarser = _coarser(view, thinning.strides)
        enough = _most_cells(view, thinning.strides) <= ENOUGH_CELLS[view.kind]
        if coarser is not None and (kept <= ENOUGH_STEPS or not enough):
            thinning = replace(thinning, strides=coarser)
        elif kept > 1:
            thinning = replace(thinning, every=thinning.every + 1)
        else:
            return None
    return thinning


def _coarser(view: DataView, strides: Shape) -> Shape | None:
    """The next strides, with fewer cells along the axis that keeps the most; None where none of them keeps enough.

    Of equal axes the slowest comes first: the planes across it stay whole longest.
    """
    lengths = [max((extent[axis] for extent in _given(view)), default=0) for axis in range(len(strides))]
    kept = kept_extent(tuple(lengths), strides)
    axis = kept.index(max(kept)) if kept else 0
    if not kept or kept[axis] <= FEWEST_CELLS:
        return None
    # The least stride with fewer cells.
    stride = -(-lengths[axis] // (kept[axis] - max(1, kept[axis] // 16)))
    return (*strides[:axis], stride, *strides[axis + 1 :])


def _most_cells(view: DataView, strides: Shape) -> int:
    return max((prod(kept_extent(extent, strides)) for extent in _given(view)), default=0)


def _dimensions(view: DataView) -> int:
    return next((len(extent) for extent in _given(view)), 0)


def _given(view: DataView) -> Iterator[Shape]:
    return (extent for extents in view.extents for extent in extents if extent is not None)
