"""The schedulers by the name that a site's file gives them. A new one is a new module beside this, and a line here."""

from __future__ import annotations

from workflow.schedulers import flux, lsf, pbs, slurm
from workflow.schedulers.scheduler import Scheduler

SCHEDULERS: dict[str, Scheduler] = {
    "slurm": slurm.SCHEDULER,
    "pbs": pbs.SCHEDULER,
    "lsf": lsf.SCHEDULER,
    "flux": flux.SCHEDULER,
}
