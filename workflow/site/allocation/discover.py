"""Finds the allocation that this process is in: a host file, that of the innermost scheduler, or this machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

from workflow.launch.allocation import Allocation, Host
from workflow.site.allocation.flux_job import flux_job
from workflow.site.allocation.host_lines import host_file
from workflow.site.allocation.lsf_job import lsf_job
from workflow.site.allocation.pbs_job import pbs_job
from workflow.site.allocation.scheduler_query import Query, ask
from workflow.site.allocation.slurm_job import slurm_job
from workflow.site.machine import memory_bytes


def discover_allocation(environ: Mapping[str, str] | None = None, query: Query = ask) -> Allocation:
    """What this process may use.

    `environ` is by default that of this process; `query` asks a command of the scheduler. Raises WfError when the
    environment names a job, but not its hosts. The user's own list of hosts (`WF_HOSTFILE`) comes first.
    """
    environ = os.environ if environ is None else environ
    if path := environ.get("WF_HOSTFILE"):
        return host_file(path)
    # A Flux instance may run inside a job of another scheduler, and then has the nodes that matter.
    if environ.get("FLUX_URI") or environ.get("FLUX_JOB_ID"):
        return flux_job(environ, query)
    if environ.get("SLURM_JOB_ID"):
        return slurm_job(environ, query)
    if environ.get("PBS_JOBID"):
        return pbs_job(environ, query, this_host())
    if environ.get("LSB_JOBID"):
        return lsf_job(environ, query)
    return Allocation("local", "", (this_host(),))


def this_host() -> Host:
    """This machine: the cores and the memory that processes started from here may use."""
    return Host(platform.node(), len(os.sched_getaffinity(0)), memory_bytes())
