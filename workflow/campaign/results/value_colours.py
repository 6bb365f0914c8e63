"""Which colour and marker a value has: the same in all pictures of a campaign. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from workflow.campaign.file.trials import short_names
from workflow.campaign.results.picture_canvas import COLOURS
from workflow.campaign.results.trial_dimensions import Dimension, Parameters, find_dimensions, number_key

MARKERS = "osD^vPX*"
DASHES = ("-", "--", "-.")


class LineStyle(NamedTuple):
    """How the points of some trials are drawn."""

    colour: str
    marker: str
    dashes: str


class ValueColours:
    """The first dimension that is no number has the colours, or the first of all where all are numbers."""

    def __init__(self, points: Sequence[Parameters]) -> None:
        self.dimensions = find_dimensions(points)
        self._names = short_names([key for each in self.dimensions for key in each.keys])
        words = [each for each in self.dimensions if number_key(each, points) is None]
        self._first: Dimension | None = next(iter([*words, *self.dimensions]), None)

    def colour(self, parameters: Parameters) -> str:
        """The colour of a trial; one for all where their labels say the same."""
        if self._first is None or len(self.dimensions) == 1:
            return COLOURS[0]
        return COLOURS[self._first.values.index(self._first.value(parameters)) % len(COLOURS)]

    def line_label(self, parameters: Parameters, across: Dimension) -> str:
        """`via=sst size=[64]`: what a line over the dimension `across` has in common; empty for the only line."""
        return " ".join(
            f"{self._names[key]}={value}"
            for each in self.dimensions
            if each != across
            for key, value in [(each.keys[0], each.value(parameters))]
        )

    def line_style(self, parameters: Parameters, across: Dimension) -> LineStyle:
        """Colour by the first dimension beside `across`, marker and dashes by those that follow."""
        others = [each for each in self.dimensions if each != across]
        first = next((each for each in others if each == self._first), others[0] if others else None)
        if first is None:
            return LineStyle(COLOURS[0], MARKERS[0], DASHES[0])
        index, rest = first.values.index(first.value(parameters)), 0
        for each in others:
            if each != first:
                rest = rest * len(each.values) + each.values.index(each.value(parameters))
        return LineStyle(
            COLOURS[index % len(COLOURS)], MARKERS[(index + rest) % len(MARKERS)], DASHES[rest % len(DASHES)]
        )
