"""A run in a few lines of text. Pure, except that `result_paths` checks which files exist."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from workflow.errors import Problem, Severity, to_message
from workflow.formatting import duration, moment, percent, plural, size
from workflow.report.show.expectation_table import expectations_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workflow.report.report_model import AccuracyPart, Report, StreamPart
    from workflow.run.records.run_notes import RunNote

# With more streams than this their steps are not listed one by one.
MOST_LISTED = 3
# A shorter line may be part of any reason by chance.
SHORTEST_REPEAT = 10


def summary(report: Report) -> str:
    """How long, how many steps of each stream, how much, and what limited it, in one line."""
    run = report.run
    parts = [duration(run.wall_s), *_step_texts(report.streams)]
    if report.streams:
        parts.append(total_text(report))
    if run.limited_by:
        parts.append(f"limited by {run.limited_by}" + (f", overlap {percent(run.overlap)}" if run.overlap else ""))
    parts += [text] if (text := expectations_text(report)) else []
    return ", ".join(parts)


def _step_texts(streams: Sequence[StreamPart]) -> list[str]:
    """`field 41 steps` of each stream; of many `7 streams of 20 to 41 steps`."""
    if len(streams) <= MOST_LISTED:
        return [f"{stream.name} {_steps(stream)}" for stream in streams]
    counts = [stream.steps for stream in streams if stream.steps is not None]
    some = "" if not counts else f" of {plural(counts[0], 'step')}"
    if counts and min(counts) < max(counts):
        some = f" of {min(counts)} to {plural(max(counts), 'step')}"
    return [f"{len(streams)} streams{some}"]


def _steps(stream: StreamPart) -> str:
    return "steps not counted" if stream.steps is None else plural(stream.steps, "step")


def total_text(report: Report) -> str:
    """Data of all streams: `5.78 MB`, or `at least 320 kB (not known of field)` where some were not counted."""
    total = sum(stream.bytes or 0 for stream in report.streams)
    known = size(total)
    uncounted = [stream.name for stream in report.streams if stream.bytes is None and stream.steps != 0]
    partial = any(stream.bytes_are == "at_least" for stream in report.streams)
    if not uncounted:
        return f"at least {known}" if partial else known
    names = ", ".join(uncounted[:MOST_LISTED]) + (" and others" if len(uncounted) > MOST_LISTED else "")
    return f"at least {known} (not known of {names})" if total else f"size not known of {names}"


def limit_lines(report: Report) -> list[str]:
    """How sure it is what limited the run; why it is not known of the run and its streams."""
    run = report.run
    lines = [f"the run was limited by {run.limited_by}: {run.limit_evidence}"] if run.limit_evidence else []
    lines += [f"what limited the run is not known: {run.limit_unknown}"] if run.limit_unknown else []
    same = run.limit_unknown
    return lines + [
        f"what limited stream {stream.name} is not known: {stream.limit_unknown}"
        for stream in report.streams
        if stream.limit_unknown not in ("", same)
    ]


def note_lines(tags: Sequence[str], notes: Sequence[RunNote]) -> list[str]:
    """The tags, and what people have noted on a run."""
    first = [f"tags: {', '.join(tags)}"] if tags else []
    return first + [f"note of {moment(note.t)} by {note.user}: {note.text}" for note in notes]


def fault_text(report: Report) -> str:
    """Why the run did not succeed, with the stage that caused it; empty when it did."""
    run = report.run
    if run.state == "succeeded" or not run.reason:
        return ""
    return f"stage {run.stage}: {run.reason}" if run.stage and run.stage not in run.reason else run.reason


def fault_messages(report: Report) -> list[Problem]:
    """Why the run did not succeed: an error, unless somebody ended it."""
    level: Severity = "error" if report.run.state in ("failed", "lost") else "note"
    return [to_message(level, text)] if (text := fault_text(report)) else []


def last_lines(report: Report) -> list[tuple[str, str]]:
    """The last error output of the stages of a run that did not succeed: lines with their styles."""
    lines = []
    for stage in report.stages:
        last = [line for line in stage.last_lines if not _repeats(line, report.run.reason)]
        if last:
            lines.append((f"  last lines of stages/{stage.name}/stderr.log:", ""))
            lines += [(f"    {line}", "dim") for line in last]
    return lines


def compression_lines(report: Report) -> list[str]:
    """How much smaller the compressed streams are on disk, and the largest error of each variable, by reader."""
    lines = []
    for stream in report.streams:
        if stream.stored and stream.bytes:
            share = percent(stream.stored / stream.bytes)
            lines.append(f"{stream.name}: stored {size(stream.stored)} of {size(stream.bytes)} ({share})")
        lines += [
            f"{stream.name} → {reader.stage}: {accuracy_text(each)}"
            for reader in stream.readers
            for each in reader.accuracy
        ]
        lines += [f"{stream.name}: {name}: not checked, because no stage read it" for name in stream.unread]
    return lines


def accuracy_text(accuracy: AccuracyPart) -> str:
    """`density: zfp, largest error 0.00029 ≤ 0.001 (4096 values of 4 steps)`."""
    head = f"{accuracy.variable}: {accuracy.operator}"
    if not accuracy.compared:
        return f"{head}, nothing compared"
    values = f"({accuracy.compared} values of {plural(accuracy.steps, 'step')})"
    if accuracy.bound == accuracy.largest == 0:
        return f"{head}, every bit arrived {values}"
    if accuracy.largest is None:
        return f"{head}, infinite error > {accuracy.bound:g} {values}"
    sign = "≤" if accuracy.largest <= accuracy.bound else ">"
    return f"{head}, largest error {accuracy.largest:.2g} {sign} {accuracy.bound:g} {values}"


def result_paths(run_dir: Path) -> list[Path]:
    """The report page and the directory of pictures, where they exist."""
    pictures = run_dir / "pictures"
    found = [pictures] if any(path.is_file() for path in pictures.rglob("*")) else []
    return [path for path in (run_dir / "report.html",) if path.exists()] + found


def _repeats(line: str, reason: str) -> bool:
    """Whether the reason already holds this line: as it is, or without the name of the error or of the stage."""
    texts = (line.strip(), line.partition(": ")[2].strip())
    return any(len(each) >= SHORTEST_REPEAT and each in reason for each in texts)
