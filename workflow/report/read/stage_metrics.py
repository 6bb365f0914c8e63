"""What a stage recorded about itself: `metrics.jsonl`, `progress.jsonl`, and its program's own `figures.json`."""

from __future__ import annotations

import codecs
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workflow.errors import RunError
from workflow.formats.json_lines import read_json_lines
from workflow.formats.metrics_lines import check_metrics_version, end_of, read_progress
from workflow.formats.read_json import read_json
from workflow.formats.sides import EndOfStream, Side
from workflow.formats.versions import OtherVersionError
from workflow.run.records.run_directory import OWN_FIGURES_FILE

_LATEST_S = 1e11


FirstStep = Callable[[str], int]  # of an attempt: stream → the step at which it begins


@dataclass(slots=True)
class StepRecord:
    """One step at one end of a stream, or `count` of them together, of which `step` is the last.

    `t` is when the last one ended. The durations lie before it, of several steps after `since`.
    """

    stream: str
    side: Side
    step: int
    t: float
    bytes: int | None  # None: of ranks that read in parallel and have not closed the stream
    wait_s: float
    io_s: float
    compute_s: float
    count: int = 1
    since: float = 0.0
    device_s: float = 0.0


@dataclass(frozen=True, slots=True)
class CloseRecord:
    """How an end was closed. `complete` is False when the program left the stream before its end."""

    t: float
    steps: int
    complete: bool
    error: str


@dataclass(frozen=True, slots=True)
class RankTimes:
    """Seconds of the middle rank and of the slowest one, and which that is."""

    median_s: float
    slowest_s: float
    rank: int


@dataclass
class StageMetrics:
    """All that one stage recorded. Empty but for `exists=False` when it recorded nothing."""

    exists: bool = True
    adios2: str = ""
    """`2.12.1 with MPI`."""
    steps: list[StepRecord] = field(default_factory=list)
    steps_of: dict[EndOfStream, list[StepRecord]] = field(default_factory=dict)
    opened: dict[EndOfStream, tuple[float, float]] = field(default_factory=dict)  # (when, how long it took)
    closed: dict[EndOfStream, CloseRecord] = field(default_factory=dict)
    accuracy: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # stream → of each variable
    compressed: dict[str, list[str]] = field(default_factory=dict)  # stream → variables that it wrote with an operator
    moving_ranks: dict[EndOfStream, RankTimes] = field(default_factory=dict)  # where each rank opened the stream
    device_ranks: dict[EndOfStream, RankTimes] = field(default_factory=dict)  # and copied to or from a device
    computing_ranks: RankTimes | None = None  # until the last of those was closed
    compute_after_s: float = 0.0  # after the last stream call, until `ended`
    ended: float | None = None  # Unix s; None: it left no last line
    unreadable: int = 0
    lost: int = 0  # lines that the stage could not write
    removed: dict[str, int] = field(default_factory=dict)  # stream of another run → steps that were gone already
    notes: list[str] = field(default_factory=list)  # what the program says of its run
    explained: set[str] = field(default_factory=set)  # streams of which a note says why they have no step
    _reopened: dict[EndOfStream, int] = field(default_factory=dict)  # records before the end was opened again

    def of(self, stream: str, side: Side) -> list[StepRecord]:
        """The steps of one end, in order."""
        return self.steps_of.get((stream, side), [])

    @property
    def step_count(self) -> int:
        """Steps at all ends."""
        return number_of_steps(self.steps)


def number_of_steps(records: Sequence[StepRecord]) -> int:
    """How many steps these are."""
    return sum(record.count for record in records)


def read_metrics(path: Path) -> StageMetrics:
    """The metrics of a stage; a missing, empty or half-written file gives what can be had.

    Kinds of lines of later versions are ignored; records that lack a field are counted.

    Raises:
        RunError: the file is of a newer version.
    """
    lines = read_json_lines(path, infinity=True)
    metrics = StageMetrics(exists=lines.exists, unreadable=lines.unreadable)
    for record in lines.records:
        try:
            check_metrics_version(record, path)
            _add(metrics, record)
        except OtherVersionError as error:
            raise RunError(str(error)) from error
        except (KeyError, TypeError, ValueError, OverflowError):
            metrics.unreadable += 1
    for record in read_progress(path).values():
        try:
            _add_rest(metrics, record)
        except (KeyError, TypeError, ValueError, OverflowError):
            metrics.unreadable += 1
    return metrics


def join_attempts(attempts: Sequence[tuple[FirstStep, StageMetrics]]) -> StageMetrics:
    """The metrics of all attempts of a stage as one: (where it begins its streams, its metrics) of each, in order.

    Of steps that a later attempt has done again only the later record stays. A stream is opened by the first attempt,
    and closed by the last one. What the ranks took in all attempts is not known.
    """
    joined, steps = StageMetrics(exists=any(part.exists for _, part in attempts)), list[StepRecord]()
    for first, part in attempts:
        steps = [record for record in steps if record.step < first(record.stream)]
        steps += [replace(record, step=record.step + first(record.stream)) for record in part.steps]
        joined.adios2 = part.adios2 or joined.adios2
        joined.opened = {**part.opened, **joined.opened}
        joined.closed = {
            end: replace(record, steps=record.steps + first(end[0])) for end, record in part.closed.items()
        }
        joined.accuracy = part.accuracy or joined.accuracy
        joined.compressed = part.compressed or joined.compressed
        joined.compute_after_s, joined.ended = part.compute_after_s, part.ended
        joined.unreadable += part.unreadable
        joined.lost += part.lost
        joined.removed |= part.removed
        joined.notes += part.notes
        joined.explained |= part.explained
    for record in steps:
        _add_step(joined, record)
    return joined


def _add(metrics: StageMetrics, record: dict[str, Any]) -> None:
    match record.get("kind"):
        case "start":
            metrics.adios2 = f"{record.get('adios2') or ''}{' with MPI' if record.get('mpi') else ''}"
        case "opening":
            metrics._reopened[end_of(record)] = len(metrics.of(*end_of(record)))
        case "open":
            metrics.opened[end_of(record)] = (_number(record["t"]), _number(record["seconds"]))
        case "step":
            _add_step(metrics, _to_step(record))
        case "steps":
            step = _to_step(record)
            step.count, step.since = int(record["count"]), _number(record["since"])
            _add_step(metrics, step)
        case "close":
            metrics.closed[end_of(record)] = CloseRecord(
                _number(record["t"]), int(record["steps"]), bool(record["complete"]), str(record.get("error", ""))
            )
            # Ranks that read in parallel add up in the end what they have read.
            sizes = iter(record.get("bytes", []))
            for step in metrics.of(*end_of(record))[metrics._reopened.get(end_of(record), 0) :]:
                step.bytes = next(sizes, None) if step.bytes is None else step.bytes
            if "ranks" in record:
                metrics.moving_ranks[end_of(record)] = _to_rank_times(record["ranks"]["moving_s"])
                if "device_s" in record["ranks"]:
                    metrics.device_ranks[end_of(record)] = _to_rank_times(record["ranks"]["device_s"])
                metrics.computing_ranks = _to_rank_times(record["ranks"]["compute_s"])
        case "accuracy":
            found = {key: record[key] for key in ("variable", "operator", "bound", "largest", "compared", "steps")}
            found["largest"] = None if math.isinf(found["largest"]) else found["largest"]
            metrics.accuracy.setdefault(str(record["stream"]), []).append(found)
        case "compressed":
            metrics.compressed[str(record["stream"])] = [str(name) for name in record["variables"]]
        case "removed":
            metrics.removed[str(record["stream"])] = int(record["steps"])
        case "note":
            metrics.notes.append(str(record["text"]))
            metrics.explained |= {str(name) for name in record.get("no_steps", ())}
        case "lost":
            metrics.lost += int(record["lines"])
        case "end":
            metrics.compute_after_s = _number(record.get("compute_s", 0.0))
            metrics.ended = _number(record["t"])


def _to_step(record: dict[str, Any]) -> StepRecord:
    stream, side = end_of(record)
    wait_s, io_s, compute_s = (_number(record[key]) for key in ("wait_s", "io_s", "compute_s"))
    nbytes = None if record["bytes"] is None else int(record["bytes"])
    t, device_s = _number(record["t"]), _number(record.get("device_s", 0.0))
    return StepRecord(stream, side, int(record["step"]), t, nbytes, wait_s, io_s, compute_s, device_s=device_s)


def _to_rank_times(found: dict[str, Any]) -> RankTimes:
    return RankTimes(_number(found["median"]), _number(found["slowest"]), int(found["rank"]))


def _add_step(metrics: StageMetrics, step: StepRecord) -> None:
    metrics.steps.append(step)
    metrics.steps_of.setdefault((step.stream, step.side), []).append(step)


def _add_rest(metrics: StageMetrics, total: dict[str, Any]) -> None:
    """What an end has done beyond its lines: since the last one, or what could not be written."""
    stream, side = end_of(total)
    known = metrics.of(stream, side)
    count = int(total["steps"]) + int(total["steps_before"]) - number_of_steps(known)
    if count > 0:
        sizes = [step.bytes for step in known if step.bytes is not None]
        complete = len(sizes) == len(known) and total["bytes"] is not None
        total = {"device_s": 0.0, **total}
        wait_s, io_s, compute_s, device_s = (
            max(0.0, _number(total[key]) - sum(getattr(step, key) for step in known))
            for key in ("wait_s", "io_s", "compute_s", "device_s")
        )
        since = known[-1].t if known else metrics.opened.get((stream, side), (_number(total["t"]), 0.0))[0]
        nbytes = int(total["bytes"]) - sum(sizes) if complete else None
        last, t = int(total["steps"]) - 1, _number(total["t"])
        step = StepRecord(stream, side, last, t, nbytes, wait_s, io_s, compute_s, count, since, device_s)
        _add_step(metrics, step)
    if total["complete"] is not None and (stream, side) not in metrics.closed:
        metrics.closed[stream, side] = CloseRecord(
            _number(total["t"]), int(total["steps"]), bool(total["complete"]), ""
        )


def _number(value: Any) -> float:
    """A time or duration in seconds. Raises ValueError for what is none: a time after the year 5138 is damage."""
    number = float(value)
    if not abs(number) < _LATEST_S:
        raise ValueError(f"{number} is no time")
    return number


_LIMIT_BYTES = 1 << 20


def read_own_figures(work: Path) -> tuple[dict[str, float], str]:
    """The figures by name, and what is wrong with the file: `{"name": number, …}`.

    A program may write anything there: what is not a finite number is left out. Without a file there are none.
    """
    path = work / OWN_FIGURES_FILE
    try:
        with path.open("rb") as file:
            text = file.read(_LIMIT_BYTES + 1)
    except FileNotFoundError:
        return {}, ""
    except OSError as error:
        return {}, f"{OWN_FIGURES_FILE} cannot be read: {error.strerror}"
    if len(text) > _LIMIT_BYTES:
        return {}, f"{OWN_FIGURES_FILE} is larger than 1 MiB"
    if not text.strip():
        return {}, f"{OWN_FIGURES_FILE} is empty"
    try:
        written = read_json(text.removeprefix(codecs.BOM_UTF8), infinity=True)
    except ValueError as error:
        return {}, f"{OWN_FIGURES_FILE} is not JSON: {error}"
    if not isinstance(written, dict):
        return {}, f'{OWN_FIGURES_FILE} is not of the form {{"name": number}}'
    figures = {name: float(value) for name, value in written.items() if _is_number(value)}
    others = [name for name in written if name not in figures]
    return figures, f"{OWN_FIGURES_FILE}: no number: {', '.join(f'`{name}`' for name in others)}" if others else ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
