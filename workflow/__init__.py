"""wf: couple simulations, analyses and sinks by ADIOS2 streams or files, from one YAML file.

    from workflow import load_pipeline, make_plan, run_pipeline

    plan = make_plan(load_pipeline("pipeline.yaml", via="bp5"))  # no process, no file written
    report = run_pipeline("pipeline.yaml")  # runs it, returns the report

Paths are given as text or as any path object.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Loaded on first use: a stage program that imports `workflow.stage` on ten thousand ranks does not pay for YAML and
# pydantic, and no verb for what it does not use.
_HOMES = {
    "Attachment": "workflow.api.attachments",
    "GateVersion": "workflow.api.gates",
    "Loaded": "workflow.spec.load",
    "archive_campaign": "workflow.api.archives",
    "archive_run": "workflow.api.archives",
    "attach": "workflow.api.attachments",
    "campaign_status": "workflow.api.campaigns",
    "compare_campaigns": "workflow.api.campaigns",
    "create_run": "workflow.api.runs",
    "detach_campaign": "workflow.api.campaigns",
    "detach_run": "workflow.api.runs",
    "forecast_plan": "workflow.api.plans",
    "gate_campaign": "workflow.api.gates",
    "keep_measurements": "workflow.api.calibrations",
    "load_pipeline": "workflow.spec.load",
    "load_replay": "workflow.api.replays",
    "look_at": "workflow.api.archives",
    "make_plan": "workflow.api.plans",
    "notes_on": "workflow.api.plans",
    "plan_campaign": "workflow.api.campaigns",
    "read_report": "workflow.api.runs",
    "report_campaign": "workflow.api.campaigns",
    "report_tables": "workflow.report.notebook_report",
    "run_campaign": "workflow.api.campaigns",
    "run_pipeline": "workflow.api.runs",
    "start_run": "workflow.api.runs",
    "steps_table": "workflow.report.notebook_report",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'workflow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
