"""A summary of a run from its first event and its verdict: cheap enough for many runs, and to be read often.

Nothing is written after the verdict. Where something is all the same, the first verdict counts, as in `state_reducer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workflow.formats.json_lines import to_record
from workflow.run.events import RunStarted
from workflow.run.events_file import EVENTS_FILE, NAMES, from_record, reserved_verdict
from workflow.run.lifecycle_events import RunFinished

# Longer than any event.
_TAIL = 65536


@dataclass(frozen=True)
class RunBrief:
    """When a run was started, how it ended; None for what has not happened. `t`: of its verdict, or of its last event,
    in Unix seconds."""

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
    started = from_record(first) if first else None
    records = [record for record in map(to_record, lines) if record is not None]
    verdicts = (each for each in records if each.get("event") == NAMES[RunFinished])
    last = next(verdicts, records[-1] if records else {})
    finished, t = from_record(last), last.get("t")
    if not isinstance(finished, RunFinished) and (reserved := reserved_verdict(run_dir)) is not None:
        finished, t = reserved, reserved.t
    return RunBrief(
        started if isinstance(started, RunStarted) else None,
        finished if isinstance(finished, RunFinished) else None,
        float(t) if isinstance(t, int | float) else None,
    )
