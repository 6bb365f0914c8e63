"""What `plot` keeps from one attempt to the next: its panels as values of a `stage.State`, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from components.plot.drawing import Floats, Names, Panel, Shot
from components.plot.labels import Quantity

# A state has all steps that are kept, so it is written again when an eighth of them is new: in all no more than eight
# times the data, and an attempt reads no more than an eighth of the steps again. One for a stop is the last.
SHARE = 8


def is_worth_saving(panels: Sequence[Panel], new: int) -> bool:
    """Whether so much has come since the last state, `new` steps, that another one is to be written."""
    return new * SHARE >= len(panels[0].shots)


def to_values(panels: Sequence[Panel], names: Names) -> dict[str, Any]:
    """The panels as values that can be saved: all arrays one after the other, and what belongs to them."""
    arrays = [array.ravel() for panel in panels for shot in panel.shots for array in (shot.values, shot.x)]
    return {
        "names": [each for each in names if each is not None],
        "panels": [_described(panel) for panel in panels],
        "numbers": np.concatenate(arrays),
    }


def no_values() -> dict[str, Any]:
    """Those before the first step."""
    return {"names": [], "panels": [], "numbers": np.empty(0)}


def from_values(values: Mapping[str, Any]) -> tuple[list[Panel], Names]:
    """The panels, as they were saved; without any before the first step."""
    if not values["panels"]:
        return [], Names("", Quantity(""), Quantity(""))
    time_variable, *quantities = values["names"]
    numbers = _Numbers(values["numbers"])
    return [_panel(each, numbers) for each in values["panels"]], Names(time_variable, *_quantities(quantities))


def _described(panel: Panel) -> dict[str, Any]:
    shots = [[shot.step, shot.time, shot.values.shape, shot.x.size] for shot in panel.shots]
    own = {name: getattr(panel, name) for name in ("name", "quantity", "dimensions", "x", "low", "high", "stride")}
    return {**own, "extent": panel.extent, "shots": shots}


def _panel(known: Mapping[str, Any], numbers: _Numbers) -> Panel:
    own = {**known}
    own["quantity"], own["x"] = _quantities([known["quantity"], known["x"]])
    own["extent"] = known["extent"] and tuple(known["extent"])
    own["shots"] = [
        Shot(step, time, numbers.take(shape), numbers.take([length])) for step, time, shape, length in known["shots"]
    ]
    return Panel(**own)


def _quantities(pairs: Sequence[Sequence[str]]) -> Iterator[Quantity]:
    return (Quantity(*pair) for pair in pairs)


class _Numbers:
    """Arrays that stand one after the other."""

    def __init__(self, numbers: Floats) -> None:
        self._rest = numbers

    def take(self, shape: Sequence[int]) -> Floats:
        """The next one."""
        size = int(np.prod(shape))
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken.reshape(shape)
