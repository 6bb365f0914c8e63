"""What runs of candidates have taken, and what the next one is expected to take. Pure."""

from __future__ import annotations

from typing import NamedTuple


class RunCost(NamedTuple):
    """A run that was started."""

    wall_s: float
    nodes: int
    steps: int
    """Of the stage that is counted."""
    step_s: float | None
    """Seconds per step; None: it was not timed."""

    @property
    def node_s(self) -> float:
        """Node-seconds."""
        return self.wall_s * self.nodes


def expected_wall_s(ran: list[RunCost], steps: int | None, step_s: float) -> float:
    """Wall time of the next run: its steps, and what runs so far took besides their steps, the longest of them.

    Args:
        ran: at least one.
        steps: of the next run; None: as many as the longest one so far, since it cannot be shortened.
        step_s: its seconds per step, as far as is known.
    """
    timed = [each for each in ran if each.step_s is not None]
    if not timed:
        return max(each.wall_s for each in ran)
    besides = max(each.wall_s - each.steps * (each.step_s or 0.0) for each in timed)
    return max(0.0, besides) + step_s * (steps if steps is not None else max(each.steps for each in timed))


def runs_that_fit(node_hours: float, ran: list[RunCost], next_node_s: float) -> int:
    """How many runs of so many node-seconds fit into what is left of these node-hours."""
    left = node_hours * 3600 - sum(each.node_s for each in ran)
    return max(0, int(left / next_node_s)) if next_node_s > 0 else 0
