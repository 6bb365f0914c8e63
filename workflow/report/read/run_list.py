"""The runs below `runs/`, each in a line: by their first and last events, their plans' heads and their leases."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from workflow.formats.read_json import read_json
from workflow.report.read.expectations_file import read_expectations
from workflow.report.report_model import RunLine, RunVerdict
from workflow.run.job_record import JobRecord, read_job, received_job
from workflow.run.lease import Liveness, examine_leases
from workflow.run.part_record import read_part
from workflow.run.run_brief import RunBrief, read_brief
from workflow.run.run_directory import PLAN_FILE, RUNS
from workflow.run.run_notes import read_notes


def list_named_runs(run_dirs: Sequence[Path]) -> list[RunLine]:
    """As `list_runs`; runs that are not below `runs/` are called by their paths, as the other verbs take them."""
    lines = zip(run_dirs, list_runs(run_dirs), strict=True)
    return [line if run.parent == Path(RUNS) else line.model_copy(update={"name": str(run)}) for run, line in lines]


def tagged_runs(run_dirs: Sequence[Path], tags: Sequence[str]) -> list[Path]:
    """Those of these runs that have all these tags."""
    return [run_dir for run_dir in run_dirs if set(tags) <= set(read_notes(run_dir).tags)] if tags else list(run_dirs)


def list_runs(run_dirs: Sequence[Path]) -> list[RunLine]:
    """These runs, in this order. Takes up to ten seconds where a supervisor on another host may be dead."""
    briefs = [read_brief(run_dir) for run_dir in run_dirs]
    open_runs = [run_dir for run_dir, brief in zip(run_dirs, briefs, strict=True) if brief.finished is None]
    lives = dict(zip(open_runs, examine_leases(open_runs), strict=True))
    # One whose supervisor does not live may have ended since its events were read.
    again = {run_dir: read_brief(run_dir) for run_dir, its in lives.items() if not its.alive}
    return [
        _to_line(run_dir, again.get(run_dir, brief), lives.get(run_dir))
        for run_dir, brief in zip(run_dirs, briefs, strict=True)
    ]


def _to_line(run_dir: Path, brief: RunBrief, lives: Liveness | None) -> RunLine:
    begin, end = brief.started, brief.finished
    started = begin.t if begin else None
    job = read_job(run_dir)
    state: RunVerdict
    if end is not None:
        state, reason = end.state, end.reason
    elif lives is None or lives.lease is None:
        state, reason = ("unfinished", "") if job is None else ("submitted", f"{job.text} has not started")
    else:
        state, reason = ("running", "") if lives.alive else ("lost", lives.text)
    host = begin.host if begin else lives.lease.host if lives and lives.lease else ""
    # The last event of a run that goes on may be of long ago.
    last = time.time() if state == "running" else brief.t
    wall_s = max(0.0, last - started) if started is not None and last is not None else None
    notes, part = read_notes(run_dir), read_part(run_dir)
    return RunLine(
        name=run_dir.name,
        state=state,
        violated=_count_violated(run_dir) if state == "succeeded" else 0,
        reason=reason,
        started=started,
        wall_s=wall_s,
        host=host,
        site=_site(run_dir),
        job=_job_text(run_dir, job, brief),
        tags=notes.tags,
        note=notes.with_text[-1].text if notes.with_text else "",
        goes_on_with="" if part is None else Path(part.run).name,
    )


def _job_text(run_dir: Path, job: JobRecord | None, brief: RunBrief) -> str:
    if job is None:
        return received_job(run_dir)
    # The verdict of a submission that the scheduler has refused: no job of that name exists.
    refused = not job.job and brief.started is None and brief.finished is not None and brief.finished.state == "failed"
    return "not submitted" if refused else job.text


def _count_violated(run_dir: Path) -> int:
    """As found when the run ended; 0 where nothing is expected, or nothing was kept."""
    return sum(each.is_violated for each in read_expectations(run_dir) or ())


def _site(run_dir: Path) -> str:
    """The site of a run's plan, whatever the version of that plan; empty where it cannot be read."""
    try:
        plan = read_json((run_dir / PLAN_FILE).read_bytes())
        return str(plan.get("site", ""))
    except (OSError, ValueError, AttributeError):
        return ""
