"""What a stage recorded about itself: `stages/<stage>/metrics.jsonl`, written by `workflow.stage`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workflow.formats.sides import EndOfStream, Side
from workflow.report.read.json_lines import Journal, read_journal


@dataclass(slots=True)
class StepRecord:
    """One step at one end of a stream. `t` is when it ended; the durations lie before it."""

    stream: str
    side: Side
    step: int
    t: float
    bytes: int | None  # None: of ranks that read in parallel and have not closed the stream
    wait_s: float
    io_s: float
    compute_s: float


@dataclass(frozen=True, slots=True)
class CloseRecord:
    """How an end was closed. `complete` is False when the program left the stream before its end."""

    t: float
    steps: int
    complete: bool
    error: str


@dataclass
class StageMetrics:
    """All that one stage recorded. Empty but for `exists=False` when it recorded nothing."""

    exists: bool = True
    adios2: str = ""
    steps: list[StepRecord] = field(default_factory=list)
    steps_of: dict[EndOfStream, list[StepRecord]] = field(default_factory=dict)
    opened: dict[EndOfStream, tuple[float, float]] = field(default_factory=dict)  # (when, how long it took)
    closed: dict[EndOfStream, CloseRecord] = field(default_factory=dict)
    accuracy: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # stream → of each variable
    compressed: dict[str, list[str]] = field(default_factory=dict)  # stream → variables that it wrote with an operator
    compute_after_s: float = 0.0  # after the last stream call
    unreadable: int = 0

    def of(self, stream: str, side: Side) -> list[StepRecord]:
        """The steps of one end, in order."""
        return self.steps_of.get((stream, side), [])


def read_metrics(path: Path) -> StageMetrics:
    """The metrics of a stage; a missing, empty or half-written file gives what can be had."""
    return to_metrics(read_journal(path))


def to_metrics(journal: Journal) -> StageMetrics:
    """Sort the records by kind. Kinds of later versions are ignored; records that lack a field are counted."""
    metrics = StageMetrics(exists=journal.exists, unreadable=journal.unreadable)
    for record in journal.records:
        try:
            _add(metrics, record)
        except (KeyError, TypeError, ValueError):
            metrics.unreadable += 1
    return metrics


def _add(metrics: StageMetrics, record: dict[str, Any]) -> None:
    match record.get("kind"):
        case "start":
            metrics.adios2 = str(record.get("adios2", ""))
        case "open":
            metrics.opened[_end(record)] = (float(record["t"]), float(record["seconds"]))
        case "step":
            stream, side = _end(record)
            times = (float(record[key]) for key in ("wait_s", "io_s", "compute_s"))
            nbytes = None if record["bytes"] is None else int(record["bytes"])
            step = StepRecord(stream, side, int(record["step"]), float(record["t"]), nbytes, *times)
            metrics.steps.append(step)
            metrics.steps_of.setdefault((stream, side), []).append(step)
        case "close":
            metrics.closed[_end(record)] = CloseRecord(
                float(record["t"]), int(record["steps"]), bool(record["complete"]), str(record.get("error", ""))
            )
            # Ranks that read in parallel add up in the end what they have read.
            told = iter(record.get("bytes", []))
            for step in metrics.of(*_end(record)):
                step.bytes = next(told, None) if step.bytes is None else step.bytes
        case "accuracy":
            told = {key: record[key] for key in ("variable", "operator", "bound", "largest", "compared", "steps")}
            told["largest"] = None if math.isinf(told["largest"]) else told["largest"]
            metrics.accuracy.setdefault(str(record["stream"]), []).append(told)
        case "compressed":
            metrics.compressed[str(record["stream"])] = [str(name) for name in record["variables"]]
        case "end":
            metrics.compute_after_s = float(record.get("compute_s", 0.0))


def _end(record: dict[str, Any]) -> EndOfStream:
    side = record["side"]
    if side not in ("read", "write"):
        raise ValueError(side)
    return str(record["stream"]), side
