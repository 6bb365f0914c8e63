"""wf: couple simulations, analyses and sinks by ADIOS2 streams or files, from one YAML file.

The names below are loaded on first use, so that a stage program that imports `workflow.stage` on ten
thousand ranks does not pay for YAML and pydantic.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"
__all__ = [
    "GateVersion",
    "__version__",
    "archive_campaign",
    "archive_run",
    "compare_campaigns",
    "gate_campaign",
    "load_pipeline",
    "look_at",
    "make_plan",
    "read_report",
    "report_campaign",
    "report_tables",
    "run_campaign",
    "run_pipeline",
    "steps_table",
]

_HOMES = {
    "GateVersion": "workflow.api",
    "archive_campaign": "workflow.api",
    "archive_run": "workflow.api",
    "compare_campaigns": "workflow.api",
    "gate_campaign": "workflow.api",
    "load_pipeline": "workflow.api",
    "look_at": "workflow.api",
    "make_plan": "workflow.api",
    "run_pipeline": "workflow.api",
    "read_report": "workflow.api",
    "run_campaign": "workflow.api",
    "report_campaign": "workflow.api",
    "report_tables": "workflow.report.notebook_report",
    "steps_table": "workflow.report.notebook_report",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'workflow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
