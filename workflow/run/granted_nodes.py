"""The nodes granted to a run, as launch lines need them: hosts, and the numbers of the plan's cores on this machine."""

from __future__ import annotations

import os

from workflow.core_set import CoresMissingError, real_cores
from workflow.errors import RunError
from workflow.launch.allocation import Allocation
from workflow.launch.launchers import LAUNCHERS
from workflow.plan.launch_requests import GrantedNodes
from workflow.plan.plan_model import Plan


def granted_nodes(plan: Plan, allocation: Allocation) -> GrantedNodes:
    """The hosts of the allocation, and the cores of this process, for the plan.

    Raises RunError where stages are bound to cores of this machine that this process may not use.
    """
    needed = len(plan.node.usable)
    threads = plan.node.threads_per_core
    counts = [allocation.cores_of(host, threads) for host in allocation.hosts]
    whole = all(count is None or count >= needed for count in counts)
    cpus = threads if allocation.counts_threads else 1
    if not hasattr(os, "sched_getaffinity"):
        return GrantedNodes(allocation.host_names, whole, cpus, binds=False)
    here = [stage.placement for stage in plan.stages if not LAUNCHERS[stage.launch.launcher].other_machines]
    planned = sorted({core for placement in here for core in placement.cores})
    try:
        numbers = real_cores(planned, planned, sorted(os.sched_getaffinity(0)), by_index=plan.node.is_whole)
    except CoresMissingError as error:
        hint = f"correct `cores_per_node` and `reserved_cores` of site {plan.site}, or ask for whole nodes"
        if plan.node.others:
            hint = "other runs use the same nodes: give each repetition whole ones with `side_by_side: nodes`"
        raise RunError(f"this is not what the plan asks for: {error}", hint) from error
    return GrantedNodes(allocation.host_names, whole, cpus, dict(zip(planned, numbers, strict=True)))
