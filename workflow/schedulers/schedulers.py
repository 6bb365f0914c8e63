"""The schedulers by the name that a site's file gives them. A new one is a new module beside this, and a line here.

A module is imported only where its scheduler is used: a laptop pays for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workflow.schedulers.scheduler import Scheduler

# Name, which is that of the module → environment variables, one of which is set inside of its jobs.
SCHEDULERS: dict[str, tuple[str, ...]] = {
    "slurm": ("SLURM_JOB_ID",),
    "pbs": ("PBS_JOBID",),
    "lsf": ("LSB_JOBID",),
    "flux": ("FLUX_URI", "FLUX_JOB_ID"),
}


def scheduler_named(name: str) -> Scheduler:
    """All that is known of a scheduler. Raises KeyError for a name that is not in the table."""
    if name not in SCHEDULERS:
        raise KeyError(name)
    found: Scheduler = import_module(f"workflow.schedulers.{name}").SCHEDULER
    return found


def cluster_here(scheduler: str | None, environ: Mapping[str, str]) -> str:
    """The cluster that a process is on, as its scheduler names it; "" where it does not. Clusters count jobs apart."""
    return environ.get(scheduler_named(scheduler).cluster_variable, "") if scheduler in SCHEDULERS else ""
