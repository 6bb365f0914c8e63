"""The job of a run as it is ordered, and the shell that keeps it together. Pure."""

from __future__ import annotations

import re
from pathlib import Path

from workflow.errors import RunError
from workflow.plan.plan_model import Plan
from workflow.run.control.detached import OUTPUT_FILE
from workflow.schedulers.scheduler import JobOrder
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
NAME_LENGTH = 230
# What a run directory is called that was not given: it ends in the time and a random number.
_OWN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+.-]{0,200}-\d{8}-\d{6}-[0-9a-f]{4}")
_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def make_order(plan: Plan, site: Site, run_dir: Path, name: str, command: list[str]) -> JobOrder:
    """The job that executes `command`, the supervisor, on the nodes of this plan.

    Raises RunError for a run directory whose name a job script cannot hold.
    """
    assert plan.allocation is not None, "the site has a scheduler"
    check_path(run_dir)
    cores = max((_cores(stage.placement.cores, stage.placement.ranks_per_node) for stage in plan.stages), default=1)
    gpus = site.gpus_per_node if any(stage.placement.gpus for stage in plan.stages) else 0
    return JobOrder(
        plan.allocation, name, run_dir, tuple(command), tuple(site.modules), cores * site.threads_per_core, gpus,
        output=run_dir / OUTPUT_FILE,
    )  # fmt: skip


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
