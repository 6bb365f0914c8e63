"""The short runs of candidates: how they are shortened, how long their steps took, and the file that keeps it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import ValidationError

from workflow.balance.balance_model import ProbeRecord
from workflow.errors import RunError
from workflow.forecast.make_forecast import coupled_stages
from workflow.formats.json_lines import read_json_lines
from workflow.launch.allocation import Allocation
from workflow.plan.plan_model import Plan
from workflow.report.build.measured_forecast import step_terms
from workflow.report.read.run_records import read_records
from workflow.report.report_files import compute_report
from workflow.report.report_model import Report
from workflow.run.records.run_directory import create_run_dir
from workflow.run.supervisor import supervise
from workflow.spec.load import Loaded

PROBES_FILE = "probes.jsonl"
KEY_LENGTH = 16


def shortened(loaded: Loaded, steps: int) -> dict[str, int]:
    """The settings with which the simulations write so many steps, key → value; none where they write fewer anyway.

    Only components say how many steps they write: a program of the user's own runs to its end.
    """
    found = {}
    for name, stage in loaded.spec.stages.items():
        component = loaded.components.get(stage.component or "")
        for port in component.writes.values() if component is not None else ():
            if port.steps is None:
                continue
            parameters = loaded.parameters[name]
            every = int(parameters[port.steps.every]) if port.steps.every else 1
            wanted = max(1, steps - port.steps.first) * every
            if wanted < int(parameters[port.steps.of]):
                found[f"stages.{name}.with.{port.steps.of}"] = wanted
    return found


def counted_stage(plan: Plan) -> str:
    """The stage whose steps are counted: the first one that reads nothing, or of a circle the first one."""
    read = {reader for stream in plan.streams for reader in stream.readers}
    return next((stage.name for stage in plan.stages if stage.name not in read), plan.stages[0].name)


def probe_key(plan: Plan, loaded: Loaded) -> str:
    """What says that two probes are of the same: the plan and the text of the pipeline."""
    return hashlib.sha256(plan.to_json().encode() + loaded.text).hexdigest()[:KEY_LENGTH]


def run_probe(
    loaded: Loaded, plan: Plan, allocation: Allocation, run_dir: Path, key: str, settings: Mapping[str, Any]
) -> tuple[ProbeRecord, bool]:
    """Run one candidate to its end. Returns its record, and whether it was interrupted.

    Raises RunError where the directory cannot be used.
    """
    begin = time.monotonic()
    create_run_dir(plan, loaded, run_dir, latest=False)
    with contextlib.closing(supervise(run_dir, allocation)) as states:
        for _ in states:
            pass
    wall_s = time.monotonic() - begin
    report = compute_report(run_dir)
    reason = "" if report.run.state == "succeeded" else report.run.reason or report.run.state
    steps, seconds = (0, None) if reason else seconds_per_step(run_dir, plan, report)
    if seconds is None and not reason:
        reason = f"stage {counted_stage(plan)} has too few steps to be timed"
    record = ProbeRecord(
        key=key, settings=dict(settings), run=run_dir.name, steps=steps, seconds=seconds, wall_s=round(wall_s, 3),
        reason=reason, waits=_waits(report),
        sizes={each.name: each.bytes / each.steps for each in report.streams if each.bytes and each.steps},
    )  # fmt: skip
    return record, report.run.state == "interrupted"


def seconds_per_step(run_dir: Path, plan: Plan, report: Report) -> tuple[int, float | None]:
    """(steps, seconds per step) of a run: the mean, because single long steps count, too.

    Where all stages wait for each other it is the pace of the stage that is counted, without its first steps; else the
    time of the whole run ÷ its steps, because what comes behind a file goes on when that stage has ended.
    """
    name = counted_stage(plan)
    terms = step_terms(read_records(run_dir), name)
    if len(coupled_stages(plan)) == 1 and terms.period:
        return terms.steps, fmean(terms.period)
    stage = report.stage(name)
    steps = max(stage.steps_out or 0, stage.steps_in or 0)
    return steps, report.run.wall_s / steps if steps and report.run.wall_s else None


def _waits(report: Report) -> dict[str, float]:
    return {
        stage.name: round(stage.wait_s / stage.wall_s, 3)
        for stage in report.stages
        if stage.wait_s is not None and stage.wall_s
    }


def read_probes(directory: Path) -> list[ProbeRecord]:
    """The probes of earlier calls. Raises RunError for a file that is none."""
    file = directory / PROBES_FILE
    if not file.is_file():
        return []
    try:
        return [ProbeRecord.model_validate(each) for each in read_json_lines(file).records]
    except ValidationError as error:
        raise RunError(f"{file}: it is no record of probes", "remove it, or use another folder: `--dir`") from error


def note_probe(directory: Path, probe: ProbeRecord) -> None:
    """Append a line. Raises RunError."""
    try:
        with (directory / PROBES_FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(probe.model_dump(mode="json")) + "\n")
    except OSError as error:
        raise RunError(f"{directory / PROBES_FILE}: {error.strerror}") from error
