"""Flux: flux-batch(1), flux-jobs(1), flux-cancel(1), flux-resource(1), and the resource set of a job (RFC 20)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from workflow.core_set import parse_cores
from workflow.errors import WfError
from workflow.launch.allocation import Allocation, Host
from workflow.launch.host_lists import expand_hosts
from workflow.schedulers.scheduler import (
    HowToAsk,
    JobOrder,
    JobWord,
    Phase,
    Query,
    QueryError,
    Scheduler,
    SubmitCommand,
    ThisNode,
    WaitsForEver,
    end_of_job,
    fields_of,
)

_UNLIMITED_S = 2**32 - 1  # what `flux job timeleft` says of a job without a limit
# flux-jobs(1), JOB STATUS
_PHASES: dict[str, Phase] = {
    **dict.fromkeys(("NEW", "DEPEND", "PRIORITY", "SCHED"), "pending"),
    **dict.fromkeys(("RUN", "CLEANUP"), "running"),
    **dict.fromkeys(("COMPLETED", "FAILED", "CANCELED", "TIMEOUT", "INACTIVE"), "ended"),
}
_QUEUE = ["flux", "jobs", "-a", "--no-header", "--format={id.f58}|{status}|{returncode}|{exception.note}|{urgency}"]


def flux_allocation(environ: Mapping[str, str], query: Query, _: ThisNode) -> Allocation:
    """The allocation of the job that this process is part of; else, as in a batch script, of the whole instance.

    Raises:
        WfError: its resource set cannot be had, or not be understood.
    """
    job, notes = environ.get("FLUX_JOB_ID", ""), list[str]()
    try:
        text = query(["flux", "job", "info", job, "R"] if job else ["flux", "resource", "R"])
    except QueryError as error:
        hint = "is the flux command on PATH? Where the job is over, start a new shell, or `unset FLUX_URI FLUX_JOB_ID`"
        raise WfError(f"the hosts of this Flux job are not known: {error}", hint) from error
    try:
        hosts = tuple(resource_hosts(json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = " ".join(text.split())[:80]
        raise WfError(f'Flux\'s resource set is not understood ({error}): "{text}"', "see `flux resource R`") from error
    end_time = end_of_job(lambda: _end_time(query), notes)
    return Allocation("flux", job or environ.get("FLUX_ENCLOSING_ID", ""), hosts, end_time, tuple(notes))


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


def _end_time(query: Query) -> float | None:
    """Now, plus what is left. None: without a limit. Raises QueryError."""
    said = query(["flux", "job", "timeleft"]).strip()
    if not said.isdigit():
        raise QueryError(f'flux says that "{said[:60]}" is left')
    return None if int(said) >= _UNLIMITED_S else time.time() + int(said)


def flux_directives(order: JobOrder) -> Iterator[str]:
    """Options of flux-batch(1)."""
    allocation = order.allocation
    yield f"--job-name={order.name}"
    yield f"--nodes={allocation.nodes}"
    yield f"--time-limit={allocation.walltime_s:.0f}s"
    if allocation.exclusive:
        yield "--exclusive"
    if allocation.queue:
        yield f"--queue={allocation.queue}"
    if allocation.account:
        yield f"--bank={allocation.account}"
    if allocation.constraints:
        yield f"--requires={'&'.join(allocation.constraints)}"
    yield f"--output={order.output}"
    yield from (line for line in allocation.directives if line != "--exclusive")


def read_flux_jobs(text: str) -> list[JobWord]:
    """What `flux jobs` has printed: `ƒ2oLkTLb|FAILED|127||16`."""
    found = []
    for line in text.splitlines():
        if not (fields := fields_of(line, 5)):
            continue
        job, state, code, reason, urgency = fields
        reason = reason or ("held" if urgency == "0" else "")
        exit_code = int(code) if code.lstrip("-").isdigit() else None
        found.append(JobWord(job, _PHASES.get(state, "unknown"), state, line.strip(), reason, exit_code))
    return found


def nodes_up(_: str | None, query: Query) -> int:
    """Of the whole instance. Raises QueryError, ValueError."""
    command = ["flux", "resource", "list", "--states=up", "--no-header", "--format={nnodes}"]
    return sum(int(line) for line in query(command).split())


SCHEDULER = Scheduler(
    title="Flux",
    command="flux",
    allocation=flux_allocation,
    # flux-batch(1): the id, in a line of its own; with `f` for `ƒ` where the locale has no such letter.
    submit=SubmitCommand(("flux", "batch"), re.compile(r"^\s*([ƒf][1-9A-HJ-NP-Za-km-z]+)\s*$", re.MULTILINE)),
    mark="# flux:",
    directives=flux_directives,
    of_job=lambda job: [*_QUEUE, job],
    of_name=lambda name: [*_QUEUE, f"--name={name}"],
    read=read_flux_jobs,
    cancel=lambda job: ["flux", "cancel", job],
    absent=("unknown job", "unknown id", r"JobID \S+ unknown", "job is inactive"),
    phases=_PHASES,
    causes={"TIMEOUT": "time_limit", "CANCELED": "cancelled"},
    ending=("CLEANUP",),
    ask=HowToAsk("`flux batch --nodes={0}`", "`flux batch --exclusive`", "`flux batch --gpus-per-slot`"),
    never_starts=(WaitsForEver(re.compile("held"), "`flux job urgency {job} default`"),),
    answers=("flux", "resource", "list"),
    nests=True,
    # Of the instance around the submission, which a job of another scheduler would take for its own.
    not_inherited=lambda _order: ("FLUX_URI", "FLUX_JOB_*", "FLUX_TASK_*", "FLUX_ENCLOSING_ID", "FLUX_KVS_NAMESPACE"),
    nodes_up=nodes_up,
    launcher="flux",
)
