"""The functions for notebooks and scripts; the command line uses them too.

    from workflow import load_pipeline, make_plan, run_pipeline

    plan = make_plan(load_pipeline("pipeline.yaml", via="bp5"))  # no process, no file written
    report = run_pipeline("pipeline.yaml")  # runs it, returns the report

Paths are given as text or as any path object.
"""

from __future__ import annotations

from workflow.api.archives import archive_campaign, archive_run, look_at
from workflow.api.calibrations import calibrate_site
from workflow.api.campaigns import (
    campaign_status,
    compare_campaigns,
    detach_campaign,
    plan_campaign,
    report_campaign,
    run_campaign,
)
from workflow.api.gates import GateVersion, gate_campaign
from workflow.api.plans import forecast_plan, make_plan, notes_on, portable_plan
from workflow.api.replays import load_replay
from workflow.api.runs import create_run, detach_run, read_report, run_pipeline, start_run
from workflow.spec.load import Loaded, load_pipeline

__all__ = [
    "GateVersion",
    "Loaded",
    "archive_campaign",
    "archive_run",
    "calibrate_site",
    "campaign_status",
    "compare_campaigns",
    "create_run",
    "detach_campaign",
    "detach_run",
    "forecast_plan",
    "gate_campaign",
    "load_pipeline",
    "load_replay",
    "look_at",
    "make_plan",
    "notes_on",
    "plan_campaign",
    "portable_plan",
    "read_report",
    "report_campaign",
    "run_campaign",
    "run_pipeline",
    "start_run",
]
