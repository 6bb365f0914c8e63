"""Which of the known sites this machine is. Nothing is assumed: a site is recognised by what its file says."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from workflow.site.queue_model import Detect


def is_here(detect: Sequence[Detect]) -> bool:
    """Whether this process runs on the machine that is recognised so."""
    return is_recognised(detect, os.environ, platform.node())


def is_recognised(detect: Iterable[Detect], environ: Mapping[str, str], host: str) -> bool:
    """Whether one of the ways holds for this environment and host name."""
    return any(_holds(way, environ, host) for way in detect)


def ways_text(detect: Iterable[Detect]) -> str:
    """What recognises the machine, as it is told to a user: `host aurora-uan-*, or PBS_JOBID=*.aurora-pbs-*`."""
    return ", or ".join(" and ".join(_parts(way)) for way in detect)


def _parts(way: Detect) -> Iterable[str]:
    if way.variable is not None:
        yield way.variable if way.value is None else f"{way.variable}={way.value}"
    if way.host is not None:
        yield f"host {way.host}"


def _holds(way: Detect, environ: Mapping[str, str], host: str) -> bool:
    if way.variable is not None:
        value = environ.get(way.variable)
        if value is None or (way.value is not None and not fnmatchcase(value, way.value)):
            return False
    return way.host is None or fnmatchcase(host.lower(), way.host.lower())
