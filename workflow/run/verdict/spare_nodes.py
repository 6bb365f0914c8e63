"""Which spare nodes take the places of lost ones, for stages that are started again there. Pure.

A node that says nothing may still run its ranks. They are not to write beside those of the next attempt: that begins
when the guard there, which has heard nothing from the supervisor either, has ended them.
"""

from __future__ import annotations

from collections.abc import Sequence

from workflow.run.state.events import NodeLost
from workflow.run.state.lifecycle_events import NodeReplaced
from workflow.run.state.node_loss import node_limit
from workflow.run.state.run_state import RunState

# After the limit of a node nothing of the run is left there: its guard has had the same patience, and some looks.
_LOOKS_S = 6.0


def ended_there_s(state: RunState) -> float:
    """How long after the last sign of life of a node nothing of the run is left there, although it may live."""
    return node_limit(state.plan).seconds + _LOOKS_S


def stages_to_move(state: RunState, lost: Sequence[NodeLost]) -> list[str] | None:
    """The stages that were lost with these nodes, without which the run does not go on; None where one of them is to
    stop the run when it fails."""
    names = [name for name in state.stages if any(node in state.lost_under(name) for node in lost)]
    # One that had succeeded may have ended since the last sign of life of its node.
    left = [name for name in names if state.stages[name].status != "succeeded"]
    needed = [name for name in left if not state.plan.stage(name).optional]
    return needed if all(state.plan.stage(name).restart is not None for name in needed) else None


def find_spares(state: RunState, lost: Sequence[NodeLost], t: float) -> list[NodeReplaced] | str:
    """A spare node for each of these lost ones, or why there is none for each."""
    free = [node for node in state.spares if node not in state.silent]
    if len(free) < len(lost):
        return f"it needs {len(lost)} spare nodes, and there {_are(len(free))}" if free else "there is no spare node"
    places = {by: place for place, by in state.replaced.items()}
    return [
        NodeReplaced(t, places.get(node.node, node.node), node.host, by, state.spares[by])
        for node, by in zip(lost, sorted(free), strict=False)
    ]


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}"
