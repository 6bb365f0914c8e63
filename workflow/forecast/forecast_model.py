"""What a step of a run costs, as far as it was measured. Times are seconds."""

from dataclasses import dataclass
from typing import Literal

from workflow.forecast.quartiles import Quartiles


@dataclass(frozen=True)
class Cost:
    """What a stage does for a step, and how long that takes."""

    stage: str
    what: Literal["compute", "read", "write"]
    stream: str
    """That it reads or writes; empty: computing."""
    seconds: Quartiles | None
    """Per step of the stage, or of the stream; None: not known."""
    source: str
    """Where the figure comes from; of one that is not known: why, and how to get it."""

    @property
    def name(self) -> str:
        """`compute`, `write data`."""
        return f"{self.what} {self.stream}".strip()


@dataclass(frozen=True)
class GroupPace:
    """The time per step of stages that wait for each other."""

    stages: list[str]
    seconds: Quartiles
    """Per step of the pipeline's source."""
    complete: bool
    """False: a cost is not known, so the time may be longer."""
    stage: str
    """The stage that takes so long."""
    mostly: str
    """What it does for the larger part of that time."""


@dataclass(frozen=True)
class Forecast:
    """What is known of the time per step of a plan."""

    site: str
    paces: list[GroupPace]
    """Of groups of stages; those of which nothing is known are left out."""
    costs: list[Cost]
    notes: list[str]
    """What to consider when reading these figures."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing that a step takes is known."""
        return all(cost.seconds is None for cost in self.costs)
