"""The functions for notebooks and scripts; the command line uses them too.

    from workflow import load_pipeline, make_plan, run_pipeline

    plan = make_plan(load_pipeline("pipeline.yaml", via="bp5"))  # no process, no file written
    report = run_pipeline("pipeline.yaml")  # runs it, returns the report

Paths are given as text or as any path object. The names below are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = {
    "GateVersion": "workflow.api.gates",
    "Loaded": "workflow.spec.loaded_pipeline",
    "archive_campaign": "workflow.api.archives",
    "archive_run": "workflow.api.archives",
    "calibrate_site": "workflow.api.plans",
    "campaign_status": "workflow.api.campaigns",
    "compare_campaigns": "workflow.api.campaigns",
    "create_run": "workflow.api.runs",
    "detach_campaign": "workflow.api.campaigns",
    "detach_run": "workflow.api.runs",
    "forecast_plan": "workflow.api.plans",
    "gate_campaign": "workflow.api.gates",
    "load_pipeline": "workflow.spec.load",
    "load_replay": "workflow.api.replays",
    "look_at": "workflow.api.archives",
    "make_plan": "workflow.api.plans",
    "notes_on": "workflow.api.plans",
    "plan_campaign": "workflow.api.campaigns",
    "portable_plan": "workflow.api.plans",
    "read_report": "workflow.api.runs",
    "report_campaign": "workflow.api.campaigns",
    "run_campaign": "workflow.api.campaigns",
    "run_pipeline": "workflow.api.runs",
    "start_run": "workflow.api.runs",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'workflow.api' has no attribute {name!r}")
