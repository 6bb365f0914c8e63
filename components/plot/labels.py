"""What stands on the axes of a picture: quantities with their units, in units that people can read."""

from __future__ import annotations

from typing import NamedTuple

from workflow import stage
from workflow.physical_units import readable

# The scalar that says when a step was, where the parameter `time` does not name one; the first that the stream has.
TIMES = ("time", "timestep", "step")


class Quantity(NamedTuple):
    """What runs along an axis: its name, and its unit as text; "" where there is none."""

    name: str
    unit: str = ""

    def scaled(self, largest: float) -> Scaled:
        """As shown for values up to `largest`."""
        factor, unit = readable(self.unit, largest) if self.unit else (1.0, "")
        return Scaled(factor, self.name, unit)


class Scaled(NamedTuple):
    """By what values are multiplied, and the name and unit that they then have."""

    factor: float
    name: str
    unit: str

    @property
    def label(self) -> str:
        """`time (ps)`."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def moment(self, value: float) -> str:
        """One value, already multiplied: `t = 2.5 ps`, `step 100`."""
        return f"t = {value:.4g} {self.unit}" if self.unit else f"{self.name} {value:g}"


def quantity(step: stage.Step, name: str) -> Quantity:
    """A variable of the stream, with the name and the unit that its attributes or the pipeline give."""
    return Quantity(step.label(name), step.unit(name))


def time_variable(step: stage.Step, given: str) -> str:
    """The variable with the time of each step: `given`, or the first of those that usually have it; else ""."""
    known = step.variables()
    return given or next((name for name in TIMES if name in known and not known[name].shape), "")
