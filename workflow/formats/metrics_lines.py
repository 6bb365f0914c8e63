"""The lines of `metrics.jsonl`: `workflow.stage` writes them; the supervisor and the report read them."""

from __future__ import annotations

METRICS_FILE = "metrics.jsonl"
