"""Finds the allocation that this process is in: a host file, that of the innermost scheduler, or this machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workflow.errors import WfError
from workflow.launch.allocation import Allocation, Host
from workflow.schedulers.schedulers import SCHEDULERS, scheduler_named

if TYPE_CHECKING:
    from workflow.schedulers.scheduler import Query


def discover_allocation(environ: Mapping[str, str] | None = None, query: Query | None = None) -> Allocation:
    """What this process may use.

    `environ` is by default that of this process; `query` asks a command of the scheduler, by default with a deadline.
    Raises WfError when the environment names a job, but not its hosts, or one that is not believed: a shell keeps the
    variables of a job that is over. The user's own list of hosts (`WF_HOSTFILE`) comes first.
    """
    environ = os.environ if environ is None else environ
    if path := environ.get("WF_HOSTFILE"):
        from workflow.launch.host_lists import host_file

        return host_file(path)
    inside = [name for name, variables in SCHEDULERS.items() if any(environ.get(each) for each in variables)]
    if not inside:
        return Allocation("local", "", (this_host(),), counts_threads=True)
    from workflow.schedulers.job_questions import says_absent
    from workflow.schedulers.scheduler import QueryError, ThisNode, ask

    # A Flux instance may run inside a job of another scheduler, and then has the nodes that matter.
    name = max(inside, key=lambda each: scheduler_named(each).nests)
    scheduler, is_absent = scheduler_named(name), False

    def noted(command: Sequence[str]) -> str:
        nonlocal is_absent
        try:
            return (query or ask)(command)
        except QueryError as error:
            is_absent = is_absent or says_absent(scheduler, error)
            raise

    found = scheduler.allocation(environ, noted, ThisNode(this_host, _own_cores))
    # Else it was asked of the instance itself, which has answered.
    variable = next((each for each in SCHEDULERS[name] if environ.get(each) == found.job.partition("[")[0]), None)
    if variable is not None:
        _check_job(name, variable, found, is_absent, query)
    return found


def _check_job(name: str, variable: str, found: Allocation, is_absent: bool, query: Query | None) -> None:
    """Raises WfError where neither the job's list of hosts, with this machine in it, nor the scheduler says that this
    process is part of the job. `is_absent`: the scheduler has said that it does not know the job."""
    from workflow.launch.host_lists import is_same_host
    from workflow.schedulers.job_questions import JobAnswer, ask_for_job, ask_slowly

    own, title = platform.node(), scheduler_named(name).title
    if not is_absent and any(is_same_host(host.name, own) for host in found.hosts):
        return
    # As in a shell of `salloc` on a login node, and where jobs run on other nodes than their script.
    answer = JobAnswer() if is_absent else ask_for_job(name, found.job, query or ask_slowly)
    if answer.word is not None and answer.word.phase != "ended":
        return
    hosts = ", ".join([host.name for host in found.hosts[:3]] + ["…"] * (len(found.hosts) > 3))
    why = f"this machine, {own}, is none of its nodes ({hosts}), and {title} gives no answer: {answer.error}"
    if answer.word is not None:
        why = f"this job has ended: {answer.word.text}"
    elif answer.is_absent:
        why = f"{title} does not know this job"
    raise WfError(
        f"{variable}={found.job} is set, but {why}",
        f"start a new shell, or `unset {variable}`"
        + "; if this is the job, list its hosts in a file: WF_HOSTFILE=FILE" * bool(answer.error),
    )


def _own_cores() -> int:
    from workflow.site.this_machine import cpu_topology

    return len(cpu_topology().allowed)


def this_host() -> Host:
    """This machine: the hardware threads and the memory that processes started from here may use."""
    from workflow.site.this_machine import memory_bytes, usable_cores

    return Host(platform.node(), usable_cores(), memory_bytes())
