"""report.json and report.html: computed from the files of a run directory and from nothing else, written, and read."""

from __future__ import annotations

from pathlib import Path

from workflow.errors import RunError
from workflow.formats.read_json import read_json
from workflow.formats.run_clock import run_time
from workflow.replace_file import replace_file
from workflow.report.build.make_report import make_report
from workflow.report.read.run_records import Records, read_records
from workflow.report.read.run_states import with_related_runs, with_verdict
from workflow.report.report_model import Report
from workflow.run.chain import NEXT_PART_FILE
from workflow.run.part_files import parts_before
from workflow.run.records.run_notes import NOTES_FILE
from workflow.run.state.lifecycle_events import OUTCOMES
from workflow.run.state.run_state import RunState


def compute_report(run_dir: Path) -> Report:
    """The report of a run that goes on or ended, computed from its files now.

    Raises:
        RunError: the directory has no plan that can be read.
    """
    return with_related_runs(_compute(run_dir), run_dir)


def _compute(run_dir: Path) -> Report:
    records = read_records(run_dir)
    earlier = _earlier_reports(records)
    report = with_verdict(make_report(records, earlier), run_dir)
    if report.run.state == "running":
        # Its last event may be of long ago, and its time goes on.
        later = make_report(records.at(run_time(run_dir)), earlier)
        known = {"state": "running", "job": report.run.job, "parts": report.run.parts}
        return later.model_copy(update={"run": later.run.model_copy(update=known)})
    if report.run.state == "lost":
        # It may have ended while its heartbeat was waited for.
        newer = make_report(read_records(run_dir), earlier)
        return report if newer.run.state == "unfinished" else newer
    return report


def _earlier_reports(records: Records) -> list[Report] | None:
    """The reports of the parts before, the first one first, where something is expected of them all; None: one of them
    cannot be read."""
    part = records.plan.part
    if part is None or part.is_reuse or not records.plan.expectations:
        return []
    try:
        return [read_report(path) for path in reversed(list(parts_before(part)))]
    except RunError:
        return None


def write_report(run_dir: Path, state: RunState | None = None) -> Report:
    """Compute the report, write report.json and report.html, return it; with a note where they cannot be written.

    `state`: the last one of a run that has just ended: its verdict holds even if it could not be written.

    Raises:
        RunError: the directory has no plan that can be read.
    """
    from workflow.report.html.page import make_html

    records = read_records(run_dir, state)
    report = with_related_runs(with_verdict(make_report(records, _earlier_reports(records)), run_dir), run_dir)
    try:
        replace_file(run_dir / "report.json", report.to_json().encode())
        replace_file(run_dir / "report.html", make_html(records, report).encode())
    except OSError as error:
        # Somebody else's run, or an archived one: the numbers are still available.
        note = f"report.json and report.html could not be written: {error.strerror}"
        return report.model_copy(update={"notes": [*report.notes, note]})
    return report


def read_report(run_dir: Path) -> Report:
    """The stored report when it is whole and younger than the run's events and notes; otherwise it is computed again.

    Raises:
        RunError: the directory has no plan that can be read.
    """
    stored = run_dir / "report.json"
    try:
        # A note may have been added after the run, and its next part is submitted then.
        later = [path for path in (run_dir / NOTES_FILE, run_dir / NEXT_PART_FILE) if path.exists()]
        newest = max(path.stat().st_mtime_ns for path in (run_dir / "events.jsonl", *later))
        if stored.stat().st_mtime_ns >= newest:
            report = Report.model_validate(read_json(stored.read_bytes()))
            if report.run.state in OUTCOMES:
                return with_related_runs(report, run_dir)  # a part may have been made since
    except (OSError, ValueError):
        pass  # not there, half-written, or of another version: compute it from the files that it came from
    return compute_report(run_dir)
