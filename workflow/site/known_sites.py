"""All sites that have a file here, and those of them that this machine is."""

from __future__ import annotations

from contextlib import suppress

from workflow.errors import WfError
from workflow.launch.allocation import Allocation
from workflow.site.detection import is_here
from workflow.site.load_site import read_site_file
from workflow.spec.config_dirs import known_configs

# The site of any machine under a scheduler, and of a host file.
GENERIC = {"slurm": "slurm", "pbs": "pbs", "lsf": "lsf", "flux": "flux", "hostfile": "hosts"}


def site_for(allocation: Allocation, chosen: str) -> str:
    """The site to name to somebody who plans for one machine inside of a job of several; empty: none is better."""
    if chosen != "local" or allocation.source not in GENERIC:
        return ""
    return next(iter(detected_sites()), GENERIC[allocation.source])


def detected_sites() -> list[str]:
    """The known sites that this machine is, by their files; one machine may have several (GPU nodes, CPU nodes).

    Files that are wrong are left out: they are reported where they are used.
    """
    found = []
    for name in known_configs("sites"):
        with suppress(WfError):
            if is_here(read_site_file(name).detect):
                found.append(name)
    return found
