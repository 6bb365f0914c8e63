"""A run in a few lines of text. Pure, but for looking whether there are pictures."""

from __future__ import annotations

from pathlib import Path

from workflow.formatting import duration, percent, plural, size
from workflow.report.report_model import Report

# Shorter lines may be part of any reason.
LEAST = 10


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


def fault(report: Report) -> list[tuple[str, str]]:
    """Why a run did not succeed, as lines with their styles."""
    run, lines = report.run, []
    if run.state != "succeeded" and run.reason:
        who = f"stage {run.stage}: " if run.stage and run.stage not in run.reason else ""
        lines.append((f"  {who}{run.reason}", "bold"))
    for stage in report.stages:
        last = [line for line in stage.last_lines if not _repeats(line, run.reason)]
        if last:
            lines.append((f"  last lines of stages/{stage.name}/stderr.log:", ""))
            lines += [(f"    {line}", "dim") for line in last]
    return lines


def places(run_dir: Path) -> list[Path]:
    """Where to look at the results of a run: what is there of its page and its pictures."""
    pictures = run_dir / "pictures"
    found = [pictures] if any(path.is_file() for path in pictures.rglob("*")) else []
    return [path for path in (run_dir / "report.html",) if path.exists()] + found


def _repeats(line: str, reason: str) -> bool:
    """Whether a line says what the reason said: as it is, or after the name of the error or of the stage."""
    said = (line.strip(), line.partition(": ")[2].strip())
    return any(len(each) >= LEAST and each in reason for each in said)
