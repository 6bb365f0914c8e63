"""Finds the allocation that this process is in: a host file, that of the innermost scheduler, or this machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING

from workflow.launch.allocation import Allocation, Host
from workflow.schedulers.schedulers import SCHEDULERS, scheduler_named

if TYPE_CHECKING:
    from workflow.schedulers.scheduler import Query


def discover_allocation(environ: Mapping[str, str] | None = None, query: Query | None = None) -> Allocation:
    """What this process may use.

    `environ` is by default that of this process; `query` asks a command of the scheduler, by default with a deadline.
    Raises WfError when the environment names a job, but not its hosts. The user's own list of hosts (`WF_HOSTFILE`)
    comes first.
    """
    environ = os.environ if environ is None else environ
    if path := environ.get("WF_HOSTFILE"):
        from workflow.launch.host_lists import host_file

        return host_file(path)
    inside = [name for name, variables in SCHEDULERS.items() if any(environ.get(each) for each in variables)]
    if not inside:
        return Allocation("local", "", (this_host(),), counts_threads=True)
    from workflow.schedulers.scheduler import ThisNode, ask

    # A Flux instance may run inside a job of another scheduler, and then has the nodes that matter.
    innermost = max((scheduler_named(name) for name in inside), key=lambda scheduler: scheduler.nests)
    return innermost.allocation(environ, query or ask, ThisNode(this_host, _own_cores))


def _own_cores() -> int:
    from workflow.site.this_machine import cpu_topology

    return len(cpu_topology().allowed)


def this_host() -> Host:
    """This machine: the hardware threads and the memory that processes started from here may use."""
    from workflow.site.this_machine import memory_bytes, usable_cores

    return Host(platform.node(), usable_cores(), memory_bytes())
