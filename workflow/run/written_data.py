"""What the stages of a run wrote, apart from the records of wf and the logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workflow.run.run_directory import OWN_FIGURES_FILE, STREAMS

_RECORDS = {
    "plan.json", "pipeline.yaml", "provenance.json", "allocation.json", "events.jsonl", "proof.json", "lease.json",
    "job.json", "job_end.json", "job.sh", "psij", "control.jsonl", "stop", "supervisor.log", "guards.log", "proof",
    "forecast.json", "expectations.json", "notes.jsonl",
    "report.json", "report.html", "stages", "launches", STREAMS,
}  # fmt: skip


def written_data(run_dir: Path) -> Iterator[Path]:
    """Files and directories that are no records."""
    for folder in (run_dir / STREAMS, *run_dir.glob("stages/*/work")):
        if folder.is_dir():
            yield from (path for path in folder.iterdir() if path.name != OWN_FIGURES_FILE)
    yield from (path for path in run_dir.iterdir() if path.name not in _RECORDS)
