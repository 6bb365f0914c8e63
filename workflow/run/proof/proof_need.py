"""Whether the placement of a run is proved before its stages start. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from workflow.launch.host_lists import is_same_host
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.plan_model import Plan


def must_prove(plan: Plan, hosts: Sequence[str], own: str) -> bool:
    """Whether somebody else than wf decides where ranks run: a launcher that reaches other nodes than this one,
    which is `own`."""
    if plan.proof == "off":
        return False
    elsewhere = any(not is_same_host(host, own) for host in hosts)
    launchers = {stage.launch.launcher for stage in plan.stages}
    return any(LAUNCHERS[name].starts_ranks and (elsewhere or LAUNCHERS[name].other_machines) for name in launchers)
