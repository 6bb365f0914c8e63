"""The job of a run as it is ordered: what its script says to the scheduler and what it executes. Pure."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workflow.errors import RunError
from workflow.plan.plan_model import AllocationPlan, Plan
from workflow.run.detached import OUTPUT_FILE
from workflow.site.site_model import Site

# The file that PSI/J's shells read: with a trap they outlive SIGTERM, and with them the job's processes. Their log ends
# by that signal; they must not end by writing to it, but with the exit code of the supervisor.
KEEP_SHELLS = "keep-shells.sh"
KEEP_SHELLS_TEXT = """# Shells of this job wait for the supervisor when the job is to end: it closes the stages.
trap : TERM USR1 PIPE
trap 'exit "${_PSI_J_EC:-$?}"' EXIT
"""
# With cgroups Slurm signals the first process of a job only, the script: it waits for the supervisor, and passes on to
# its process group that the job is to end. `set -m`, before: what a shell starts by `&` would otherwise ignore SIGINT.
# `wait` also returns at a signal, and when the supervisor was suspended with the job.
PASS_ON = (
    "launch=$!",
    """trap 'kill -TERM -- "-$launch" 2> /dev/null' TERM""",
    '[ -n "$asked" ] && kill -TERM -- "-$launch" 2> /dev/null',
    'while wait "$launch"; code=$?; kill -0 "$launch" 2> /dev/null; do sleep 0.2; done',
    # Interrupted as it ended: bash may still know its exit code; -1 and 127 say that it does not.
    'if [ "$code" -gt 128 ]; then wait "$launch" 2> /dev/null; again=$?; fi',
    'case "${again:--1}" in -1 | 127) ;; *) code=$again ;; esac',
)
WORK_DIR = "psij"
NAME_LENGTH = 230
# What a run directory is called that was not given: it ends in the time and a random number.
_OWN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+.-]{0,200}-\d{8}-\d{6}-[0-9a-f]{4}")
_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


@dataclass(frozen=True)
class JobOrder:
    """One job. `prelude` are lines of shell before the `command`; `cpus` and `gpus`: those of a node
    that the stages use, hardware threads as Slurm and PBS count them."""

    allocation: AllocationPlan
    name: str
    run_dir: Path
    command: tuple[str, ...]
    prelude: tuple[str, ...]
    cpus: int
    gpus: int = 0

    @property
    def output(self) -> Path:
        """What the supervisor prints."""
        return self.run_dir / OUTPUT_FILE


def make_order(plan: Plan, site: Site, run_dir: Path, name: str, command: list[str]) -> JobOrder:
    """The job that executes `command`, the supervisor, on the nodes of this plan.

    Raises RunError for a run directory whose name a job script cannot hold.
    """
    assert plan.allocation is not None, "the site has a scheduler"
    check_path(run_dir)
    cores = max((_cores(stage.placement.cores, stage.placement.ranks_per_node) for stage in plan.stages), default=1)
    gpus = site.gpus_per_node if any(stage.placement.gpus for stage in plan.stages) else 0
    return JobOrder(
        plan.allocation, name, run_dir, tuple(command), tuple(site.modules), cores * site.threads_per_core, gpus
    )


def _cores(cores: list[int], ranks: int) -> int:
    return max(cores) + 1 if cores else max(1, ranks)


def check_path(run_dir: Path) -> None:
    """Raises RunError for a run directory with blanks or special characters: neither PSI/J's scripts nor the options
    of all schedulers can hold them."""
    if not _SAFE.fullmatch(str(run_dir)):
        text = f"a job cannot be submitted from {run_dir}: job scripts allow no blanks and special characters in paths"
        raise RunError(text, "name another run directory: --run-dir PATH")


def job_name(run: str, token: str) -> str:
    """The name of a job: that of its run. One that was given by `--run-dir` gets the token: no other job has its name.

    Of PBS: 230 characters at most (pbs_ifl.h, PBS_MAXJOBNAME), letters, digits and `_+-.`, of which a letter is first.
    """
    if _OWN_NAME.fullmatch(run):
        return run
    plain = re.sub(r"[^A-Za-z0-9_+.-]", "_", run)[: NAME_LENGTH - len(token) - 4]
    return f"{plain if plain[:1].isalpha() else f'wf-{plain}'}-{token}"


def slurm_directives(order: JobOrder) -> Iterator[str]:
    """Options of sbatch(1) beside those that PSI/J writes."""
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
    # Whole nodes come without their GPUs, unless these are asked for.
    if order.gpus and not any("gpu" in line for line in allocation.directives):
        yield f"--gpus-per-node={order.gpus}"
    yield from (line for line in allocation.directives if line != "--exclusive")


def slurm_partition(allocation: AllocationPlan) -> str | None:
    """The partition; None where the queue is a QOS alone, or the scheduler chooses."""
    return allocation.partition if allocation.qos is not None else allocation.partition or allocation.queue


def pbs_directives(order: JobOrder) -> Iterator[str]:
    """Options of qsub(1B) beside those that PSI/J writes."""
    yield f"-N {order.name}"
    yield "-r n"
    yield from order.allocation.directives


def pbs_chunk(order: JobOrder) -> str:
    """`-l select=…`: the nodes, and what they must have. Of whole nodes the site decides the rest."""
    allocation = order.allocation
    given = ":".join(allocation.constraints)
    share = "" if allocation.exclusive or "ncpus=" in given else f":ncpus={order.cpus}:mpiprocs=1"
    return f"-l select={allocation.nodes}{share}" + (f":{given}" if given else "")


def lsf_script(order: JobOrder) -> str:
    """The whole script for bsub(1)."""
    allocation = order.allocation
    lines = [f"-J {order.name}", f"-nnodes {allocation.nodes}", f"-W {math.ceil(allocation.walltime_s / 60)}", "-rn"]
    lines += [f"-q {allocation.queue}"] if allocation.queue else []
    lines += [f"-P {allocation.account}"] if allocation.account else []
    lines += [f"-U {allocation.reservation}"] if allocation.reservation else []
    lines += [f'-R "select[{" && ".join(allocation.constraints)}]"'] if allocation.constraints else []
    lines += ["-x"] if allocation.exclusive else []
    lines += [f"-o {order.output}", *allocation.directives]
    return _own_script("#BSUB", lines, order)


def flux_script(order: JobOrder) -> str:
    """The whole script for flux-batch(1)."""
    allocation = order.allocation
    lines = [f"--job-name={order.name}", f"--nodes={allocation.nodes}", f"--time-limit={allocation.walltime_s:.0f}s"]
    lines += ["--exclusive"] if allocation.exclusive else []
    lines += [f"--queue={allocation.queue}"] if allocation.queue else []
    lines += [f"--bank={allocation.account}"] if allocation.account else []
    lines += [f"--requires={'&'.join(allocation.constraints)}"] if allocation.constraints else []
    lines += [f"--output={order.output}", *(line for line in allocation.directives if line != "--exclusive")]
    return _own_script("# flux:", lines, order)


def _own_script(mark: str, directives: list[str], order: JobOrder) -> str:
    # exec: a signal to the job reaches the supervisor.
    body = [*order.prelude, f"cd {order.run_dir}", f"exec {shlex.join(order.command)}"]
    return "\n".join(["#!/bin/bash", *(f"{mark} {line}" for line in directives), "", *body, ""])
