"""Median and quartiles of what was measured, with their arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median, quantiles

from pydantic import BaseModel, ConfigDict, Field


class Quartiles(BaseModel):
    """Median and quartiles: half of the measurements lie between `low` and `high`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    median: float
    low: float = Field(description="lower quartile")
    high: float = Field(description="upper quartile")
    count: int = Field(0, description="how many measurements; 0: computed from others")

    def __mul__(self, factor: float) -> Quartiles:
        """So many times as much."""
        return _computed(self.median * factor, self.low * factor, self.high * factor)

    def __add__(self, other: Quartiles) -> Quartiles:
        """Both one after the other. The quartiles add up too: an interval that is rather too wide."""
        return _computed(self.median + other.median, self.low + other.low, self.high + other.high)


def _computed(median: float, low: float, high: float) -> Quartiles:
    """Not validated: figures of a damaged file may be too large to be added up."""
    return Quartiles.model_construct(median=median, low=low, high=high, count=0)


def quartiles(values: Sequence[float]) -> Quartiles:
    """The spread of at least one value; of one it is the value itself."""
    if len(values) == 1:
        return exactly(values[0], 1)
    low, _, high = quantiles(values, n=4, method="inclusive")
    return Quartiles(median=median(values), low=low, high=high, count=len(values))


def exactly(value: float, count: int = 0) -> Quartiles:
    """A figure without a spread."""
    return Quartiles(median=value, low=value, high=value, count=count)


def together(parts: Iterable[Quartiles]) -> Quartiles:
    """One after the other."""
    return sum(parts, exactly(0.0))
