"""The allocation of a Flux job or of a Flux instance, from its resource set (RFC 20) and flux-job(1)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from workflow.core_set import parse_cores
from workflow.errors import WfError
from workflow.launch.allocation import Allocation, Host
from workflow.launch.host_list import expand_hosts
from workflow.site.allocation.scheduler_query import Query, QueryError

_UNLIMITED_S = 2**32 - 1  # what `flux job timeleft` says of a job without a limit


def flux_job(environ: Mapping[str, str], query: Query) -> Allocation:
    """The allocation of the job that this process is part of; else, as in a batch script, of the whole instance.

    Raises:
        WfError: its resource set cannot be had, or not be understood.
    """
    job, notes = environ.get("FLUX_JOB_ID", ""), list[str]()
    try:
        text = query(["flux", "job", "info", job, "R"] if job else ["flux", "resource", "R"])
    except QueryError as error:
        raise WfError(f"the hosts of this Flux job are not known: {error}", "is the flux command on PATH?") from error
    try:
        hosts = tuple(resource_hosts(json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = " ".join(text.split())[:80]
        raise WfError(f'Flux\'s resource set is not understood ({error}): "{text}"', "see `flux resource R`") from error
    return Allocation("flux", job or environ.get("FLUX_ENCLOSING_ID", ""), hosts, _end_time(query, notes), tuple(notes))


def resource_hosts(resources: Mapping[str, Any]) -> list[Host]:
    """The hosts of a resource set, version 1 of RFC 20. Raises ValueError, KeyError or TypeError."""
    execution = resources["execution"]
    names = [name for part in execution["nodelist"] for name in expand_hosts(part)]
    parts: dict[int, Mapping[str, str]] = {}
    for entry in execution["R_lite"]:
        parts |= dict.fromkeys(parse_cores(str(entry["rank"])), entry["children"])
    if len(parts) != len(names):
        raise ValueError(f"{len(parts)} ranks for {len(names)} hosts")
    # The list of hosts is in the order of the ranks, which need not be consecutive.
    return [
        Host(name, len(parse_cores(parts[rank]["core"])), gpus=len(parse_cores(parts[rank].get("gpu", ""))))
        for name, rank in zip(names, sorted(parts), strict=True)
    ]


def _end_time(query: Query, notes: list[str]) -> float | None:
    """Now, plus what is left. None: without a limit, or not known (a note)."""
    try:
        said = query(["flux", "job", "timeleft"]).strip()
    except QueryError as error:
        notes.append(f"the end of the job is not known: {error}")
        return None
    if not said.isdigit():
        notes.append(f'the end of the job is not known: flux says that "{said[:60]}" is left')
        return None
    return None if int(said) >= _UNLIMITED_S else time.time() + int(said)
