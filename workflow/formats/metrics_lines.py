"""The lines of `metrics.jsonl` and `progress.jsonl`: what `workflow.stage` writes about its stage.

The supervisor and the report read them. `metrics.jsonl` is only appended to; `kind` says what a line is:

| kind | fields besides `kind` and `t`, Unix seconds |
|---|---|
| start | metrics_version, stage, ranks, adios2, mpi, parallel |
| opening, open | stream, side; of `open` also engine, seconds |
| step | stream, side, step, bytes, wait_s, io_s, compute_s: one step, at its end |
| steps | the same of the last of `count` steps, `since` the end of the one before them: their sums |
| error | stream, type, error |
| close | stream, side, steps, complete, error; of a reader also ended; bytes of each line that had none; ranks |
| compressed, accuracy | stream, side, and what compression did |
| steered | id, step, old, new (values by name), by: a change that was taken, at its step |
| refused | id, values, by, reason: a change that was not taken |
| steer | id, stage, values, step: a change that this stage asks for at another one |
| note | text: a sentence for the report; no_steps, where there are some: streams of which it says why they have none |
| lost | lines: so many could not be written |
| end | compute_s after the last stream call |

The first `FULL_STEPS` steps of an end have a line each; those that follow share lines at intervals that grow with the
time: the file grows by `1 / INTERVAL_SHARE` lines whenever that time becomes e times as long. `bytes` is null while
only all ranks together know it. `ranks`, where each rank opened the stream: count, and of moving_s, this end's, and of
compute_s, the whole stage's until then, {median, slowest, rank}. Where arrays were copied to or from a device, lines
with io_s have device_s, too, and `ranks` device_s of this end.

`progress.jsonl` has one line per end of a stream, of constant length, which is written anew at each step that has no
line of its own in `metrics.jsonl`, at an error of that file, and when the end is closed: kind `total`, stream, side,
steps since it was opened last, steps_before, bytes, wait_s, io_s, compute_s of all, complete (null: not closed),
waits (true: the program is inside a call on this end that returns only when the other end has acted: it opens the
stream, asks for the next step, or writes one into a queue that may be full) and check, which is equal to steps except
in a line that is half written.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from workflow.formats.json_lines import to_record
from workflow.formats.sides import EndOfStream
from workflow.formats.versions import check_version

METRICS_FILE = "metrics.jsonl"
PROGRESS_FILE = "progress.jsonl"
METRICS_VERSION = 2
VERSION_KEY = "metrics_version"
FULL_STEPS = 1000
INTERVAL_SHARE = 1 / 200
SHORTEST_INTERVAL_S = 0.5


def interval_s(elapsed_s: float) -> float:
    """How long to gather what is written in one line, so long after the beginning."""
    return max(SHORTEST_INTERVAL_S, elapsed_s * INTERVAL_SHARE)


def check_metrics_version(record: dict[str, Any], file: object) -> None:
    """Raises OtherVersionError for a `start` line of another version; other lines have none."""
    if record.get("kind") == "start":
        check_version(record, VERSION_KEY, METRICS_VERSION, file)


def end_of(record: dict[str, Any]) -> EndOfStream:
    """The end that a line is about. Raises KeyError or ValueError."""
    side = record["side"]
    if side not in ("read", "write"):
        raise ValueError(side)
    return str(record["stream"]), side


def read_progress(metrics: Path) -> dict[EndOfStream, dict[str, Any]]:
    """The totals of each end, from the file beside `metrics`; half-written and damaged lines are left out.

    Only the end of a record is checked: its other fields may be missing, or of another type.
    """
    try:
        lines = metrics.with_name(PROGRESS_FILE).read_bytes().split(b"\n")
    except OSError:
        return {}
    totals = {}
    for record in map(to_record, lines):
        if record is not None and record.get("kind") == "total" and record.get("steps") == record.get("check"):
            with contextlib.suppress(KeyError, ValueError):
                totals[end_of(record)] = record
    return totals
