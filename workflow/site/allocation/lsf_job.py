"""The allocation of an LSF job, from LSB_MCPU_HOSTS or LSB_DJOB_HOSTFILE, and bjobs(1)."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from workflow.errors import WfError
from workflow.launch.allocation import Allocation, Host
from workflow.site.allocation.host_lines import count_hosts, read_host_file
from workflow.site.allocation.scheduler_query import Query, QueryError

# `bjobs -o time_left`: hours and minutes, L: of the limit; E and X: of an estimate.
_LEFT = re.compile(r"^(\d+):(\d+)(?: ([LEX]))?$")


def lsf_job(environ: Mapping[str, str], query: Query) -> Allocation:
    """The allocation of the job that this process is part of. Raises WfError when its hosts are not known."""
    job, notes = environ["LSB_JOBID"], list[str]()
    slots = _slots(environ)
    # Where jobs run on other nodes than their script (jsrun), its node comes first, with one slot.
    others = list(slots.values())[1:]
    if others and next(iter(slots.values())) == 1 and min(others) > 1:
        first = next(iter(slots))
        notes.append(f"{first} has one slot and comes first: taken as the launch node, where no stage can run")
        del slots[first]
    hosts = tuple(Host(name, count) for name, count in slots.items())
    return Allocation("lsf", job, hosts, _end_time(job, query, notes), tuple(notes))


def _slots(environ: Mapping[str, str]) -> dict[str, int]:
    """Host → slots. `hostA 4 hostB 2`, or a file that lists each host once for each slot."""
    if text := environ.get("LSB_MCPU_HOSTS", ""):
        words = text.split()
        if len(words) % 2 or not all(count.isdigit() for count in words[1::2]):
            raise WfError(f'LSF\'s LSB_MCPU_HOSTS is "{text[:80]}"', "expected `HOST SLOTS HOST SLOTS …`")
        return {name: int(count) for name, count in zip(words[::2], words[1::2], strict=True)}
    if path := environ.get("LSB_DJOB_HOSTFILE", ""):
        if slots := count_hosts(read_host_file(path, "LSB_DJOB_HOSTFILE").split()):
            return slots
        raise WfError(f"LSB_DJOB_HOSTFILE={path}: there is no host in it", "the job has ended, or it was overwritten")
    hint = "start wf inside of the job script, with the variables that LSF sets"
    raise WfError("LSB_JOBID is set, but neither LSB_MCPU_HOSTS nor LSB_DJOB_HOSTFILE, which list the hosts", hint)


def _end_time(job: str, query: Query, notes: list[str]) -> float | None:
    """Now, plus what is left. None: it has no limit, or that is not known (a note)."""
    try:
        said = query(["bjobs", "-noheader", "-o", "time_left", job]).strip()
    except QueryError as error:
        notes.append(f"the end of the job is not known: {error}")
        return None
    if said == "-":
        return None
    match = _LEFT.match(said)
    if match is None:
        notes.append(f'the end of the job is not known: bjobs says that "{said[:60]}" is left')
        return None
    if match[3] in ("E", "X"):  # an estimate of the user's, which ends no job
        return None
    return time.time() + 3600 * int(match[1]) + 60 * int(match[2])
