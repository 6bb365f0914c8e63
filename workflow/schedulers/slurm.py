"""Slurm: sbatch(1), squeue(1), sacct(1), scancel(1), scontrol(1), sinfo(1), and the environment of its jobs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from workflow.core_set import parse_cores
from workflow.errors import WfError
from workflow.launch.allocation import Allocation, Host
from workflow.launch.host_lists import expand_hosts
from workflow.launch.rank_ends import SchedulerCause
from workflow.schedulers.scheduler import (
    AskedNodes,
    HowToAsk,
    JobOrder,
    JobWord,
    Phase,
    Query,
    QueryError,
    QueueFact,
    Scheduler,
    SchedulerFacts,
    SubmitCommand,
    ThisNode,
    WaitsForEver,
    clock_seconds,
    end_of_job,
    phase_of,
    without_cluster,
)

_REPEATED = re.compile(r"^(\d+)(?:\(x(\d+)\))?$")
_END = re.compile(r"\bEndTime=(\S+)")
# `scontrol show job` has a record for each task of an array, and each part of a heterogeneous job. Not ArrayJobId.
_RECORD = re.compile(r"(?=\bJobId=\d)")
_MIB = 2**20  # Slurm's memory is in units of 2^20 bytes
_PAIR = re.compile(r"(\w+)=(\S+)")
# Of what the script of a job has printed.
_TAIL = 4096
# https://slurm.schedmd.com/job_state_codes.html and squeue(1), JOB STATE CODES
_PHASES: dict[str, Phase] = {
    **dict.fromkeys(
        (
            "PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT",
            "POWER_UP_NODE",
        ),
        "pending",
    ),
    **dict.fromkeys(
        (
            "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING", "EXPEDITING",
            "LAUNCH_FAILED", "RECONFIG_FAIL", "UPDATE_DB",
        ),
        "running",
    ),
    **dict.fromkeys(
        (
            "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
            "OUT_OF_MEMORY", "REVOKED",
        ),
        "ended",
    ),
}  # fmt: skip
# `JobState` and `Reason` (https://slurm.schedmd.com/squeue.html#SECTION_JOB-STATE-CODES)
_CAUSES: dict[str, SchedulerCause] = {
    "BOOT_FAIL": "node_lost",
    "CANCELLED": "cancelled",
    "DEADLINE": "time_limit",
    "NODE_FAIL": "node_lost",
    "NODEDOWN": "node_lost",
    "NODEFAIL": "node_lost",
    "OUTOFMEMORY": "out_of_memory",
    "OUT_OF_MEMORY": "out_of_memory",
    "PREEMPTED": "preempted",
    "REQUEUED": "requeued",
    "TIMELIMIT": "time_limit",
    "TIMEOUT": "time_limit",
}
# sbatch(1), salloc(1) and srun(1), OUTPUT ENVIRONMENT VARIABLES. Not SLURM_CONF and others that say where Slurm is.
_OF_A_JOB = (
    "SLURM_JOB*", "SLURM_ARRAY_*", "SLURM_HET_*", "SLURM_NNODES", "SLURM_NODE*", "SLURM_NTASKS*", "SLURM_NPROCS",
    "SLURM_TASK*", "SLURM_CPU*", "SLURM_GPU*", "SLURM_SHARDS*", "SLURM_GRES*", "SLURM_MEM_*", "SLURM_TRES_*",
    "SLURM_DIST*", "SLURM_HINT", "SLURM_THREADS_PER_CORE", "SLURM_CORE_SPEC", "SLURM_THREAD_SPEC", "SLURM_OVERCOMMIT",
    "SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_OVERLAP", "SLURM_EXPORT_ENV", "SLURM_GET_USER_ENV", "SLURM_PROFILE",
    "SLURM_NETWORK", "SLURM_STEP*", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_GTIDS", "SLURM_SRUN_*", "SLURM_LAUNCH_*",
    "SLURM_PTY_*", "SLURM_SUBMIT_*", "SLURM_RESTART_COUNT", "SLURM_TOPOLOGY_*", "SLURM_RLIMIT_*", "SLURM_UMASK",
    "SLURM_PRIO_PROCESS", "SLURM_OOM_KILL_STEP", "SLURM_CONTAINER*", "SLURMD_*",
)  # fmt: skip
# sbatch(1), INPUT ENVIRONMENT VARIABLES: options that every script has, and those that make several jobs of one or let
# sbatch wait for its end.
_ALWAYS_SAID = (
    "SBATCH_JOB_NAME", "SBATCH_TIMELIMIT", "SBATCH_EXCLUSIVE", "SBATCH_REQUEUE", "SBATCH_NO_REQUEUE", "SBATCH_NO_KILL",
    "SBATCH_EXPORT", "SBATCH_OUTPUT", "SBATCH_ERROR", "SBATCH_ARRAY_INX", "SBATCH_WAIT",
)  # fmt: skip
# What slurmstepd says after `CANCELLED AT … DUE TO`.
_DUE_TO = {
    "TIME LIMIT": "TIMEOUT", "PREEMPTION": "PREEMPTED", "NODE FAILURE": "NODE_FAIL", "JOB REQUEUE": "REQUEUED",
}  # fmt: skip
# With and without `--parsable`, which a site's wrapper may drop; the cluster where there are several.
_ACCEPTED = re.compile(
    r"^\s*(?:sbatch: )?(?:Submitted batch job )?(\d+)(?:(?:;| on cluster )([\w.-]+))?\s*$", re.MULTILINE
)
# Before the jobs of a cluster, where it was named.
_CLUSTER = re.compile(r"^CLUSTER: (\S+)$")
_QUEUE = ["squeue", "--noheader", "--states=all", "--format=%A|%T|%r"]  # %A: each task of an array has a number
_HISTORY = ["sacct", "--noheader", "--allocations", "--parsable2", "--format=JobIDRaw,State,ExitCode"]
# squeue(1), JOB REASON CODES and states: what does not pass when other jobs end, by classes. Minutes of a budget are
# spent; those of jobs that run (RunMinutes) pass.
_NEVER_STARTS = (
    WaitsForEver(re.compile("JobHeldAdmin"), "an administrator holds it: ask them"),
    WaitsForEver(re.compile("(?i)held|hold|SPECIAL_EXIT|ReservationDeleted"), "`scontrol release {job}`"),
    WaitsForEver(re.compile("DependencyNeverSatisfied"), "what it depends on has ended otherwise: `scancel {job}`"),
    WaitsForEver(re.compile("(?<!Run)Minutes(?!PerJob)"), "the project has no time left: ask for more, or another one"),
    WaitsForEver(re.compile("Invalid|NotAllowed|NotFound"), "see `sacctmgr show associations user=$USER`"),
    WaitsForEver(
        re.compile(
            "PerJob|NotSatisfied|QOSMin|Never|BadConstraints|(?i:deadline)|are DOWN|ReqNodeNotAvail"
            "|Partition(NodeLimit|TimeLimit|Down|Inactive|Config)|MaxMemPerLimit"
        )
    ),
)
# sinfo(1), NODE STATE CODES: nodes in these states take no job, whoever ends one.
_NOT_UP = (
    "down", "drained", "draining", "drain", "fail", "failing", "error", "inval", "blocked", "future", "unk", "unknown",
)  # fmt: skip
_NO_ANSWER = "*"
_MARKS = "*~#!%$@^-+"
_SINFO = ["sinfo", "--noheader", "--format=%P|%D|%T"]


def slurm_allocation(environ: Mapping[str, str], query: Query, node: ThisNode) -> Allocation:
    """The allocation of the job that this process is part of.

    Slurm counts hardware threads, except where its configuration has as many CPUs as cores: then its count for this
    node is that of the physical cores that this process may use.

    Raises:
        WfError: its list of nodes is missing or not understood.
    """
    job, notes = environ["SLURM_JOB_ID"], list[str]()
    names = _node_names(environ)
    if environ.get("SLURM_HET_SIZE"):
        notes.append("the job is heterogeneous: only the nodes of its first part are used")
    cores = _cores(environ, len(names), notes)
    memory = _memory(environ, cores, notes)
    gpus = _gpus(environ, names, notes)
    hosts = tuple(Host(*values) for values in zip(names, cores, memory, gpus, strict=True))
    counts_cores = dict(zip(names, cores, strict=True)).get(environ.get("SLURMD_NODENAME", "")) == node.cores()
    end_time = end_of_job(lambda: _end_time(environ, job, query), notes)
    return Allocation("slurm", job, hosts, end_time, tuple(notes), counts_threads=not counts_cores)


def _node_names(environ: Mapping[str, str]) -> list[str]:
    text = environ.get("SLURM_JOB_NODELIST", "")
    try:
        return expand_hosts(text)
    except ValueError as error:
        hint = "start wf inside the job script, or in a shell of `salloc`, with the variables that Slurm sets"
        raise WfError(
            f"Slurm's SLURM_JOB_NODELIST is {error}" if text else "SLURM_JOB_ID is set, but not SLURM_JOB_NODELIST",
            hint,
        ) from None


def _cores(environ: Mapping[str, str], nodes: int, notes: list[str]) -> list[int | None]:
    """`SLURM_JOB_CPUS_PER_NODE`, `72(x2),36`, by node."""
    text = environ.get("SLURM_JOB_CPUS_PER_NODE", "")
    counts: list[int] = []
    for part in text.split(","):
        match = _REPEATED.match(part)
        if match is None or int(match[2] or 1) > nodes:
            counts = []
            break
        counts += [int(match[1])] * int(match[2] or 1)
    if len(counts) == nodes:
        return list(counts)
    notes.append(f'the cores per node are not known: SLURM_JOB_CPUS_PER_NODE is "{text}" for {nodes} nodes')
    return [None] * nodes


def _memory(environ: Mapping[str, str], cores: list[int | None], notes: list[str]) -> list[int | None]:
    """`SLURM_MEM_PER_NODE`, or `SLURM_MEM_PER_CPU` times the CPUs; unset: the job may use all of the node."""
    for name, factors in (("SLURM_MEM_PER_NODE", [1] * len(cores)), ("SLURM_MEM_PER_CPU", cores)):
        if (text := environ.get(name, "")) in ("", "0"):  # 0: all of the node
            continue
        if text.isdigit():
            return [None if factor is None else int(text) * _MIB * factor for factor in factors]
        notes.append(f'the memory per node is not known: {name} is "{text}"')
    return [None] * len(cores)


def _gpus(environ: Mapping[str, str], names: list[str], notes: list[str]) -> list[int | None]:
    """GPUs by node: of all where the job asked for them by node, else of the node that this process is on."""
    if text := environ.get("SLURM_GPUS_PER_NODE", ""):
        counts = [part.rpartition(":")[2] for part in text.split(",")]  # `4`, `a100:4`, `a100:2,h100:2`
        if all(count.isdigit() for count in counts):
            return [sum(map(int, counts))] * len(names)
        notes.append(f'the GPUs per node are not known: SLURM_GPUS_PER_NODE is "{text}"')
    here = _gpus_here(environ, notes)
    own = environ.get("SLURMD_NODENAME", names[0])
    return [here if name == own else None for name in names]


def _gpus_here(environ: Mapping[str, str], notes: list[str]) -> int | None:
    """`SLURM_GPUS_ON_NODE`, a number, or `SLURM_JOB_GPUS`, the indices."""
    if (count := environ.get("SLURM_GPUS_ON_NODE", "")).isdigit():
        return int(count)
    if not (text := environ.get("SLURM_JOB_GPUS", "")):
        return None
    try:
        return len(parse_cores(text))
    except ValueError:
        notes.append(f'the GPUs of this node are not known: SLURM_JOB_GPUS is "{text}"')
        return None


def _end_time(environ: Mapping[str, str], job: str, query: Query) -> float | None:
    """`SLURM_JOB_END_TIME` of newer versions, else what scontrol says. None: it has no limit.

    Raises QueryError.
    """
    if (text := environ.get("SLURM_JOB_END_TIME", "")).isdigit():
        return float(text)
    said = query(["scontrol", "show", "job", job])
    match = _END.search(next((each for each in _RECORD.split(said) if re.match(rf"JobId={job}\b", each)), ""))
    if match is not None and match[1] in ("Unknown", "NONE", "None"):
        return None
    try:
        return datetime.fromisoformat(match[1] if match else "").timestamp()  # local time, as this process has it
    except ValueError:
        raise QueryError(f'scontrol says "{match[0] if match else said[:80]}"') from None


def slurm_directives(order: JobOrder) -> Iterator[str]:
    """Options of sbatch(1) beside those of `slurm.mustache`."""
    allocation = order.allocation
    yield f"--job-name={order.name}"
    yield "--no-requeue"
    if allocation.nodes > 1:
        yield "--no-kill"  # the supervisor says which node was lost, ends the run, and with it the job
    if allocation.qos is not None:
        yield f"--qos={allocation.qos}"
    if allocation.constraints:
        yield f"--constraint={'&'.join(allocation.constraints)}"
    if not allocation.exclusive:
        yield f"--cpus-per-task={order.cpus}"
    if order.without and not any(line.startswith(("--exclude", "-x")) for line in allocation.directives):
        yield f"--exclude={','.join(order.without)}"
    # Whole nodes come without their GPUs, unless these are asked for.
    if order.gpus and not any("gpu" in line for line in allocation.directives):
        yield f"--gpus-per-node={order.gpus}"
    yield from (line for line in allocation.directives if line != "--exclusive")


def slurm_not_inherited(order: JobOrder) -> Iterator[str]:
    """sbatch takes the environment as it is (`--export=ALL`). What salloc and srun have set describes another job.

    Its memory or its GPUs would be taken for those of this job, by wf and by srun. Of options, environment variables
    override those in the script: here what the plan has decided counts; what it leaves open stays the user's.
    """
    yield from _OF_A_JOB
    yield from _ALWAYS_SAID
    asked = order.allocation
    said = {
        "SBATCH_ACCOUNT": asked.account,
        "SBATCH_CONSTRAINT": asked.constraints,
        "SBATCH_GPUS_PER_NODE": order.gpus,
        "SBATCH_PARTITION": slurm_partition(asked),
        "SBATCH_QOS": asked.qos,
        "SBATCH_RESERVATION": asked.reservation,
    }
    yield from (name for name, value in said.items() if value)


def slurm_partition(allocation: AskedNodes) -> str | None:
    """The partition; None where the queue is a QOS alone, or the scheduler chooses."""
    return allocation.partition if allocation.qos is not None else allocation.partition or allocation.queue


def read_slurm_jobs(text: str) -> list[JobWord]:
    """What squeue or sacct has printed: `12|PENDING|Priority`, `12|FAILED|2:0`. Other lines are left out."""
    found, cluster = list[JobWord](), ""
    for line in text.splitlines():
        cluster = f";{match[1]}" if (match := _CLUSTER.match(line)) else cluster
        fields = [field.strip() for field in line.split("|", 2)]
        if len(fields) < 3 or not fields[0][:1].isdigit():
            continue
        job, state, last = fields
        code, _, number = last.partition(":")
        exit_code = int(code) if code.isdigit() and number.isdigit() else None
        reason = "" if exit_code is not None or last == "None" else last
        found.append(JobWord(job + cluster, phase_of(state, _PHASES), state, line.strip(), reason, exit_code))
    return found


def _of_cluster(job: str) -> list[str]:
    """The option that names the cluster of `12;nautilus`: the commands ask that of this machine otherwise."""
    cluster = job.partition(";")[2]
    return [f"--clusters={cluster}"] if cluster else []


def read_own_job(text: str) -> list[JobWord]:
    """`JobState=CANCELLED Reason=None`. While Slurm still ends the job, its state is COMPLETING: why, is in the file of
    the script's errors only, as slurmstepd's last line there."""
    return [word for record in _RECORD.split(text) for word in _read_record(record)]


def _read_record(text: str) -> Iterator[JobWord]:
    found = dict(re.findall(r"\b(JobId|JobState|Reason)=(\S+)", text))
    if "JobState" not in found:
        return
    reason = found.get("Reason", "None")
    state = found["JobState"] + (f", {reason}" if reason != "None" else "")
    raw = f"JobState={found['JobState']} Reason={reason}"
    if state == "COMPLETING" and (end := _slurmstepd_line(text)):
        state, raw = f"{state}, {_due_to(end)}", f"{raw}, {end}"
    yield JobWord(found.get("JobId", ""), phase_of(state, _PHASES), state, raw)


def _slurmstepd_line(text: str) -> str:
    """`*** JOB 12 ON n1 CANCELLED AT 2026-05-01T12:00:00 DUE TO TIME LIMIT ***`; empty where it is not found."""
    path, job = re.search(r"\bStdErr=(\S+)", text), re.search(r"\bJobId=(\d+)", text)
    if path is None or job is None:
        return ""
    try:
        with Path(path[1]).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL))
            said = file.read().decode(errors="replace")
    except OSError:
        return ""
    found = re.findall(rf"\*\*\* JOB {job[1]} ON .* CANCELLED AT .* \*\*\*", said)
    return found[-1] if found else ""


def _due_to(line: str) -> str:
    """Slurm's word for the reason in such a line."""
    due = re.search(r"DUE TO ([A-Z ]+)", line)
    if due is None:
        return "CANCELLED"
    return _DUE_TO.get(due[1].strip(), "")


def nodes_up(partition: str | None, query: Query) -> int | None:
    """From lines like `batch*|3|idle` and `batch*|1|down*`: the default partition has a star, and so has the state of
    nodes that do not answer."""
    wanted = set(partition.split(",")) if partition is not None else set()
    found: Counter[str] = Counter()
    for line in query(_SINFO).splitlines():
        name, count, state = line.strip().split("|")
        if name.rstrip("*") in wanted if wanted else name.endswith("*"):
            is_up = state.rstrip(_MARKS) not in _NOT_UP and _NO_ANSWER not in state
            found[name] += int(count) if is_up else 0
    return max(found.values(), default=None)


def down_nodes(hosts: Sequence[str], query: Query) -> dict[str, str]:
    """From lines like `n3|down*`. A node that only does not answer yet, `allocated*`, is not down."""
    said = query(["sinfo", "--noheader", "--Node", "--format=%N|%T", f"--nodes={','.join(hosts)}"])
    states = dict(line.strip().split("|") for line in said.splitlines() if line.count("|") == 1)
    return {host: state for host, state in states.items() if state.rstrip(_MARKS) == "down" and host in hosts}


def slurm_facts(environ: Mapping[str, str], query: Query) -> SchedulerFacts:
    """The queues, the nodes of the largest, and the memory that it gives out of this node."""
    unknown = []
    queues: tuple[QueueFact, ...] = ()
    nodes = memory = 0
    try:
        partitions = [dict(_PAIR.findall(line)) for line in query(["scontrol", "show", "partition", "-o"]).splitlines()]
        queues = tuple(slurm_queue(words) for words in partitions if "PartitionName" in words)
        nodes = max((int(words.get("TotalNodes", 0)) for words in partitions), default=0)
    except (QueryError, ValueError) as error:
        unknown.append(f"queues: {error}")
    if name := environ.get("SLURMD_NODENAME", ""):
        try:
            words = dict(_PAIR.findall(query(["scontrol", "show", "node", name])))
            memory = int(words.get("RealMemory", 0)) * 2**20
        except (QueryError, ValueError) as error:
            unknown.append(f"memory that jobs get: {error}")
    return SchedulerFacts("slurm", nodes, memory, queues, tuple(unknown))


def slurm_queue(words: Mapping[str, str]) -> QueueFact:
    """A partition, from the words of `scontrol show partition`. Raises ValueError for a time that is none."""
    most = words.get("MaxNodes", "UNLIMITED")
    total = int(words.get("TotalNodes", 0))
    return QueueFact(
        name=words["PartitionName"],
        fewest_nodes=max(1, int(words.get("MinNodes", 1))),
        most_nodes=int(most) if most.isdigit() else total or None,
        walltime_s=slurm_seconds(words.get("MaxTime", "UNLIMITED")),
        default=words.get("Default") == "YES",
    )


def slurm_seconds(text: str) -> int | None:
    """`1-12:00:00`, `02:00:00` or `30:00`; None for UNLIMITED. Raises ValueError."""
    if text in ("UNLIMITED", "NONE"):
        return None
    days, dash, rest = text.rpartition("-")
    return clock_seconds(rest) + (86400 * int(days) if dash else 0)


SCHEDULER = Scheduler(
    title="Slurm",
    command="sinfo",
    allocation=slurm_allocation,
    submit=SubmitCommand(("sbatch", "--parsable"), _ACCEPTED),
    mark="#SBATCH",
    directives=slurm_directives,
    of_job=lambda job: [*_QUEUE, *_of_cluster(job), f"--jobs={without_cluster(job)}"],
    of_name=lambda name: [*_QUEUE, "--me", f"--name={name}"],
    read=read_slurm_jobs,
    cancel=lambda job: ["scancel", *_of_cluster(job), without_cluster(job)],
    absent=("Invalid job id specified", "already completing or completed"),
    phases=_PHASES,
    causes=_CAUSES,
    ending=("COMPLETING",),
    ask=HowToAsk(
        "`sbatch --nodes={0}` or `salloc -N{0}`",
        "`sbatch --exclusive`, and `-S 0` where the site reserves cores",
        "`sbatch --gpus-per-node={}`",
    ),
    psij_template="slurm.mustache",
    not_inherited=slurm_not_inherited,
    queue=slurm_partition,
    history=lambda job: [*_HISTORY, *_of_cluster(job), f"--jobs={without_cluster(job)}"],
    own_job=lambda job: ["scontrol", "--oneliner", "show", "job", job],
    read_own=read_own_job,
    cancelled_state="COMPLETING",
    never_starts=_NEVER_STARTS,
    nodes_up=nodes_up,
    down_nodes=down_nodes,
    facts=slurm_facts,
    launcher="srun",
    cluster_variable="SLURM_CLUSTER_NAME",
    restart_variable="SLURM_RESTART_COUNT",
)  # fmt: skip
