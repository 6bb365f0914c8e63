"""The report of a run, computed from its records. Pure, except for reading the last lines of stderr.log files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from workflow.errors import EXIT_RUN_FAILED
from workflow.report.build.figures_of_parts import figures_of_run
from workflow.report.build.limiting_stage import Limit, run_limit
from workflow.report.build.met_expectations import figures_of, with_expectations
from workflow.report.build.report_notes import (
    begin_notes,
    change_notes,
    empty_warnings,
    make_notes,
    make_restarts,
    program_notes,
    restart_note,
    unfinished_files,
)
from workflow.report.build.stage_and_stream_figures import busy_s, make_stage, make_stream
from workflow.report.build.steering_notes import MOST_KEPT, make_steering, steering_notes
from workflow.report.read.run_records import Records
from workflow.report.read.stage_logs import last_error_lines, last_output_lines
from workflow.report.report_model import Report, RunPart, StagePart
from workflow.run.verdict.restarts import skip_warnings
from workflow.run.verdict.stall_detection import late_ends, present_warnings


def make_report(records: Records, earlier: Sequence[Report] | None = ()) -> Report:
    """The report of these records.

    `earlier`: those of the parts before, the first one first; None where one cannot be read. What is expected is
    expected of the whole run, all else in the report is of this part.

    A run that goes on and one whose supervisor has died look alike here (`unfinished`): see `read.run_states`.
    """
    stages = [make_stage(stage, records, *_last_lines(records, stage.name)) for stage in records.plan.stages]
    streams = [make_stream(stream, records) for stream in records.plan.streams]
    restarts = make_restarts(records)
    steering = make_steering(records)
    kept = steering[-MOST_KEPT:]
    run = _make_run(records, stages)
    report = Report(
        run=run,
        params=records.plan.params,
        tags=records.notes.tags,
        user_notes=records.notes.with_text,
        stages=stages,
        streams=streams,
        restarts=restarts,
        steering=kept,
        notes=[
            *begin_notes(run, stages),
            *change_notes(records.plan),
            *map(restart_note, restarts),
            *steering_notes(records, kept, len(steering)),
            *skip_warnings(records.state),
            *program_notes(stages),
            *make_notes(records, streams),
            *records.notes.damage,
        ],
        unfinished_files=unfinished_files(records),
        warnings=[*present_warnings(records.state), *late_ends(records.state), *empty_warnings(records, streams)],
    )
    figures = figures_of_run([*earlier, report], records) if earlier else figures_of(report)
    return with_expectations(report, records.plan.expectations, {} if earlier is None else figures, records.judged)


def _last_lines(records: Records, stage: str) -> tuple[list[str], list[str]]:
    """The ends of the error output and of the other output of a stage that did not succeed."""
    seen = records.state.stages[stage]
    unjudged = seen.exited is not None and not seen.is_over
    if seen.status != "failed" and not unjudged and records.state.culprit != stage:
        return [], []
    stopping = records.state.stopping
    stopped = stopping is not None and seen.exited is not None and seen.exited >= stopping
    errors = last_error_lines(records.run_dir, stage, seen.attempt, interrupted=stopped)
    return errors, last_output_lines(records.run_dir, stage, seen.attempt)


def _make_run(records: Records, stages: list[StagePart]) -> RunPart:
    plan, state = records.plan, records.state
    wall_s = None if state.started is None else state.t - state.started
    verdict = state.finished.state if state.finished else "unfinished"
    # For a run that failed, or goes on, these figures would show its start and end only.
    limit = run_limit(records) if verdict == "succeeded" else Limit()
    before = "" if plan.part is None else PurePath(plan.part.run).name
    busy = next((busy_s(stage) for stage in stages if stage.name == limit.stage), None)
    return RunPart(
        name=plan.pipeline, directory=records.run_dir.resolve().name, state=verdict,
        exit_code=state.finished.exit_code if state.finished else EXIT_RUN_FAILED,
        reason=state.reason, cause=state.cause, words=state.finished.words if state.finished else [],
        lacks=state.finished.lacks if state.finished else "",
        stage=state.culprit, started=state.started,
        ended=None if state.started is None else state.t, wall_s=wall_s,
        host=state.host, pid=state.pid, site=plan.site, wf_version=plan.wf_version,
        part=plan.part_number, parts=plan.most_parts,
        goes_on_with=before if plan.part_number > 1 else "", reused_from="" if plan.part_number > 1 else before,
        overlap=busy / wall_s if busy is not None and wall_s else None, limited_by=limit.stage,
        limit_unknown=limit.why_unknown, limit_evidence=limit.evidence,
    )  # fmt: skip
