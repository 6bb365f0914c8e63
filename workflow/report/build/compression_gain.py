"""What compression gained on disk, and which compressed variables nobody compared."""

from __future__ import annotations

from pathlib import Path

from workflow.plan.plan_model import StreamPlan
from workflow.report.read.run_records import Records


def stored_bytes(plan: StreamPlan, records: Records) -> int | None:
    """Bytes of the data files of a stream with operators, without their metadata; None where there are none."""
    operators = any(end.operators for end in records.plan.stage(plan.writer).ends if end.stream == plan.name)
    if not operators:
        return None
    try:
        sizes = [file.stat().st_size for path in plan.on_disk for file in Path(path).glob("data.*")]
    except OSError:
        return None  # being removed
    return sum(sizes) if sizes else None


def unread(plan: StreamPlan, records: Records) -> list[str]:
    """Compressed variables that no reader compared; [] where a reader cannot be seen."""
    readers = [records.metrics[name] for name in plan.readers]
    if not all(plan.name in {stream for stream, _ in reader.opened} for reader in readers):
        return []
    checked = {each["variable"] for reader in readers for each in reader.accuracy.get(plan.name, [])}
    return [name for name in records.metrics[plan.writer].compressed.get(plan.name, []) if name not in checked]
