"""A figure with bounds; and with the quartiles of what was measured, with their arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median, quantiles
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

# Of a normal distribution: the bounds that hold 80 % are so many times as far from the median as the quartiles.
EIGHT_OF_TEN = 1.9
T = TypeVar("T", bound="Estimate")


class Estimate(BaseModel):
    """A figure, and the bounds between which it lies with the probability that its owner states."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    median: float
    low: float
    high: float

    def __mul__(self: T, factor: float) -> T:
        """So many times as much."""
        ends = {"median": self.median * factor, "low": self.low * factor, "high": self.high * factor}
        return self.model_copy(update=ends)

    def rate_of(self: T, amount: float) -> T:
        """The amount that takes this long, per second."""
        ends = {"median": amount / self.median, "low": amount / self.high, "high": amount / self.low}
        return self.model_copy(update=ends)


class Quartiles(Estimate):
    """Median and quartiles: half of the measurements lie between `low` and `high`."""

    low: float = Field(description="lower quartile")
    high: float = Field(description="upper quartile")
    count: int = Field(0, description="how many measurements; 0: computed from others")

    def __add__(self, other: Quartiles) -> Quartiles:
        """Both one after the other. The quartiles add up too: an interval that is rather too wide."""
        return Quartiles(median=self.median + other.median, low=self.low + other.low, high=self.high + other.high)

    def eight_of_ten(self, error: float) -> Estimate:
        """The bounds that hold 80 % of what will be measured, with logarithms that are normally distributed.

        Args:
            error: the share by which what this was computed with is off at most, in 80 % of cases.
        """

        def factor(ratio: float) -> float:
            return math.exp(math.hypot(EIGHT_OF_TEN * math.log(ratio), math.log1p(error))) if ratio > 0 else math.inf

        if not self.median:
            return Estimate(median=0.0, low=self.low, high=self.high)
        low = self.low and self.median / factor(self.median / self.low)
        return Estimate(median=self.median, low=low, high=self.median * factor(self.high / self.median))

    def widened(self, free: float) -> Quartiles:
        """A time that was measured with this share of the cores free: with all of them it may take so much less."""
        return self.model_copy(update={"low": self.low * free})

    def widened_rate(self, free: float) -> Quartiles:
        """The same of a rate, which may be so much higher."""
        return self.model_copy(update={"high": self.high / free})


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
