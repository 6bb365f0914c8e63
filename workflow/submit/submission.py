"""Submits the job of a run, once: what was accepted is found by the job's name, and not submitted again."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from workflow import __version__
from workflow.errors import EXIT_BAD_INPUT, RunError
from workflow.interrupts import first_interrupt_waits
from workflow.plan.plan_model import Plan
from workflow.run.control.detached import supervisor_command
from workflow.run.processes.process_reaper import write_verdict
from workflow.run.records.job_record import JobRecord, write_job
from workflow.schedulers.job_questions import find_job
from workflow.schedulers.scheduler import JobOrder
from workflow.schedulers.schedulers import scheduler_named
from workflow.site.site_model import Site, is_here, ways_text
from workflow.submit.job_scripts import (
    SubmissionRefusedError,
    SubmitAnswer,
    check_path,
    job_name,
    make_order,
    own_script,
    submit_script,
    write_own_script,
)
from workflow.submit.job_status import ABSENT_LOOKS

_log = logging.getLogger(__name__)
# When to look for a job whose submission has failed: a scheduler that was busy answers after a while.
_LOOKS_S = (0.0, 2.0, 5.0, 10.0, 20.0, 30.0)


class JobRefusedError(RunError):
    """The scheduler has not accepted a job."""


class SubmissionInterruptedError(KeyboardInterrupt):
    """Ctrl-C has come while a job was being submitted. The scheduler may have it, and may have started it."""

    def __init__(self, run_dir: Path, record: JobRecord) -> None:
        self.run_dir, self.record = run_dir, record
        what = f"{record.text} was accepted" if record.job else f"{record.text} may have been accepted"
        super().__init__(f"{what}; `wf cancel {run_dir.name}` ends it")


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
    write_script: Callable[[JobOrder], Path] = write_own_script
    if scheduler_named(scheduler).psij_template:
        from workflow.submit.psij_jobs import exit_code_file, write_psij_script

        write_script, record = write_psij_script, dataclasses.replace(record, exit_code_file=str(exit_code_file(order)))
    write_job(run_dir, record)
    try:
        with first_interrupt_waits(lambda: _say_that_it_waits(scheduler)):
            record = _submit(order, record, write_script)
    except KeyboardInterrupt as error:
        raise SubmissionInterruptedError(run_dir, record) from error
    return record


def _submit(order: JobOrder, record: JobRecord, write_script: Callable[[JobOrder], Path]) -> JobRecord:
    run_dir = order.run_dir
    try:
        answer = submit_script(order, write_script(order))
    except (OSError, RunError) as error:
        said = error.message if isinstance(error, RunError) else str(error)
        hint = (isinstance(error, RunError) and error.hint) or "repair that, then start a new run: wf run PIPELINE"
        raise JobRefusedError(f"the job was not submitted to {record.scheduler}: {said}", hint) from error
    except SubmissionRefusedError as error:
        answer = SubmitAnswer(_find_accepted(run_dir, record, str(error)), "")
    if answer.job:
        record = dataclasses.replace(record, job=answer.job)
    elif answer.is_known:
        record = _look_for_accepted(record, answer.said)
    else:
        record = dataclasses.replace(record, job=_find_accepted(run_dir, record, answer.said, len(_LOOKS_S)))
    write_job(run_dir, record)
    return record


def _say_that_it_waits(scheduler: str) -> None:
    command = scheduler_named(scheduler).submit.name
    with contextlib.suppress(OSError, ValueError):
        text = f"\ninterrupted: waiting for the answer of {command}; Ctrl-C again does not wait"
        print(text, file=sys.stderr, flush=True)


def _look_for_accepted(record: JobRecord, said: str) -> JobRecord:
    """The record of a job that was accepted without a word of its id: it is looked for by its name, now and by those
    who follow it, and never submitted again."""
    for look_s in _LOOKS_S[:ABSENT_LOOKS]:
        time.sleep(look_s)
        if (word := find_job(record.scheduler, record.name).word) is not None:
            _log.warning("the submission named no job (%s), but the job was accepted: %s", said, word.job)
            return dataclasses.replace(record, job=word.job)
    _log.warning("the job was accepted, and its id is not known: it is looked for by its name. %s", said)
    return dataclasses.replace(record, accepted=said)


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


def _find_accepted(run_dir: Path, record: JobRecord, said: str, absent_looks: int = ABSENT_LOOKS) -> str:
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
        if absent == absent_looks:
            hint = "change `allocation:` of the pipeline, then start a new run: wf run PIPELINE"
            raise JobRefusedError(f"{record.scheduler} did not accept the job: {said}", hint)
    text = f"the submission failed ({said}), and the scheduler gives no answer: the job may have been accepted"
    raise RunError(text, f"wf watch {run_dir.name} looks for it, wf cancel {run_dir.name} ends it")
