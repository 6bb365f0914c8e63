"""The next part of a run that a job had to stop before its time limit, submitted from the process of that job."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from workflow.api.plans import show_warnings
from workflow.api.replays import load_as_run
from workflow.api.resumes import PlannedPart, plan_part
from workflow.api.runs import create_run
from workflow.errors import WfError
from workflow.formats.run_clock import run_time
from workflow.run.chain import (
    NextPart,
    is_planned,
    read_next_part,
    standstill,
    why_last,
    write_next_part,
)
from workflow.run.records.find_runs import following_part
from workflow.run.records.job_record import read_job
from workflow.run.records.run_directory import read_allocation, read_filled_plan
from workflow.spec.models.pipeline import AUTO_SITE
from workflow.submit.next_part import resume_hint

if TYPE_CHECKING:
    from workflow.plan.plan_model import Plan
    from workflow.run.state.run_state import RunState


def announce_next_part(run_dir: Path, exit_code: int) -> bool:
    """Say in its directory that the next part of a run that has ended so is about to be planned; False: none follows.

    Whoever follows the run then waits for `submit_next_part`.
    """
    if read_job(run_dir) is None or not is_planned(read_filled_plan(run_dir), exit_code):
        return False
    with contextlib.suppress(OSError):
        write_next_part(run_dir, NextPart("planned"))
    return True


def submit_next_part(run_dir: Path, signals: Callable[[], list[str]]) -> NextPart:
    """Plan the next part of a run, and submit it as a job like any other; what has become of it is written, too.

    To be called by the process that has supervised the run, at its end: this process leaves its own job.

    Args:
        signals: the names of the signals that this process has got so far.
    """
    try:
        record = _submit(run_dir, signals)
    except (WfError, OSError) as error:
        record = NextPart("none", reason=_text(error), hint=resume_hint(run_dir))
    with contextlib.suppress(OSError):
        write_next_part(run_dir, record)
    return record


def _submit(run_dir: Path, signals: Callable[[], list[str]]) -> NextPart:
    from workflow.run.records.events_file import read_events
    from workflow.run.state.reducer import fold
    from workflow.run.state.run_state import initial_state
    from workflow.submit.job_scripts import leave_job
    from workflow.submit.submission import check_submission

    before = read_filled_plan(run_dir)
    state = fold(initial_state(before), read_events(run_dir))
    if why := why_last(before) or _why_ended(run_dir, state, signals):
        return NextPart("none", reason=why, hint=resume_hint(run_dir))
    if (following := following_part(run_dir)) is not None:
        return NextPart("none", reason=f"{following.name} goes on with it already")
    without = lost_hosts(before, state)
    leave_job(before, run_dir)
    _enter_folder(run_dir)
    part = plan_part(run_dir, sets=_same_site(run_dir, before))
    if why := _why_not(before, part):
        return NextPart("none", reason=why, hint=resume_hint(run_dir))
    check_submission(part.planned.plan, part.planned.site, run_dir, in_job=True)
    show_warnings(part.planned.check_before_job())
    # The last look: whoever asks for the end from now on waits for the record, and then cancels the part.
    if why := _why_ended(run_dir, state, signals):
        return NextPart("none", reason=why, hint=resume_hint(run_dir))
    return _submit_planned(run_dir, part, without)


def _submit_planned(run_dir: Path, part: PlannedPart, without: list[str]) -> NextPart:
    from workflow.run.records.events_file import read_start_and_verdict
    from workflow.run.records.run_notes import read_notes
    from workflow.submit.submission import submit_run

    planned = part.planned
    directory = create_run(planned.loaded, planned.plan, tags=read_notes(run_dir).tags, latest=False)
    record = NextPart("submitting", str(directory), without=without)
    with contextlib.suppress(OSError):
        write_next_part(run_dir, record)
    try:
        submit_run(planned.plan, planned.site, directory, without)
    except WfError as error:
        if read_start_and_verdict(directory).finished is not None:  # it was refused for certain
            return NextPart("none", str(directory), error.message, resume_hint(run_dir))
        return NextPart("submitted", str(directory), error.message, error.hint, without)
    return replace(record, state="submitted")


def _why_ended(run_dir: Path, state: RunState, signals: Callable[[], list[str]]) -> str:
    """Why the whole run is to end: somebody has asked for it, of the run or of its job. Empty: nobody has.

    A signal that comes when the time of the job is over is the scheduler's.
    """
    from workflow.run.records.control_requests import ControlRequests

    if requests := ControlRequests(run_dir).take():
        return f"ended by `wf cancel` ({requests[-1].by})"
    allocation = read_allocation(run_dir)
    end = None if allocation is None else allocation.end_time
    seen = [*([state.interrupted] if state.interrupted else []), *signals()]
    return f"ended by {seen[-1]}" if seen and (end is None or run_time(run_dir) < end) else ""


def _why_not(before: Plan, part: PlannedPart) -> str:
    """Why a part that has been planned is not submitted; empty: it is."""
    plan = part.planned.plan
    if not part.planned.is_job:
        return f"planned for site {plan.site}, {plan.pipeline_file} would not be submitted as a job any more"
    if plan.part_number > plan.most_parts:
        return f"{plan.pipeline_file} asks for no more than {plan.most_parts} parts by now"
    return standstill(before, plan)


def lost_hosts(plan: Plan, state: RunState) -> list[str]:
    """The hosts that were lost in a run, or in the parts before it."""
    earlier = None if plan.part is None or plan.part.is_reuse else read_next_part(Path(plan.part.run))
    known = [] if earlier is None else earlier.without
    return list(dict.fromkeys([*known, *(lost.host for lost in state.lost)]))


def _same_site(run_dir: Path, before: Plan) -> list[str]:
    """The site by its name, where the pipeline leaves it to the machine: a node of a job may not be recognised."""
    return [f"site={before.site}"] if load_as_run(run_dir, before).spec.site == AUTO_SITE else []


def _enter_folder(run_dir: Path) -> None:
    """Go to the folder in which the run was started: by it `wf runs` lists runs, and relative paths are meant there."""
    from workflow.provenance.provenance_model import read_provenance

    provenance = read_provenance(run_dir)
    if provenance is not None:
        with contextlib.suppress(OSError):
            os.chdir(provenance.directory)


def _text(error: WfError | OSError) -> str:
    if isinstance(error, OSError):
        return str(error)
    problems = [each for each in error.problems if each.level == "error"]
    return "; ".join(": ".join(filter(None, (each.place, each.statement))) for each in problems)
