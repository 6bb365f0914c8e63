"""Which runs `wf clean` may remove, and why the others stay.

Only a run with a verdict is removed, when nobody works on it any more, and never a repetition of a campaign.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from workflow.formatting import duration
from workflow.report.read.run_states import list_runs
from workflow.report.report_model import RunLine, RunVerdict
from workflow.run.control.lease import may_be_written
from workflow.run.records.attached_runs import attached_runs
from workflow.run.records.find_runs import linking_runs
from workflow.run.records.run_directory import ATTACHED, PLAN_FILE
from workflow.run.records.run_removal import RunContents, find_inside, look_into

ENDED: tuple[RunVerdict, ...] = ("succeeded", "failed", "interrupted", "stopped")
"""The states of runs that have a verdict."""
# Of the others, by state.
_NOT_ENDED: dict[RunVerdict, str] = {
    "running": "it is running; `wf cancel {name}` ends it",
    "submitted": "its job has not started; `wf cancel {name}` cancels it",
    "lost": "processes of it may be left; `wf cancel {name}` ends them",
    "unfinished": "it was never started, or it is just starting; `wf cancel {name}` gives it a verdict",
}


@dataclass(frozen=True)
class FoundRun:
    """A run as it was found. `must_stay`: why it cannot be removed; empty: it can. `ended`: Unix seconds."""

    directory: Path
    line: RunLine
    contents: RunContents | None
    ended: float | None
    must_stay: str

    @property
    def size(self) -> int:
        """Bytes on disk; 0 where they cannot be counted."""
        return self.contents.size if self.contents is not None else 0


@dataclass(frozen=True)
class Criteria:
    """Which of the runs that can be removed are meant: not the newest `keep`, and so old, and in these states."""

    keep: int
    older_than_s: float = 0.0
    states: Collection[RunVerdict] = ENDED


def find_runs(run_dirs: Sequence[Path], campaign_file: str) -> list[FoundRun]:
    """These runs, in this order. Takes up to ten seconds where a supervisor on another host may be dead.

    Args:
        campaign_file: a folder that has it is that of a campaign; its repetitions are below `runs/`.
    """
    return [_find(run_dir, line, campaign_file) for run_dir, line in zip(run_dirs, list_runs(run_dirs), strict=True)]


def _find(run_dir: Path, line: RunLine, campaign_file: str) -> FoundRun:
    contents = look_into(run_dir)
    ended = None if line.started is None or line.wall_s is None else line.started + line.wall_s
    if run_dir.is_symlink():
        stays = "it is a link to a run elsewhere"
    elif (run_dir.resolve().parent.parent / campaign_file).exists():
        stays = "it is a repetition of a campaign"
    elif line.state not in ENDED:
        stays = _NOT_ENDED[line.state].format(name=run_dir.name)
    elif may_be_written(run_dir):
        stays = "its supervisor may still write the report"
    elif linking := linking_runs(run_dir):
        path, record = linking[-1]
        verb = "goes on with it" if record.number > 1 else "re-uses it"
        stays = f"{path.name} {verb}, and has links to its data"
    elif contents is None:
        stays = "not all of it can be read"
    else:
        stays = _used_inside(run_dir, campaign_file)
    return FoundRun(run_dir, line, contents, ended, stays)


def _used_inside(run_dir: Path, campaign_file: str) -> str:
    """Why a run that has ended is still in use: by what is in its directory. Empty: it is not."""
    if Path.cwd().is_relative_to(run_dir.resolve()):
        return "the working directory is in it; `cd` to another one first"
    # What was attached to it goes with it.
    if joined := [line.name for line in list_runs(attached_runs(run_dir)) if line.state == "running"]:
        return f"{joined[0]} is attached to it: wf detach {run_dir.name} {joined[0]}"
    try:
        inside = find_inside(run_dir, (PLAN_FILE, campaign_file), without=ATTACHED)
    except OSError:
        return "not all of it can be read"
    return f"it has other runs in it: {inside}" if inside is not None else ""


def why_they_stay(runs: Sequence[FoundRun], criteria: Criteria, now: float) -> list[str]:
    """Of each run, the newest first, why it stays; empty: it is to be removed. Pure. `now`: Unix seconds."""
    return [run.must_stay or _unwanted(run, place, criteria, now) for place, run in enumerate(runs)]


def _unwanted(run: FoundRun, place: int, criteria: Criteria, now: float) -> str:
    if place < criteria.keep:
        return "the newest" if criteria.keep == 1 else f"among the newest {criteria.keep}"
    if run.line.state not in criteria.states:
        return f"state {run.line.state}"
    if criteria.older_than_s and (run.ended is None or now - run.ended < criteria.older_than_s):
        return f"ended less than {duration(criteria.older_than_s)} ago"
    return ""
