"""What the scheduler's and the launcher's own commands say of a site. What is not understood is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workflow.launch.allocation import Source
from workflow.schedulers.scheduler import SchedulerFacts
from workflow.schedulers.scheduler_query import Query, QueryError
from workflow.schedulers.schedulers import SCHEDULERS, scheduler_named

_VERSION = re.compile(r"(\d+(?:\.\d+)+)")


def scheduler_of(source: Source, on_path: Callable[[str], object]) -> str | None:
    """The scheduler of a job that is in it, else the one whose commands are here."""
    if source in SCHEDULERS:
        return source
    return next((name for name in SCHEDULERS if on_path(scheduler_named(name).command)), None)


def ask_scheduler(scheduler: str | None, environ: Mapping[str, str], query: Query) -> SchedulerFacts:
    """Its queues, and what it says of its nodes, where there are commands for that."""
    facts = scheduler_named(scheduler).facts if scheduler is not None else None
    return SchedulerFacts(scheduler) if facts is None else facts(environ, query)


@dataclass(frozen=True)
class LauncherFact:
    """The launcher to use, as site files name it, and its version; empty where it is not told."""

    name: str = "mpiexec"
    version: str = ""


def ask_launcher(scheduler: str | None, query: Query) -> LauncherFact:
    """The scheduler's own, where it is here; else what `mpiexec --version` says that it is."""
    own = scheduler_named(scheduler).launcher if scheduler is not None else ""
    for command in filter(None, (own, "mpiexec")):
        try:
            said = query([command, "--version"])
        except QueryError:
            continue
        if command != "mpiexec":
            return LauncherFact(command, _version(said))
        flavour = next((name for word, name in _FLAVOURS.items() if word in said), "mpiexec")
        return LauncherFact(flavour, _version(said))
    return LauncherFact()


# A word of `mpiexec --version`, and what site files call that launcher.
_FLAVOURS = {"PALS": "pals", "Open MPI": "openmpi", "OpenRTE": "openmpi", "HYDRA": "mpiexec"}


def _version(said: str) -> str:
    match = _VERSION.search(said)
    return match[1] if match else ""
