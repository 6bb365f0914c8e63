"""What of a stream is drawn while its steps come, and at which resolution. Pure.

Nobody knows the steps to come. So the views are those of the steps so far, and each is thinned so that a number of
steps like the present one fit; how many really fit is seen as they come (`look/live_steps.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from workflow.data_files.read_steps import VariableKind
from workflow.look.drawn_variables import DataView, FileContents, StepTime, VariableLabel, make_views
from workflow.look.fit_page_size import ENOUGH_STEPS, Thinning, carried_bytes, thin
from workflow.look.read_numbers import Encoded
from workflow.stage import Shape

# So many different steps are remembered: of particles each step may have another number.
MOST_KINDS = 64
# The newest step is what people look at: of those before it half as many as in the ordinary page.
STEPS = ENOUGH_STEPS // 2
# Where fewer fit, because a variable has grown, it is thinned again.
FEWEST_STEPS = STEPS // 4


@dataclass(frozen=True)
class DrawnStream:
    """The views of a stream, without extents, and what is taken of each."""

    views: tuple[DataView, ...] = ()
    thinned: Mapping[str, Thinning] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Variable → why it is not drawn."""
    labels: Mapping[str, VariableLabel] = field(default_factory=dict)
    time_unit: str = ""


@dataclass(frozen=True)
class LiveStep:
    """A step as the page carries it. `extents`: view → its axes in this step; `numbers`: view → its columns, each None
    where this step does not have it."""

    number: int
    time: float | None
    extents: Mapping[str, Shape]
    numbers: Mapping[str, tuple[Encoded | None, ...]]
    drawn: DrawnStream | None = None
    """What is drawn from this step on, where that is something else than before."""

    @property
    def nbytes(self) -> int:
        """About what it takes in the page."""
        texts = [each for columns in self.numbers.values() for each in columns]
        return sum(_ENTRY_BYTES + (0 if each is None else len(each.text)) for each in texts)


# Commas, quotes and extents.
_ENTRY_BYTES = 24


class LiveViews:
    """Decides what is drawn, step by step. `limit`: bytes in the page."""

    def __init__(self, limit: int) -> None:
        self.drawn = DrawnStream()
        self.extents: dict[str, Shape] = {}
        """View → its axes in the present step; without the views that it does not have."""
        # Base64 takes four bytes for three.
        self._limit = limit * 3 // 4
        self._seen: list[Mapping[str, VariableKind]] = []
        self._made: list[DataView] = []  # with an extent for each of `_seen`
        self._thinned: dict[str, Thinning | None] = {}
        self._left_out: dict[str, str] = {}

    def take(self, kinds: Mapping[str, VariableKind]) -> bool:
        """Take note of the variables of the next step; whether something else is drawn from now on."""
        if kinds not in self._seen:
            self._make(kinds)
        place, before = self._seen.index(kinds), self.drawn
        found = ((view.name, view.extents[0][place]) for view in self._made)
        self.extents = {name: extent for name, extent in found if extent is not None}
        present = [_alone(view, self.extents[view.name]) for view in self._made if view.name in self.extents]
        if self._is_too_large(present):
            self._thinned = {}
        if any(view.name not in self._thinned for view in present):
            repeated = [replace(view, extents=(view.extents[0] * STEPS,)) for view in present]
            for view, thinning in zip(present, thin(repeated, self._limit), strict=True):
                # No step is left out: fewer of them fit instead.
                self._thinned.setdefault(view.name, thinning and replace(thinning, every=1))
        thinned = {name: each for name, each in self._thinned.items() if each is not None}
        too_large = dict.fromkeys(self._thinned.keys() - thinned.keys(), "too large even when thinned")
        views = tuple(replace(view, extents=()) for view in self._made if view.name in thinned)
        self.drawn = DrawnStream(views, thinned, self._left_out | too_large)
        return self.drawn != before

    def _make(self, kinds: Mapping[str, VariableKind]) -> None:
        """The views of this step and those before. What has become another view is thinned anew."""
        self._seen = [*self._seen[1 - MOST_KINDS :], kinds]
        names = {name for seen in self._seen for name in seen}
        steps = tuple(StepTime(number) for number in range(len(self._seen)))
        contents = FileContents(steps, {name: tuple(seen.get(name) for seen in self._seen) for name in names})
        before = {view.name: replace(view, extents=()) for view in self._made}
        self._made, self._left_out = make_views([contents], range(len(steps)))
        same = {view.name for view in self._made if before.get(view.name) == replace(view, extents=())}
        self._thinned = {name: each for name, each in self._thinned.items() if name in same}

    def _is_too_large(self, present: Sequence[DataView]) -> bool:
        taken = ((view, self._thinned.get(view.name)) for view in present)
        nbytes = sum(carried_bytes(view, thinning) for view, thinning in taken if thinning is not None)
        return nbytes * FEWEST_STEPS > self._limit


def _alone(view: DataView, extent: Shape) -> DataView:
    """A view of one step."""
    return replace(view, extents=((extent,),))
