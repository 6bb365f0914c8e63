"""The short runs of candidates: how they are shortened, how long their steps took, and the file that keeps it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from workflow.balance.balance_model import ProbeRecord
from workflow.campaign.execution.repetition import StartedAttempt, remove_data, run_repetition
from workflow.campaign.planning.content_key import content_key, file_sums, trial_content
from workflow.errors import RunError
from workflow.formats.json_lines import read_json_lines
from workflow.launch.allocation import Allocation
from workflow.plan.plan_model import Plan
from workflow.provenance.plan_files import LookedUp, examine_plan, files_of
from workflow.provenance.provenance_model import Provenance
from workflow.report.build.measured_forecast import TimePerStep, step_time
from workflow.report.read.run_records import read_records
from workflow.spec.load import Loaded

PROBES_FILE = "probes.jsonl"


def shortened(loaded: Loaded, steps: int) -> dict[str, int]:
    """The settings with which the simulations write so many steps, key → value; none where they write fewer anyway.

    Only components say how many steps they write: a program of the user's own runs to its end.
    """
    found = {}
    for name, stage in loaded.spec.stages.items():
        component = loaded.components.get(stage.component or "")
        # All members have the parameters of the stage that is written in the file.
        written = loaded.members[name].ensemble if name in loaded.members else name
        for port in component.writes.values() if component is not None else ():
            if port.steps is None:
                continue
            parameters = loaded.parameters[name]
            every = int(parameters[port.steps.every]) if port.steps.every else 1
            wanted = max(1, steps - port.steps.first) * every
            if wanted < int(parameters[port.steps.of]):
                found[f"stages.{written}.with.{port.steps.of}"] = wanted
    return found


def outputs_elsewhere(loaded: Loaded) -> list[str]:
    """The keys of outputs that are not in the run directory: each probe would write there."""
    return [
        f"stages.{name}.with.{parameter}"
        for name, stage in loaded.spec.stages.items()
        if (component := loaded.components.get(stage.component or "")) is not None
        for parameter, described in component.parameters.items()
        if described.type == "output" and Path(str(loaded.parameters[name].get(parameter) or "")).is_absolute()
    ]


def counted_stage(plan: Plan) -> str:
    """The stage whose steps are counted: the first one that reads nothing, or of a circle the first one."""
    read = {reader for stream in plan.streams for reader in stream.readers}
    return next((stage.name for stage in plan.stages if stage.name not in read), plan.stages[0].name)


def probe_key(plan: Plan, loaded: Loaded, looked_up: LookedUp) -> str:
    """What says that two probes are of the same: as for a repetition of a campaign, with the files of the plan."""
    examined = examine_plan(plan, loaded, looked_up)
    return content_key(trial_content({}, examined, loaded, file_sums(files_of(examined, loaded))))


def run_probe(
    loaded: Loaded,
    plan: Plan,
    allocation: Allocation,
    run_dir: Path,
    provenance: Provenance,
    key: str,
    settings: Mapping[str, Any],
) -> tuple[ProbeRecord, bool]:
    """Run one candidate to its end, as a repetition of a campaign, and remove its data. Returns its record, and whether
    something else ended it: a signal, a lost node, the end of the job.

    Raises RunError where the directory cannot be used.
    """
    start = StartedAttempt(run_dir, 1, plan.nodes, time.time())
    attempt = run_repetition(start, plan, loaded, allocation, provenance, lambda: None)
    reason = "" if attempt.state == "succeeded" else attempt.reason or attempt.state
    took = TimePerStep(0, None, None) if reason else _step_time(run_dir, plan, attempt.figures)
    if took.pace_s is None and took.span_s is None and not reason:
        reason = f"stage {counted_stage(plan)} has too few steps to be timed"
    remove_data(run_dir)
    shares = {stage.name: attempt.figures.get(f"stages.{stage.name}.wait_share") for stage in plan.stages}
    record = ProbeRecord(
        key=key, settings=dict(settings), run=run_dir.name, steps=took.steps, pace_s=took.pace_s, span_s=took.span_s,
        wall_s=round(attempt.wall_s, 3), reason=reason,
        waits={name: round(share, 3) for name, share in shares.items() if share is not None},
    )  # fmt: skip
    return record, attempt.state in ("interrupted", "lost")


def _step_time(run_dir: Path, plan: Plan, figures: Mapping[str, float]) -> TimePerStep:
    """Of a program without metrics, from its steps as its stream was seen to have them."""
    name = counted_stage(plan)
    found = step_time(read_records(run_dir), name)
    steps = int(max(figures.get(f"stages.{name}.{each}", 0) for each in ("steps_out", "steps_in")))
    wall_s = figures.get("run.wall_s")
    return found if found.steps or not steps or not wall_s else TimePerStep(steps, wall_s / steps, wall_s / steps)


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
