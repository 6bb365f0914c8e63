"""The allocation of a PBS job: PBS Pro (OpenPBS) or Torque, from PBS_NODEFILE and qstat(1B)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from workflow.errors import WfError
from workflow.launch.allocation import Allocation, Host
from workflow.site.allocation.host_lines import count_hosts, read_host_file, with_own_facts
from workflow.site.allocation.scheduler_query import Query, QueryError

_ATTRIBUTE = re.compile(r"^ {4}(\S+) = (.*)$")
_TIME = "%a %b %d %H:%M:%S %Y"


def pbs_job(environ: Mapping[str, str], query: Query, own: Host) -> Allocation:
    """The allocation of the job that this process is part of; `own` is what it may use of its own node.

    PBS Pro does not say reliably how many cores a job may use of a node: `ncpus` is 1 where the site gives out whole
    nodes. So only those of this node are known. Torque lists a host once for each of its cores. Raises WfError.
    """
    job, notes = environ["PBS_JOBID"], list[str]()
    if not (path := environ.get("PBS_NODEFILE", "")):
        hint = "start wf inside of the job script, with the variables that PBS sets"
        raise WfError("PBS_JOBID is set, but not PBS_NODEFILE, which lists the hosts", hint)
    counts = count_hosts(read_host_file(path, "PBS_NODEFILE").split())
    if not counts:
        raise WfError(f"PBS_NODEFILE={path}: there is no host in it", "the job has ended, or its file was overwritten")
    torque = bool(environ.get("PBS_NUM_PPN"))
    hosts = tuple(Host(*item) for item in counts.items()) if torque else with_own_facts(list(counts), own)
    return Allocation("pbs", job, hosts, _end_time(job, query, notes), tuple(notes), counts_threads=not torque)


def _end_time(job: str, query: Query, notes: list[str]) -> float | None:
    """When it began, plus its walltime. None: it has no limit, or that is not known (a note)."""
    try:
        said = qstat_attributes(query(["qstat", "-f", job]))
    except QueryError as error:
        notes.append(f"the end of the job is not known: {error}")
        return None
    began, limit = said.get("stime") or said.get("start_time", ""), said.get("Resource_List.walltime", "")
    if not limit:
        return None
    try:
        return datetime.strptime(began, _TIME).timestamp() + _seconds(limit)
    except ValueError:
        notes.append(f'the end of the job is not known: qstat says it began "{began}" and may run "{limit}"')
        return None


def qstat_attributes(text: str) -> dict[str, str]:
    """`qstat -f` of one job as attribute → value; long values go on in lines that begin with a tab."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("\t") and name:
            found[name] += line.strip("\t")
        elif match := _ATTRIBUTE.match(line):
            name = match[1]
            found[name] = match[2]
    return found


def _seconds(limit: str) -> float:
    """`01:30:00`, `90:00` or `5400`. Raises ValueError."""
    total = 0
    for part in limit.split(":"):
        total = 60 * total + int(part)
    return float(total)
