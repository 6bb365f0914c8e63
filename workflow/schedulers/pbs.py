"""PBS Professional and OpenPBS: qsub(1B), qstat(1B), qselect(1B), qdel(1B), and the environment of their jobs, and
of Torque's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

from workflow.errors import WfError
from workflow.launch.allocation import Allocation, Host
from workflow.launch.host_lists import count_hosts, read_host_file, with_own_facts
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
    clock_seconds,
    end_of_job,
)

_ATTRIBUTE = re.compile(r"^ {4}(\S+) = (.*)$")
_TIME = "%a %b %d %H:%M:%S %Y"
# PBS Professional Reference Guide, Job States
_PHASES: dict[str, Phase] = {
    **dict.fromkeys("QHWTM", "pending"),
    **dict.fromkeys("RBESU", "running"),
    **dict.fromkeys("FX", "ended"),
}
# Exit_status: of a job that was ended at its walltime, and 256 + SIGTERM (PBS Professional Administrator's Guide).
_ENDS = {"-29": "TIMEOUT", "271": "CANCELLED"}

# qsub(1B), ENVIRONMENT VARIABLES, and those of Torque: `-V` passes on all that there are.
_OF_A_JOB = (
    "PBS_JOBID", "PBS_JOBNAME", "PBS_JOBDIR", "PBS_JOBCOOKIE", "PBS_NODEFILE", "PBS_NODENUM", "PBS_TASKNUM",
    "PBS_MOMPORT", "PBS_ENVIRONMENT", "PBS_QUEUE", "PBS_ARRAY*", "PBS_NUM_*", "PBS_NP", "PBS_O_*",
)  # fmt: skip


def pbs_allocation(environ: Mapping[str, str], query: Query, node: ThisNode) -> Allocation:
    """The allocation of the job that this process is part of.

    PBS Pro does not say reliably how many cores a job may use of a node: `ncpus` is 1 where the site gives out whole
    nodes. So only those of this node are known. Torque lists a host once for each of its cores. Raises WfError.
    """
    job, notes = environ["PBS_JOBID"], list[str]()
    if not (path := environ.get("PBS_NODEFILE", "")):
        hint = "start wf inside the job script, with the variables that PBS sets"
        raise WfError("PBS_JOBID is set, but not PBS_NODEFILE, which lists the hosts", hint)
    counts = count_hosts(read_host_file(path, "PBS_NODEFILE").split())
    if not counts:
        raise WfError(f"PBS_NODEFILE={path}: there is no host in it", "the job has ended, or its file was overwritten")
    torque = bool(environ.get("PBS_NUM_PPN"))
    hosts = tuple(Host(*item) for item in counts.items()) if torque else with_own_facts(list(counts), node.host())
    end_time = end_of_job(lambda: _end_time(job, query), notes)
    return Allocation("pbs", job, hosts, end_time, tuple(notes), counts_threads=not torque)


def _end_time(job: str, query: Query) -> float | None:
    """When it began, plus its walltime. None: it has no limit. Raises QueryError."""
    said = _attributes_of(job, query(["qstat", "-f", job]))
    began, limit = said.get("stime") or said.get("start_time", ""), said.get("Resource_List.walltime", "")
    if not limit:
        return None
    try:
        return datetime.strptime(began, _TIME).timestamp() + clock_seconds(limit)
    except ValueError:
        raise QueryError(f'qstat says it began "{began}" and may run "{limit}"') from None


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


def _attributes_of(job: str, text: str) -> dict[str, str]:
    """Of the record of this job: there is one for each job that was named, or was taken for it."""
    blocks = {block.split()[0]: block for block in text.split("Job Id:") if block.split()}
    return qstat_attributes(
        blocks.get(job) or next((blocks[name] for name in blocks if _short(name) == _short(job)), "")
    )


def _short(job: str) -> str:
    return job.partition(".")[0]


def pbs_directives(order: JobOrder) -> Iterator[str]:
    """Options of qsub(1B) beside those of `pbs.mustache`."""
    allocation = order.allocation
    yield f"-N {order.name}"
    yield "-r n"
    yield pbs_chunk(order)
    if not any(line.startswith("-l place=") for line in allocation.directives):
        yield f"-l place=scatter:{'exclhost' if allocation.exclusive else 'shared'}"
    yield from allocation.directives


def pbs_chunk(order: JobOrder) -> str:
    """`-l select=…`: the nodes, and what they must have. Of whole nodes the site decides the rest."""
    allocation = order.allocation
    given = ":".join(allocation.constraints)
    share = "" if allocation.exclusive or "ncpus=" in given else f":ncpus={order.cpus}:mpiprocs=1"
    return f"-l select={allocation.nodes}{share}" + (f":{given}" if given else "")


def read_pbs_jobs(text: str) -> list[JobWord]:
    """What `qstat -f` has printed, or the job ids of `qselect`, which tell nothing else."""
    found: list[JobWord] = []
    for block in text.split("Job Id:"):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        values = qstat_attributes(block)
        if "job_state" not in values:
            found += [JobWord(line, "unknown", "", line) for line in lines if line[:1].isdigit() and " " not in line]
            continue
        state, code = values["job_state"], values.get("Exit_status", "")
        raw = ", ".join(f"{key} = {values[key]}" for key in values if key in ("job_state", "Exit_status", "comment"))
        exit_code = int(code) if code.lstrip("-").isdigit() else None
        phase = _PHASES.get(state, "unknown")
        found.append(JobWord(lines[0], phase, _ENDS.get(code, state), raw, values.get("comment", ""), exit_code))
    return found


SCHEDULER = Scheduler(
    title="PBS",
    command="pbsnodes",
    allocation=pbs_allocation,
    # The id with its server, which some sites leave out, in a line of its own.
    submit=SubmitCommand(("qsub",), re.compile(r"^\s*(\d+(?:\[\])?(?:\.[A-Za-z][\w.-]*)?)\s*$", re.MULTILINE)),
    mark="#PBS",
    directives=pbs_directives,
    # -x: with those that have ended, as long as the server keeps its history.
    of_job=lambda job: ["qstat", "-x", "-f", job],
    of_name=lambda name: ["qselect", "-x", "-N", name],
    read=read_pbs_jobs,
    cancel=lambda job: ["qdel", job],
    absent=("Unknown Job Id", "Unknown Job ID", "Job has finished"),
    phases=_PHASES,
    causes={"TIMEOUT": "time_limit", "CANCELLED": "cancelled"},  # as `_ENDS` says it
    ending=("E", *_ENDS.values()),
    ask=HowToAsk("`qsub -l select={0}`", "`qsub -l place=scatter:excl`", "`qsub -l select=…:ngpus={}`"),
    psij_template="pbs.mustache",
    answers=("qstat", "-B"),
    never_starts=(
        WaitsForEver(re.compile("Can Never Run")),
        WaitsForEver(re.compile("^H\\b"), "`qrls {job}`"),
    ),
    not_inherited=lambda _order: _OF_A_JOB,
)
