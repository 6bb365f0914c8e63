"""Finds the allocation that this process is in: that of the innermost scheduler, else this machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

from workflow.launch.allocation import Allocation, Host
from workflow.site.allocation.scheduler_query import Query, ask
from workflow.site.allocation.slurm_job import slurm_job
from workflow.site.machine import memory_bytes


def discover_allocation(environ: Mapping[str, str] | None = None, query: Query = ask) -> Allocation:
    """What this process may use.

    `environ` is by default that of this process; `query` asks a command of the scheduler. Raises WfError when the
    environment names a job, but not its hosts.
    """
    environ = os.environ if environ is None else environ
    if environ.get("SLURM_JOB_ID"):
        return slurm_job(environ, query)
    return this_machine()


def this_machine() -> Allocation:
    """The cores and the memory that processes started from here may use."""
    here = Host(platform.node(), len(os.sched_getaffinity(0)), memory_bytes())
    return Allocation("local", "", (here,))
