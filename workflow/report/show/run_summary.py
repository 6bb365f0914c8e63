"""A run in a few lines of text. Pure, except that `result_paths` checks which files exist."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from workflow.errors import Problem, Severity, to_message
from workflow.formatting import duration, percent, plural, size

if TYPE_CHECKING:
    from workflow.report.report_model import AccuracyPart, Report

# A shorter line may be part of any reason by chance.
SHORTEST_REPEAT = 10


def summary(report: Report) -> str:
    """How long, how much, and what limited it, in one line."""
    run = report.run
    parts = [duration(run.wall_s)]
    if report.streams:
        steps, volume = sum(each.steps or 0 for each in report.streams), sum(each.bytes or 0 for each in report.streams)
        parts.append(f"{plural(steps, 'step')}, {size(volume)} through {plural(len(report.streams), 'stream')}")
    if run.limited_by:
        parts.append(f"limited by {run.limited_by}" + (f", overlap {percent(run.overlap)}" if run.overlap else ""))
    return ", ".join(parts)


def fault_text(report: Report) -> str:
    """Why the run did not succeed, with the stage that caused it; empty when it did."""
    run = report.run
    if run.state == "succeeded" or not run.reason:
        return ""
    return f"stage {run.stage}: {run.reason}" if run.stage and run.stage not in run.reason else run.reason


def fault_messages(report: Report) -> list[Problem]:
    """Why the run did not succeed: an error, unless somebody ended it."""
    level: Severity = "error" if report.run.state in ("failed", "died") else "note"
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
