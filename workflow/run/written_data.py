"""What the stages of a run wrote, apart from the records of wf and the logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workflow.run.run_directory import STREAMS

_RECORDS = {
    "plan.json", "pipeline.yaml", "allocation.json", "events.jsonl", "proof.json", "lease.json",
    "job.json", "control.jsonl", "provenance.json", "report.json", "report.html", "stages", "launches", STREAMS,
    "forecast.json", "supervisor.log", "psij", "smoke",
}  # fmt: skip


def written_data(run_dir: Path) -> Iterator[Path]:
    """Files and directories that are no records."""
    for folder in (run_dir / STREAMS, *run_dir.glob("stages/*/work")):
        if folder.is_dir():
            yield from folder.iterdir()
    yield from (path for path in run_dir.iterdir() if path.name not in _RECORDS)
