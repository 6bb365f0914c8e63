"""When a node counts as lost. `workflow.run.nodes.lost_nodes` finds the nodes; the verdict waits for it."""

from __future__ import annotations

from typing import NamedTuple

from workflow.launch.launchers import LAUNCHERS
from workflow.plan.launch_requests import launcher_of
from workflow.plan.plan_model import Plan

# A node that is silent for `events.REPORTED_S` is lost where something else says so, too: what waited for it has
# failed, or the scheduler says that it is down. Without that: switches that restart, and links that come back, are
# silent for up to a minute and lose nothing. The more nodes, the more often that happens.
_LIMIT_S, _LONGEST_S = 60.0, 300.0
_FEW_NODES, _NODES_A_SECOND = 64, 16


class NodeLimit(NamedTuple):
    """After how many seconds of silence, without any other word, a node is lost; `why` so many."""

    seconds: float
    why: str

    @property
    def text(self) -> str:
        """`60 s (deadlines: node)`."""
        return f"{self.seconds:.0f} s ({self.why})"


def node_limit(plan: Plan) -> NodeLimit:
    """That of a run. The guards end what runs on their nodes after the same time without their supervisor."""
    if plan.deadlines.node is not None:
        return NodeLimit(plan.deadlines.node, "deadlines: node")
    line = launcher_of(plan)
    if line is not None and not LAUNCHERS[line.launcher].passes_input:
        why = f"by default with {line.executable}, which passes the signs of life of the supervisor on to no other node"
        return NodeLimit(_LONGEST_S, why)
    if plan.nodes < _FEW_NODES:
        return NodeLimit(_LIMIT_S, "by default")
    limit = min(_LONGEST_S, _LIMIT_S + plan.nodes // _NODES_A_SECOND)
    return NodeLimit(limit, f"by default for {plan.nodes} nodes")
