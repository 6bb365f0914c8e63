"""The launchers by the name that a site's file gives them. A new one is a new module beside this, and a line here."""

from __future__ import annotations

from workflow.launch import direct, flux_run, jsrun, mpiexec, openmpi, pals, srun
from workflow.launch.launch_request import Launcher, LaunchLine, LaunchRequest

# The program is started as it is; and what a site's file means that names no launcher.
DIRECT, DEFAULT = "none", "mpiexec"
LAUNCHERS: dict[str, Launcher] = {
    DIRECT: direct.LAUNCHER,
    "mpiexec": mpiexec.LAUNCHER,
    "pals": pals.LAUNCHER,
    "openmpi": openmpi.LAUNCHER,
    "srun": srun.LAUNCHER,
    "jsrun": jsrun.LAUNCHER,
    "flux": flux_run.LAUNCHER,
}


def known_launcher(name: str) -> str:
    """`name`, if there is such a launcher. Raises ValueError with those that there are."""
    if name not in LAUNCHERS:
        known = ", ".join(f"`{each}`" for each in LAUNCHERS)
        raise ValueError(f'there is no launcher "{name}"; launchers: {known}')
    return name


def launch_line(request: LaunchRequest) -> LaunchLine:
    """What is executed. The same for `wf plan`, which has no hosts yet, and for the run."""
    return LAUNCHERS[request.launcher].line(request)
