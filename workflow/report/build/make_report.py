"""The report of a run, computed from the files of its directory and from nothing else."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pydantic import ValidationError

from workflow.errors import EXIT_RUN_FAILED
from workflow.formats.metrics_lines import FULL_STEPS
from workflow.formatting import plural
from workflow.plan.plan_model import Plan
from workflow.report.build.bottleneck import run_limit
from workflow.report.build.output_outcomes import output_notes
from workflow.report.build.totals import busy_s, make_stage, make_stream
from workflow.report.read.run_records import Records, read_records
from workflow.report.read.run_status import settle
from workflow.report.report_model import Report, RunPart, StagePart, StreamPart
from workflow.run.observe.sst_log import last_lines
from workflow.run.verdict.transport_check import difference

__all__ = ["Report", "make_report", "read_report", "write_report"]

ERROR_LINES = 20
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def make_report(run_dir: Path) -> Report:
    """Compute the report from plan.json, events.jsonl and stages/*/metrics.jsonl.

    Pure over these files, so a run that goes on and one whose supervisor died look alike here
    (`unfinished`); `workflow.report.read.run_status` tells them apart.

    Raises:
        RunError: the directory has no plan that can be read.
    """
    return to_report(read_records(run_dir))


def to_report(records: Records) -> Report:
    """The report of what was read."""
    stages = [make_stage(stage, records, _last_lines(records, stage.name)) for stage in records.plan.stages]
    streams = [make_stream(stream, records) for stream in records.plan.streams]
    return Report(
        run=_make_run(records, stages, streams),
        stages=stages,
        streams=streams,
        notes=[
            *_make_notes(records),
            *_uncounted(streams),
            *_dropped(records.plan, streams),
            *output_notes(records.plan, streams),
        ],
    )


def run_status(run_dir: Path) -> Report:
    """The report of a run that goes on or ended, computed from its files now.

    Raises:
        RunError: the directory holds no run.
    """
    return settle(make_report(run_dir))


def write_report(run_dir: Path) -> Report:
    """Compute the report, write report.json and report.html, return it; with a note where that is not allowed.

    Raises RunError like `make_report`.
    """
    from workflow.report.html.page import make_html

    records = read_records(run_dir)
    report = settle(to_report(records))
    try:
        _replace(run_dir / "report.json", report.to_json())
        _replace(run_dir / "report.html", make_html(records, report))
    except OSError as error:
        # Somebody else's run, or an archived one: the numbers are still to be had.
        note = f"report.json and report.html could not be written: {error.strerror}"
        return report.model_copy(update={"notes": [*report.notes, note]})
    return report


def read_report(run_dir: Path) -> Report:
    """The stored report when it is whole and younger than the run's events; else it is computed anew.

    Raises:
        RunError: the directory has no plan that can be read.
    """
    stored = run_dir / "report.json"
    try:
        if stored.stat().st_mtime_ns >= (run_dir / "events.jsonl").stat().st_mtime_ns:
            report = Report.model_validate_json(stored.read_bytes())
            if report.run.state in ("succeeded", "failed", "interrupted"):
                return report
    except (OSError, ValidationError):
        pass  # not there, half-written, or of another version: the files that it came from are
    return settle(make_report(run_dir))


def _last_lines(records: Records, stage: str) -> list[str]:
    """The end of what a stage said that went wrong."""
    seen = records.state.stages[stage]
    unjudged = seen.exited is not None and not seen.is_over
    if seen.status != "failed" and not unjudged and records.state.culprit != stage:
        return []
    lines = last_lines(records.run_dir / "stages" / stage / "stderr.log", ERROR_LINES)
    return ["".join(c for c in COLOUR.sub("", line) if c.isprintable() or c == "\t") for line in lines]


def _make_run(records: Records, stages: list[StagePart], streams: list[StreamPart]) -> RunPart:
    plan, state = records.plan, records.state
    wall_s = None if state.started is None else state.t - state.started
    verdict = state.finished.state if state.finished else "unfinished"
    live = any(stream.coupling == "live" for stream in streams)
    # Nobody waits for a tap.
    taps = {stage.name for stage in plan.stages if stage.added == "tap"}
    work = {
        stage.name: (stage.compute_s or 0) + (stage.io_s or 0)
        for stage in stages
        if stage.compute_s is not None and stage.name not in taps
    }
    # Of a run that broke off, or moved nothing, the share of its start and end would be shown.
    told = live and verdict == "succeeded" and any(stream.steps for stream in streams)
    limiter = run_limit(streams, stages) if told else ""
    longest = limiter or (max(work, key=lambda name: work[name], default="") if told and len(work) > 1 else "")
    busy = next((busy_s(stage) for stage in stages if stage.name == longest), None)
    return RunPart(
        name=plan.pipeline, directory=records.run_dir.resolve().name, state=verdict,
        exit_code=state.finished.exit_code if state.finished else EXIT_RUN_FAILED,
        reason=state.reason, stage=state.culprit, started=state.started,
        ended=None if state.started is None else state.t, wall_s=wall_s,
        host=state.host, pid=state.pid, site=plan.site, wf_version=plan.wf_version,
        overlap=busy / wall_s if busy is not None and wall_s else None, limited_by=limiter,
    )  # fmt: skip


def _uncounted(streams: list[StreamPart]) -> list[str]:
    """Reads that left no trace, of runs judged by exit code alone there."""
    return [
        f"how much {reader.stage} read of {stream.name} could not be counted: its exit code was believed"
        for stream in streams
        for reader in stream.readers
        if reader.steps is None
    ]


def _dropped(plan: Plan, streams: list[StreamPart]) -> list[str]:
    """What readers missed because a full queue discards."""
    return [
        f"{reader.stage} missed {reader.dropped} of the {plural(stream.steps or 0, 'step')} of "
        f"{_offered(plan, stream)}: the queue was full, and discards"
        for stream in streams
        for reader in stream.readers
        if reader.dropped and stream.when_full == "discard"
    ]


def _offered(plan: Plan, stream: StreamPart) -> str:
    """The stream that the user tapped, for one from a relay to a tap."""
    tapped = next((each.name for each in plan.streams if stream.writer in each.readers), "")
    return f"{tapped} offered to it" if tapped and plan.stage(stream.writer).added == "relay" else stream.name


def _make_notes(records: Records) -> list[str]:
    notes = [
        f"stage {stage.name} keeps no metrics of its own: its steps and bytes are what the supervisor saw"
        for stage in records.plan.stages
        if stage.ends and records.state.stages[stage.name].started and not records.metrics[stage.name].exists
    ]
    notes += [
        text
        for stream in records.plan.streams
        if stream.fallback and (text := difference(records.state, records.state.writer(stream.name)))
    ]
    notes += [
        f"{name} made more than {FULL_STEPS} steps at an end of a stream: later ones are recorded together, at growing "
        "intervals; totals are exact, queues are drawn up to there"
        for name, metrics in records.metrics.items()
        if any(step.count > 1 for step in metrics.steps)
    ]
    notes += [
        f"{plural(metrics.lost, 'line')} of stages/{name}/metrics.jsonl could not be written"
        for name, metrics in records.metrics.items()
        if metrics.lost
    ]
    broken = {name: metrics.unreadable for name, metrics in records.metrics.items() if metrics.unreadable}
    notes += [
        f"stages/{name}/metrics.jsonl: {plural(count, 'line')} left out as unreadable" for name, count in broken.items()
    ]
    return notes


def _replace(path: Path, text: str) -> None:
    """Write so that a reader sees the old text or the new, never half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
