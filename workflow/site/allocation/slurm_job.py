"""The allocation of a Slurm job, from its environment (sbatch(1), OUTPUT ENVIRONMENT VARIABLES) and scontrol(1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from workflow.core_set import parse_cores
from workflow.errors import WfError
from workflow.launch.allocation import Allocation, Host
from workflow.launch.host_list import expand_hosts
from workflow.site.allocation.scheduler_query import Query, QueryError

_REPEATED = re.compile(r"^(\d+)(?:\(x(\d+)\))?$")
_END = re.compile(r"\bEndTime=(\S+)")
_MIB = 2**20  # Slurm's memory is in units of 2^20 bytes


def slurm_job(environ: Mapping[str, str], query: Query, own_cores: int) -> Allocation:
    """The allocation of the job that this process is part of.

    Slurm counts hardware threads, except where its configuration has as many CPUs as cores: then its count for this
    node is `own_cores`, the physical cores that this process may use.

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
    counts_cores = dict(zip(names, cores, strict=True)).get(environ.get("SLURMD_NODENAME", "")) == own_cores
    end_time = _end_time(environ, job, query, notes)
    return Allocation("slurm", job, hosts, end_time, tuple(notes), counts_threads=not counts_cores)


def _node_names(environ: Mapping[str, str]) -> list[str]:
    text = environ.get("SLURM_JOB_NODELIST", "")
    try:
        return expand_hosts(text)
    except ValueError as error:
        hint = "start wf inside of the job script, or in a shell of `salloc`, with the variables that Slurm sets"
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


def _end_time(environ: Mapping[str, str], job: str, query: Query, notes: list[str]) -> float | None:
    """`SLURM_JOB_END_TIME` of newer versions, else what scontrol says. None: no limit, or not known (a note)."""
    if (text := environ.get("SLURM_JOB_END_TIME", "")).isdigit():
        return float(text)
    try:
        said = query(["scontrol", "show", "job", job])
    except QueryError as error:
        notes.append(f"the end of the job is not known: {error}")
        return None
    match = _END.search(said)
    if match is not None and match[1] in ("Unknown", "NONE", "None"):
        return None
    try:
        return datetime.fromisoformat(match[1] if match else "").timestamp()  # local time, as this process has it
    except ValueError:
        notes.append(f'the end of the job is not known: scontrol says "{match[0] if match else said[:80]}"')
        return None
