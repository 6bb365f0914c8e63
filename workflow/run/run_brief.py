"""What the first and the last event of a run tell: cheap enough to ask often, and of many runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workflow.formats.json_lines import to_record
from workflow.run.decided_events import RunFinished
from workflow.run.events import RunStarted
from workflow.run.events_file import EVENTS_FILE, from_record, reserved_verdict

# Longer than any event.
_TAIL = 65536


@dataclass(frozen=True)
class RunBrief:
    """When a run was started, how it ended; None for what has not happened. `t`: of its last event, Unix seconds."""

    started: RunStarted | None = None
    finished: RunFinished | None = None
    t: float | None = None


def read_brief(run_dir: Path) -> RunBrief:
    """The brief of a run; that of a run without events is empty."""
    try:
        with (run_dir / EVENTS_FILE).open("rb") as file:
            first = to_record(file.readline())
            file.seek(max(0, file.seek(0, 2) - _TAIL))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return RunBrief()
    last = next((record for record in map(to_record, reversed(lines)) if record is not None), None)
    started, finished = (from_record(record) if record else None for record in (first, last))
    if not isinstance(finished, RunFinished) and (reserved := reserved_verdict(run_dir)) is not None:
        finished, last = reserved, {"t": reserved.t}
    return RunBrief(
        started if isinstance(started, RunStarted) else None,
        finished if isinstance(finished, RunFinished) else None,
        float(last["t"]) if last and isinstance(last.get("t"), int | float) else None,
    )
