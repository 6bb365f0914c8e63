"""A figure with its spread: the median and the quartiles of what was measured, and arithmetic with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median, quantiles

from pydantic import BaseModel, ConfigDict, Field


class Quartiles(BaseModel):
    """Median and quartiles: half of the measurements lie between `low` and `high`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    median: float
    low: float = Field(description="lower quartile")
    high: float = Field(description="upper quartile")
    count: int = Field(0, description="how many measurements; 0: computed from others")

    def __add__(self, other: Quartiles) -> Quartiles:
        """Both one after the other. The quartiles add up too: an interval that is rather too wide."""
        return Quartiles(median=self.median + other.median, low=self.low + other.low, high=self.high + other.high)

    def __mul__(self, factor: float) -> Quartiles:
        """So many times as much."""
        return Quartiles(median=self.median * factor, low=self.low * factor, high=self.high * factor, count=self.count)

    def widened(self, free: float) -> Quartiles:
        """A time that was measured with this share of the cores free: with all of them it may take so much less."""
        return self.model_copy(update={"low": self.low * free})

    def widened_rate(self, free: float) -> Quartiles:
        """The same of a rate, which may be so much higher."""
        return self.model_copy(update={"high": self.high / free})

    def rate_of(self, amount: float) -> Quartiles:
        """The amount that takes this long, per second."""
        return Quartiles(median=amount / self.median, low=amount / self.high, high=amount / self.low, count=self.count)


NOTHING = Quartiles(median=0.0, low=0.0, high=0.0)


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
    total = NOTHING
    for part in parts:
        total += part
    return total


def between(low: Quartiles, high: Quartiles, share: float) -> Quartiles:
    """Linear interpolation: `low` at a share of 0, `high` at 1."""
    return low * (1 - share) + high * share
