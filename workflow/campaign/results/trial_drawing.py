"""The pipeline of a campaign, drawn from the plan of one of its trials: in the head of its report."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from workflow.campaign.campaign_directory import RUNS_FOLDER
from workflow.campaign.results.results_model import CampaignResults
from workflow.campaign.results.row_labels import RowLabels
from workflow.errors import RunError
from workflow.plan.plan_model import Plan
from workflow.plan.read_plan import read_plan
from workflow.report.html.pipeline_drawing import PipelineDrawing, pipeline_drawing
from workflow.run.run_directory import PLAN_FILE


class TrialDrawing(NamedTuple):
    """The drawing, and which trial it is of."""

    drawing: PipelineDrawing
    caption: str


def trial_drawing(directory: Path, results: CampaignResults) -> TrialDrawing | None:
    """Of the first trial; None where none of its runs is there any more, or it is too large to be drawn."""
    trial = next((each for each in results.trials if not each.is_baseline), None)
    plan = _read_plan(directory / RUNS_FOLDER, trial.trial) if trial is not None else None
    drawing = pipeline_drawing(plan) if plan is not None else None
    if trial is None or drawing is None:
        return None
    label = RowLabels([each.parameters for each in results.trials]).whole(trial.parameters)
    others = "; the others differ in these values" if len(results.trials) > 1 else ""
    return TrialDrawing(drawing, f"The trial {label}{others}." if label else "")


def _read_plan(runs: Path, key: str) -> Plan | None:
    for path in sorted(runs.glob(f"{key}-*/{PLAN_FILE}")):
        try:
            return read_plan(path.read_bytes(), str(path))
        except (OSError, RunError):
            continue
    return None
