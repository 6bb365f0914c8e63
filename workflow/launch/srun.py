"""Slurm's srun: a step beside others of the same allocation. Options: https://slurm.schedmd.com/srun.html

Stages share nodes. A step that has its cores for itself would wait for those of the others, for ever where they wait
for each other. So steps overlap, and masks keep their ranks on cores of their own. Where other jobs may use the rest
of a node Slurm accepts no masks: then it chooses the cores (`--exact`).
"""

from __future__ import annotations

import math
import re

from workflow.launch.launch_request import Files, Launcher, LaunchLine, LaunchRequest, host_options, rank_settings
from workflow.launch.rank_ends import end_pattern, signal_of_shell

_RANKS = r"srun: error: (?P<host>[^ :]+): tasks? (?P<ranks>[\d,-]+): "
_STEP = r"(?:slurmstepd\S*|srun): error: \*\*\* (?:STEP|JOB) \S+ ON (?P<host>\S+) CANCELLED AT \S+"
# As srun and slurmstepd of Slurm 22.05 print them; `Exited` and signals as srun's own summary of ended tasks has them.
ENDS = (
    end_pattern("node_lost", rf"{_STEP} DUE TO NODE FAILURE"),
    end_pattern("time_limit", rf"{_STEP} DUE TO TIME LIMIT"),
    end_pattern("preempted", rf"{_STEP} DUE TO PREEMPTION"),
    end_pattern("requeued", rf"{_STEP} DUE TO JOB REQUEUE"),
    end_pattern("cancelled", rf"{_STEP} \*\*\*"),
    end_pattern("node_lost", r"srun: error: Node failure on (?P<host>\S+)"),
    end_pattern("out_of_memory", rf"{_RANKS}Out Of Memory"),
    end_pattern("out_of_memory", r"slurmstepd\S*: error: Detected \d+ oom[-_]kill event\S* in"),
    end_pattern("exited", rf"{_RANKS}Exited with exit code (?P<number>\d+)"),
    end_pattern("killed", rf"{_RANKS}(?!Exited|Out Of Memory)(?P<name>[A-Z].*)"),
    end_pattern("not_started", r"srun: error: Unable to create step for job \d+: "),
)
_LOCAL_RANK = "SLURM_LOCALID"
# Options of the job that srun would take for those of the step, and what a step around this process has set.
_OF_OTHERS = (
    "SLURM_CPUS_PER_TASK", "SLURM_CPUS_PER_GPU", "SLURM_NTASKS*", "SLURM_NPROCS", "SLURM_TRES_PER_TASK",
    "SLURM_GPUS", "SLURM_GPUS_PER_*", "SLURM_GPU_*", "SLURM_GRES*", "SLURM_MEM_PER_*", "SLURM_CPU_BIND*",
    "SLURM_MEM_BIND*", "SLURM_DISTRIBUTION", "SLURM_DIST_*", "SLURM_HOSTFILE", "SLURM_EXACT", "SLURM_EXCLUSIVE",
    "SLURM_OVERLAP", "SLURM_HINT",
    "SLURM_THREADS_PER_CORE", "SLURM_CORE_SPEC", "SLURM_THREAD_SPEC", "SLURM_OVERCOMMIT", "SLURM_RELATIVE",
    "SLURM_EXPORT_ENV", "SLURM_WORKING_DIR", "SLURM_LABELIO", "SLURM_UNBUFFEREDIO", "SLURM_OPEN_MODE",
    "SLURM_STDOUTMODE", "SLURM_STDERRMODE", "SLURM_STDINMODE", "SLURM_IMMEDIATE", "SLURM_KILL_BAD_EXIT", "SLURM_WAIT",
    "SLURM_STEP_*", "SLURM_STEPID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_TASK_PID",
)  # fmt: skip
# What srun says when the step has not begun: busy nodes, too few cores, cores that are not those of the job.
_NOT_STARTED = re.compile(r"srun: (?:error: )?(Unable to create step\b.*|Application launch failed\b.*)")


def _line(request: LaunchRequest) -> LaunchLine:
    """`srun --ntasks=4 --nodes=2 --ntasks-per-node=2 --nodelist=a,b --overlap --cpu-bind=mask_cpu:0x1,0x2 A`."""
    settings = rank_settings(request, _LOCAL_RANK)
    nodes, files, env = _nodes(request)
    start = [request.executable, f"--ntasks={request.ranks}", *nodes, *_cores(request), *_devices(request)]
    start += [*request.option("memory"), *request.option("immediate", max(1, math.ceil(request.start_s)))]
    start += [*request.option("kill_on_bad_exit"), *request.option("unbuffered"), *request.arguments]
    argv = [*start, *settings.through, *request.program]
    return LaunchLine(argv, files | settings.files, env | settings.env, _OF_OTHERS)


def _nodes(request: LaunchRequest) -> tuple[list[str], Files, dict[str, str]]:
    """Where the ranks go: by name, or counted within the allocation where names are not known.

    Slurm spreads ranks evenly, and its `plane` distribution fills no node that has fewer cores than ranks. Where the
    last node of the plan has fewer ranks a file says the host of each.
    """
    count, per_node = request.layout.nodes, request.layout.ranks_per_node
    options = [f"--nodes={count}"]
    if request.ranks != count * per_node:
        path = f"{request.folder}/ranks_on_hosts"
        return [*options, "--distribution=arbitrary"], {path: lambda: _host_of_each(request)}, {"SLURM_HOSTFILE": path}
    options += [f"--ntasks-per-node={per_node}"]
    named, files = host_options(request, request.own_hosts)
    return [*options, *(named or [f"--relative={request.layout.first_node}"])], files, {}


def _host_of_each(request: LaunchRequest) -> str:
    """The host of every rank: a file for SLURM_HOSTFILE."""
    by_node = zip(request.own_hosts, request.ranks_by_node, strict=False)
    return "".join(f"{host}\n" * len(ranks) for host, ranks in by_node)


def _cores(request: LaunchRequest) -> list[str]:
    layout = request.layout
    if layout.cores and request.whole_nodes:
        masks = ",".join(hex(sum(1 << core for core in cores)) for cores in layout.cores)
        return [*request.option("overlap"), *request.option("cores", masks)]
    if layout.cores_per_rank and not request.whole_nodes:
        return [*request.option("exact"), f"--cpus-per-task={layout.cores_per_rank * request.cpus_per_core}"]
    return [*request.option("overlap"), *request.option("overcommit"), *request.option("no_binding")]


def _devices(request: LaunchRequest) -> list[str]:
    """Where a variable restricts each rank to its GPUs the step has all of the node, so that their numbers hold."""
    own = max((len(gpus) for gpus in request.layout.gpus), default=0)
    if not request.node.gpus:
        return []
    if own and not request.node.gpu_variable:
        return request.option("gpus_per_rank", own)
    return request.option("gpus_per_node", request.node.gpus if own else 0)


LAUNCHER = Launcher(
    _line,
    executable="srun",
    options=frozenset(
        {"hosts", "host_file", "overlap", "overcommit", "exact", "cores", "no_binding", "memory", "gpus_per_node",
         "gpus_per_rank", "immediate", "kill_on_bad_exit", "unbuffered"}
    ),
    binds=True,
    selects_gpus=True,
    other_machines=True,
    passes_input=True,
    mpi_connects=True,
    signal_of=lambda code, _lines: signal_of_shell(code),
    end_patterns=ENDS,
    not_started=_NOT_STARTED,
    rank_variable="SLURM_PROCID",
    local_rank_variable=_LOCAL_RANK,
    independent=("--no-kill", "--kill-on-bad-exit=0", "--wait=0"),
)  # fmt: skip
