"""Whether anybody still works on a run."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

from workflow.report.report_model import Report, StagePart
from workflow.run.events import EVENTS_FILE

# The supervisor writes run_started within this time of its own start; a process that is younger is another
# one that was given the same number.
SLACK_S = 5.0
# Longer than any event.
TAIL = 65536


def settle(report: Report) -> Report:
    """Say of an unfinished run whether its supervisor is alive (`running`) or gone (`died`).

    Of a run on another host nothing can be said: it stays `unfinished`.
    """
    run = report.run
    if run.state != "unfinished" or run.pid is None or run.started is None:
        return report
    if run.host not in ("", socket.gethostname()):
        reason = f"no verdict yet; its supervisor is process {run.pid} on {run.host}"
        return _with_run(report, "unfinished", reason)
    if is_alive(run.pid, run.started):
        return _with_run(report, "running", "")
    stages = [_bereft(stage) for stage in report.stages]
    left = ", ".join(f"{stage.name} (process {stage.pid})" for stage in stages if stage.state == "running")
    reason = f"the supervisor (process {run.pid}) is gone and left no verdict" + (
        f"; still running: {left}" if left else ""
    )
    return _with_run(report.model_copy(update={"stages": stages}), "died", reason)


def is_over(run_dir: Path) -> bool:
    """Whether nobody works on a run any more; by its first and last event alone, so cheap enough to ask often.

    A run that never started is over, one of another host only with its verdict.
    """
    try:
        with (run_dir / EVENTS_FILE).open("rb") as file:
            first = file.readline()
            file.seek(max(0, file.seek(0, 2) - TAIL))
            last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
    except OSError:
        return True
    try:
        if json.loads(last).get("event") == "run_finished":
            return True
    except ValueError:
        pass  # being written
    try:
        begin = json.loads(first)
        pid, host, t = int(begin["pid"]), str(begin["host"]), float(begin["t"])
    except (ValueError, KeyError):
        return False  # the supervisor has only begun
    return host in ("", socket.gethostname()) and not is_alive(pid, t)


def is_alive(pid: int, not_after: float) -> bool:
    """Does this process run, and is it the one that was alive at that Unix time?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # alive, of another user
    try:
        # Field 2 is the command in parentheses and may hold anything; what follows the last one is plain.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        lines = Path("/proc/stat").read_text().splitlines()
        boot = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, StopIteration, ValueError):
        return True  # no /proc on this system: the number is all there is
    born = boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return fields[0] != "Z" and born <= not_after + SLACK_S


def _bereft(stage: StagePart) -> StagePart:
    """A stage whose supervisor is gone: its process may have outlived it."""
    if stage.state not in ("starting", "running", "stopping"):
        return stage
    alive = stage.ended is None and stage.pid and stage.started and is_alive(stage.pid, stage.started)
    return stage.model_copy(update={"state": "running" if alive else "ended"})


def _with_run(report: Report, state: str, reason: str) -> Report:
    run = report.run.model_copy(update={"state": state, "reason": reason or report.run.reason})
    return report.model_copy(update={"run": run})
