"""LSF: bsub(1), bjobs(1), bkill(1), and the environment of its jobs."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping

from workflow.errors import WfError
from workflow.launch.allocation import Allocation, Host
from workflow.launch.host_lists import count_hosts, read_host_file
from workflow.launch.rank_ends import SchedulerCause
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

# `bjobs -o time_left`: hours and minutes, L: of the limit; E and X: of an estimate.
_LEFT = re.compile(r"^(\d+):(\d+)(?: ([LEX]))?$")
# bjobs(1), STAT
_PHASES: dict[str, Phase] = {
    **dict.fromkeys(("PEND", "PSUSP", "WAIT", "PROV"), "pending"),
    **dict.fromkeys(("RUN", "USUSP", "SSUSP"), "running"),
    **dict.fromkeys(("DONE", "EXIT"), "ended"),
}
# bjobs(1), `exit_reason`
_CAUSES: dict[str, SchedulerCause] = {
    **dict.fromkeys(("TERM_RUNLIMIT", "TERM_DEADLINE"), "time_limit"),
    **dict.fromkeys(("TERM_OWNER", "TERM_ADMIN", "TERM_FORCE_OWNER", "TERM_FORCE_ADMIN"), "cancelled"),
    "TERM_MEMLIMIT": "out_of_memory",
    "TERM_PREEMPT": "preempted",
}
_QUEUE = ["bjobs", "-a", "-noheader", "-o", "jobid stat exit_code exit_reason delimiter='|'"]

# The environment of its jobs (IBM's LSF reference), which bsub passes on. Not LSB_DEFAULTQUEUE and other options.
_OF_A_JOB = (
    "LSB_JOBID", "LSB_BATCH_JID", "LSB_JOBINDEX*", "LSB_JOBNAME", "LSB_QUEUE", "LSB_HOSTS", "LSB_MCPU_HOSTS",
    "LSB_DJOB_*", "LSB_AFFINITY_HOSTFILE", "LSB_EFFECTIVE_RSRCREQ", "LSB_SUB_*", "LS_JOBPID", "LS_SUBCWD",
    "BSUB_QUIET",  # not of a job: with it bsub does not say the id
)  # fmt: skip


def lsf_allocation(environ: Mapping[str, str], query: Query, _: ThisNode) -> Allocation:
    """The allocation of the job that this process is part of. Raises WfError when its hosts are not known."""
    job, notes = environ["LSB_JOBID"], list[str]()
    if (index := environ.get("LSB_JOBINDEX", "0")) != "0":  # an element of an array
        job += f"[{index}]"
    slots = _slots(environ)
    # Where jobs run on other nodes than their script (jsrun), its node comes first, with one slot.
    others = list(slots.values())[1:]
    if others and next(iter(slots.values())) == 1 and min(others) > 1:
        first = next(iter(slots))
        notes.append(f"{first} has one slot and comes first: taken as the launch node, where no stage can run")
        del slots[first]
    hosts = tuple(Host(name, count) for name, count in slots.items())
    return Allocation("lsf", job, hosts, end_of_job(lambda: _end_time(job, query), notes), tuple(notes))


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
    hint = "start wf inside the job script, with the variables that LSF sets"
    raise WfError("LSB_JOBID is set, but neither LSB_MCPU_HOSTS nor LSB_DJOB_HOSTFILE, which list the hosts", hint)


def _end_time(job: str, query: Query) -> float | None:
    """Now, plus what is left. None: it has no limit. Raises QueryError."""
    said = query(["bjobs", "-noheader", "-o", "time_left", job]).strip()
    if said == "-":
        return None
    match = _LEFT.match(said)
    if match is None:
        raise QueryError(f'bjobs says that "{said[:60]}" is left')
    if match[3] in ("E", "X"):  # an estimate of the user's, which ends no job
        return None
    return time.time() + 3600 * int(match[1]) + 60 * int(match[2])


def lsf_directives(order: JobOrder) -> Iterator[str]:
    """Options of bsub(1)."""
    allocation = order.allocation
    yield f"-J {order.name}"
    yield f"-nnodes {allocation.nodes}"
    yield f"-W {math.ceil(allocation.walltime_s / 60)}"
    yield "-rn"
    if allocation.queue:
        yield f"-q {allocation.queue}"
    if allocation.account:
        yield f"-P {allocation.account}"
    if allocation.reservation:
        yield f"-U {allocation.reservation}"
    if allocation.constraints:
        yield f'-R "select[{" && ".join(allocation.constraints)}]"'
    if allocation.exclusive:
        yield "-x"
    yield f"-o {order.output}"
    yield from allocation.directives


def read_lsf_jobs(text: str) -> list[JobWord]:
    """What bjobs has printed: `12|EXIT|130|TERM_OWNER: job killed by owner`."""
    found = []
    for line in text.splitlines():
        job, state, code, reason = fields_of(line, 4) or [""] * 4
        if not job.isdigit():
            continue
        exit_code = int(code) if code.isdigit() else 0 if state == "DONE" else None
        phase = _PHASES.get(state, "unknown")
        found.append(JobWord(job, phase, state, line.strip(), "" if reason == "-" else reason, exit_code))
    return found


SCHEDULER = Scheduler(
    title="LSF",
    command="bhosts",
    allocation=lsf_allocation,
    submit=SubmitCommand(("bsub",), re.compile(r"^Job <(\d+)> is submitted", re.MULTILINE), by_input=True),
    mark="#BSUB",
    directives=lsf_directives,
    of_job=lambda job: [*_QUEUE, job],
    of_name=lambda name: [*_QUEUE, "-J", name],
    read=read_lsf_jobs,
    cancel=lambda job: ["bkill", job],
    absent=("is not found", "No matching job found", "has already finished"),
    phases=_PHASES,
    causes=_CAUSES,
    ending=(),
    ask=HowToAsk("`bsub -nnodes {0}`, or as your site documents", "`bsub -x`", "`bsub -gpu num={}`"),
    not_inherited=lambda _order: _OF_A_JOB,
    never_starts=(WaitsForEver(re.compile("PSUSP"), "`bresume {job}`"),),
    launcher="jsrun",
)
