"""Submits the job of a run, once: what was accepted is found by the job's name, and not submitted again."""

from __future__ import annotations

import dataclasses
import logging
import secrets
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from workflow import __version__
from workflow.errors import EXIT_BAD_INPUT, RunError
from workflow.plan.plan_model import Plan
from workflow.run.control.detached import supervisor_command
from workflow.run.processes.process_reaper import write_verdict
from workflow.run.records.job_record import JobRecord, write_job
from workflow.schedulers.job_questions import find_job
from workflow.schedulers.scheduler import JobOrder
from workflow.schedulers.schedulers import scheduler_named
from workflow.site.site_model import Site, is_here, ways_text
from workflow.submit.job_scripts import (
    NotSubmittedError,
    SubmissionRefusedError,
    check_path,
    job_name,
    make_order,
    own_script,
    submit_own,
)
from workflow.submit.job_status import ABSENT_LOOKS

_log = logging.getLogger(__name__)
# When to look for a job whose submission has failed: a scheduler that was busy answers after a while.
_LOOKS_S = (0.0, 2.0, 5.0, 10.0, 20.0, 30.0)


class JobRefusedError(RunError):
    """The scheduler has not accepted a job."""


def submit_run(plan: Plan, site: Site, run_dir: Path, without: Sequence[str] = ()) -> JobRecord:
    """Submit the job of a run; hosts in `without` are left out where the scheduler can be told.

    Raises RunError when it is refused, or when it is not known whether it was accepted.
    """
    name = job_name(run_dir.name, secrets.token_hex(3))
    try:
        return submit_job(make_order(plan, site, run_dir, name, supervisor_command(run_dir), without))
    except JobRefusedError as error:
        write_verdict(str(run_dir), "failed", EXIT_BAD_INPUT, error.message, time.time())
        raise RunError(error.message, error.hint) from error


def submit_job(order: JobOrder) -> JobRecord:
    """Submit a job, whose record is kept in its directory.

    Raises JobRefusedError when it is refused, RunError when it is not known whether it was accepted.
    """
    scheduler, run_dir = order.allocation.scheduler, order.run_dir
    record = JobRecord(scheduler, order.name, submitted=time.time(), wf_version=__version__)
    submit = submit_own
    if scheduler_named(scheduler).psij_template:
        from workflow.submit.psij_jobs import exit_code_file, submit_order

        submit, record = submit_order, dataclasses.replace(record, exit_code_file=str(exit_code_file(order)))
    write_job(run_dir, record)
    try:
        job = submit(order)
    except NotSubmittedError as error:
        hint = error.hint or "repair that, then start a new run: wf run PIPELINE"
        raise JobRefusedError(f"the job was not submitted to {scheduler}: {error.message}", hint) from error
    except SubmissionRefusedError as error:
        job = _find_accepted(run_dir, record, str(error))
    record = dataclasses.replace(record, job=job)
    write_job(run_dir, record)
    return record


def check_submission(plan: Plan, site: Site, run_dir: Path, *, in_job: bool = False) -> None:
    """Raises RunError for a run that cannot be submitted, before anything of it is written: this machine is not the
    site, its directory has a name that job scripts cannot hold, or PSI/J or the submit command is missing.

    `in_job`: this is a node of a job of that site, which may look otherwise than its login nodes.
    """
    if not in_job:
        _check_here(site)
    check_path(run_dir)
    if plan.allocation is None:
        return
    name = plan.allocation.scheduler
    scheduler = scheduler_named(name)
    if scheduler.psij_template:
        from workflow.submit.psij_jobs import require_psij

        require_psij()
    if shutil.which(command := scheduler.submit.words[0]) is None:
        text = f"{command} is not on PATH: no job can be submitted to {name} from this machine"
        raise RunError(text, "log in to a node that has it, or print the script: `wf plan PIPELINE --job-script`")


def _check_here(site: Site) -> None:
    """Another machine may have the same scheduler: it would get a job for nodes that it does not have."""
    if site.detect and not is_here(site.detect):
        text = f"this machine is not {site.site}: {ways_text(site.detect)} was not found here"
        own = f"if it is, write a site file of your own with `extends: {site.site}` and `detect: []`"
        raise RunError(text, f"`wf sites` shows which site is here; {own}")


def job_script(plan: Plan, site: Site) -> str:
    """The script that would be submitted, with `/RUN_DIR` for the run directory, `RUN` for the end of its name, and
    `JOB_ID` for PSI/J's name of the job. Raises RunError where PSI/J is needed and missing."""
    assert plan.allocation is not None, "the site has a scheduler"
    run_dir = Path("/RUN_DIR")
    order = make_order(plan, site, run_dir, f"{plan.pipeline}-RUN", supervisor_command(run_dir))
    if not scheduler_named(plan.allocation.scheduler).psij_template:
        return own_script(order)
    from workflow.submit.psij_jobs import render_order

    return render_order(order)


def _find_accepted(run_dir: Path, record: JobRecord, said: str) -> str:
    """The id of a job whose submission has failed, if it was accepted all the same. Raises RunError otherwise."""
    absent = 0
    begin = time.monotonic()
    for look_s in _LOOKS_S:
        time.sleep(max(0.0, begin + look_s - time.monotonic()))
        answer = find_job(record.scheduler, record.name)
        if answer.word is not None:
            _log.warning("the submission failed (%s), but the job was accepted: %s", said, answer.word.job)
            return answer.word.job
        absent += answer.is_absent
        if absent == ABSENT_LOOKS:
            hint = "change `allocation:` of the pipeline, then start a new run: wf run PIPELINE"
            raise JobRefusedError(f"{record.scheduler} did not accept the job: {said}", hint)
    text = f"the submission failed ({said}), and the scheduler gives no answer: the job may have been accepted"
    raise RunError(text, f"wf watch {run_dir.name} looks for it, wf cancel {run_dir.name} ends it")
