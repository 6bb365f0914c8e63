"""Finds the allocation that this process is in: a host file, that of the innermost scheduler, or this machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

from workflow.launch.allocation import Allocation, Host
from workflow.schedulers.scheduler import ThisNode
from workflow.schedulers.scheduler_query import Query, ask
from workflow.schedulers.schedulers import SCHEDULERS


def discover_allocation(environ: Mapping[str, str] | None = None, query: Query | None = None) -> Allocation:
    """What this process may use.

    `environ` is by default that of this process; `query` asks a command of the scheduler, by default with a deadline.
    Raises WfError when the environment names a job, but not its hosts. The user's own list of hosts (`WF_HOSTFILE`)
    comes first.
    """
    environ = os.environ if environ is None else environ
    if path := environ.get("WF_HOSTFILE"):
        from workflow.schedulers.host_lines import host_file

        return host_file(path)
    # A Flux instance may run inside a job of another scheduler, and then has the nodes that matter.
    for scheduler in sorted(SCHEDULERS.values(), key=lambda each: not each.nests):
        if any(environ.get(name) for name in scheduler.variables):
            return scheduler.allocation(environ, query or ask, ThisNode(this_host, _own_cores))
    return Allocation("local", "", (this_host(),), counts_threads=True)


def _own_cores() -> int:
    from workflow.site.cpu_topology import cpu_topology

    return len(cpu_topology().allowed)


def this_host() -> Host:
    """This machine: the hardware threads and the memory that processes started from here may use."""
    from workflow.site.machine import memory_bytes

    return Host(platform.node(), len(os.sched_getaffinity(0)), memory_bytes())
