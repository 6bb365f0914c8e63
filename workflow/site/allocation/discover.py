"""Finds the allocation that this process is in: a host file, that of the innermost scheduler, or this machine.

Each scheduler's module is imported only inside of its jobs: a laptop pays for none.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING

from workflow.launch.allocation import Allocation, Host

if TYPE_CHECKING:
    from workflow.site.allocation.scheduler_query import Query


def discover_allocation(environ: Mapping[str, str] | None = None, query: Query | None = None) -> Allocation:
    """What this process may use.

    `environ` is by default that of this process; `query` asks a command of the scheduler, by default with a deadline.
    Raises WfError when the environment names a job, but not its hosts. The user's own list of hosts (`WF_HOSTFILE`)
    comes first.
    """
    environ = os.environ if environ is None else environ
    if path := environ.get("WF_HOSTFILE"):
        from workflow.site.allocation.host_lines import host_file

        return host_file(path)
    variables = ("FLUX_URI", "FLUX_JOB_ID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")
    if not any(environ.get(name) for name in variables):
        return Allocation("local", "", (this_host(),), counts_threads=True)
    return _of_scheduler(environ, query)


def _of_scheduler(environ: Mapping[str, str], query: Query | None) -> Allocation:
    from workflow.site.allocation.scheduler_query import ask

    query = query or ask
    # A Flux instance may run inside a job of another scheduler, and then has the nodes that matter.
    if environ.get("FLUX_URI") or environ.get("FLUX_JOB_ID"):
        from workflow.site.allocation.flux_job import flux_job

        return flux_job(environ, query)
    if environ.get("SLURM_JOB_ID"):
        from workflow.site.allocation.slurm_job import slurm_job
        from workflow.site.cpu_topology import cpu_topology

        return slurm_job(environ, query, len(cpu_topology().allowed))
    if environ.get("PBS_JOBID"):
        from workflow.site.allocation.pbs_job import pbs_job

        return pbs_job(environ, query, this_host())
    from workflow.site.allocation.lsf_job import lsf_job

    return lsf_job(environ, query)


def this_host() -> Host:
    """This machine: the hardware threads and the memory that processes started from here may use."""
    from workflow.site.machine import memory_bytes

    return Host(platform.node(), len(os.sched_getaffinity(0)), memory_bytes())
