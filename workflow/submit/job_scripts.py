"""The job of a run as it is ordered, scripts of wf's own, and the scheduler's command that takes a script.

PSI/J carries neither LSF nor Flux: its bsub does not read the directives of the script, and its executor for Flux needs
Flux's Python modules, and passes on little more than the number of nodes and the time
(docs/decisions/0052-lsf-and-flux.md).
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from workflow.errors import RunError
from workflow.plan.plan_model import Plan
from workflow.run.control.detached import OUTPUT_FILE
from workflow.schedulers.scheduler import JobOrder, execute
from workflow.schedulers.schedulers import SCHEDULERS, scheduler_named
from workflow.site.site_model import Site


class SubmissionRefusedError(Exception):
    """The submit command has failed; the text is what it printed. It may have been accepted all the same."""


NAME_LENGTH = 230
# What a run directory is called that was not given: it ends in the time and a random number.
_OWN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+.-]{0,200}-\d{8}-\d{6}-[0-9a-f]{4}")
_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def make_order(
    plan: Plan, site: Site, run_dir: Path, name: str, command: list[str], without: Sequence[str] = ()
) -> JobOrder:
    """The job that executes `command`, the supervisor, on the nodes of this plan; hosts in `without` are left out where
    the scheduler can be told.

    Raises RunError for a run directory whose name a job script cannot hold.
    """
    assert plan.allocation is not None, "the site has a scheduler"
    check_path(run_dir)
    cores = max((_cores(stage.placement.cores, stage.placement.ranks_per_node) for stage in plan.stages), default=1)
    gpus = site.gpus_per_node if any(stage.placement.gpus for stage in plan.stages) else 0
    return JobOrder(
        plan.allocation, name, run_dir, tuple(command), tuple(site.modules), cores * site.threads_per_core, gpus,
        without=tuple(without), output=run_dir / OUTPUT_FILE,
    )  # fmt: skip


def _cores(cores: list[int], ranks: int) -> int:
    return max(cores) + 1 if cores else max(1, ranks)


def check_path(run_dir: Path) -> None:
    """Raises RunError for a run directory with blanks or special characters: neither PSI/J's scripts nor the options
    of all schedulers can hold them."""
    if not _SAFE.fullmatch(str(run_dir)):
        text = f"a job cannot be submitted from {run_dir}: job scripts allow no blanks or special characters in paths"
        raise RunError(text, "name another run directory: --run-dir PATH")


def job_name(run: str, token: str) -> str:
    """The name of a job: that of its run. One that was given by `--run-dir` gets the token: no other job has its name.

    Of PBS: 230 characters at most (pbs_ifl.h, PBS_MAXJOBNAME), letters, digits and `_+-.`, of which a letter is first.
    """
    if _OWN_NAME.fullmatch(run):
        return run
    plain = re.sub(r"[^A-Za-z0-9_+.-]", "_", run)[: NAME_LENGTH - len(token) - 4]
    return f"{plain if plain[:1].isalpha() else f'wf-{plain}'}-{token}"


SCRIPT_FILE = "job.sh"
# bsub waits for ever while LSF is down; sbatch tries again for a minute or more while its controller is busy.
SUBMIT_S = 120.0
_SAID_MOST = 300


def submit_environment(order: JobOrder, environ: Mapping[str, str]) -> dict[str, str]:
    """What a submit command, and with it the job, inherits: nothing of a job that the submission is made in.

    A scheduler that nests needs it: its jobs are parts of the one around them.
    """
    nests = scheduler_named(order.allocation.scheduler).nests
    schedulers = [] if nests else [scheduler_named(name) for name in SCHEDULERS]
    without = {name for scheduler in schedulers for name in scheduler.not_inherited(order)}
    beginnings = tuple(name[:-1] for name in without if name.endswith("*"))
    return {key: value for key, value in environ.items() if key not in without and not key.startswith(beginnings)}


def leave_job(plan: Plan, run_dir: Path) -> None:
    """Forget the job that this process is part of: what it plans and submits from now on is as from a login node.

    A Flux instance is not forgotten: what is submitted in it is part of its job.
    """
    assert plan.allocation is not None, "the site has a scheduler"
    order = JobOrder(plan.allocation, "", run_dir, (), (), 0, output=run_dir / OUTPUT_FILE)
    kept = submit_environment(order, os.environ)
    for name in [name for name in os.environ if name not in kept]:
        del os.environ[name]


def own_script(order: JobOrder) -> str:
    """The whole script."""
    scheduler = scheduler_named(order.allocation.scheduler)
    options = [f"{scheduler.mark} {option}" for option in scheduler.directives(order)]
    # exec: a signal to the job reaches the supervisor.
    body = [*order.prelude, f"cd {order.run_dir}", f"exec {shlex.join(order.command)}"]
    return "\n".join(["#!/bin/bash", *options, "", *body, ""])


def write_own_script(order: JobOrder) -> Path:
    """Write the script into the directory of the run. Raises OSError."""
    script = order.run_dir / SCRIPT_FILE
    script.write_text(own_script(order))
    script.chmod(0o755)
    return script


class SubmitAnswer(NamedTuple):
    """What a submit command has said: the id of the job, empty where it named none, and all that it printed.

    `is_known`: it has ended, and by its exit code has accepted the job.
    """

    job: str
    said: str
    is_known: bool = True


def submit_script(order: JobOrder, script: Path) -> SubmitAnswer:
    """Have the scheduler take a script, once.

    Raises OSError when its command cannot be executed, SubmissionRefusedError when it fails, which does not prove that
    it has not accepted the job.
    """
    command = scheduler_named(order.allocation.scheduler).submit
    words = [*command.words] if command.by_input else [*command.words, str(script)]
    given = script.read_text() if command.by_input else ""
    answer = execute(words, SUBMIT_S, given, submit_environment(order, os.environ))
    if answer.code:
        said = " ".join(answer.said.split())[:_SAID_MOST]
        named = said.startswith(command.words[0])  # most begin their errors with their own name
        raise SubmissionRefusedError(said if named else f"{command.name} failed with exit code {answer.code}: {said}")
    printed = " ".join(f"{answer.out} {answer.err}".split())[:_SAID_MOST] or "nothing"
    said = f"{command.name} printed: {printed}"
    if answer.code is None:
        said = f"{command.name} gave no answer within {SUBMIT_S:.0f} s, and printed: {printed}"
    return SubmitAnswer(command.job_in(answer.out, answer.err), said, answer.code is not None)
