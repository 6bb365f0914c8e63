"""Whether runs go on, wait for a job, are lost, or have ended and met their expectations.

For the report of one run, and for lists of runs.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from workflow.errors import WfError
from workflow.formats.read_json import read_json
from workflow.formats.run_clock import run_time
from workflow.formats.stage_file import STAGE_FILE, read_stage_file
from workflow.formatting import duration
from workflow.replace_file import replace_file
from workflow.report.report_model import ExpectationPart, Report, RunLine, RunPart, RunVerdict, StagePart
from workflow.run.chain import NextPart, next_part_text
from workflow.run.control.lease import Liveness, examine_leases
from workflow.run.part_record import read_part
from workflow.run.processes.process_reaper import born_ticks
from workflow.run.records.attached_runs import attached_runs, attached_to
from workflow.run.records.events_file import StartAndVerdict, read_start_and_verdict
from workflow.run.records.find_runs import following_part, following_parts, known_next_part
from workflow.run.records.job_record import JobRecord, job_of_allocation, read_job
from workflow.run.records.run_directory import PLAN_FILE, RUNS, attempts
from workflow.run.records.run_notes import read_notes
from workflow.run.state.lifecycle_events import RunFinished


def list_named_runs(run_dirs: Sequence[Path]) -> list[RunLine]:
    """As `list_runs`; runs that are not below `runs/` are called by their paths, as the other verbs take them."""
    lines = zip(run_dirs, list_runs(run_dirs), strict=True)
    return [line if run.parent == Path(RUNS) else line.model_copy(update={"name": str(run)}) for run, line in lines]


def tagged_runs(run_dirs: Sequence[Path], tags: Sequence[str]) -> list[Path]:
    """Those of these runs that have all these tags."""
    return [run_dir for run_dir in run_dirs if set(tags) <= set(read_notes(run_dir).tags)] if tags else list(run_dirs)


def list_runs(run_dirs: Sequence[Path]) -> list[RunLine]:
    """These runs, in this order. Takes up to ten seconds where a supervisor on another host may be dead."""
    briefs = [read_start_and_verdict(run_dir) for run_dir in run_dirs]
    open_runs = [run_dir for run_dir, brief in zip(run_dirs, briefs, strict=True) if brief.finished is None]
    lives = dict(zip(open_runs, examine_leases(open_runs), strict=True))
    # One whose supervisor does not live may have ended since its events were read.
    again = {run_dir: read_start_and_verdict(run_dir) for run_dir, its in lives.items() if not its.alive}
    following = following_parts(run_dirs)
    return [
        _to_line(run_dir, again.get(run_dir, brief), lives.get(run_dir), following.get(run_dir.resolve()))
        for run_dir, brief in zip(run_dirs, briefs, strict=True)
    ]


def _to_line(run_dir: Path, brief: StartAndVerdict, lives: Liveness | None, following: Path | None) -> RunLine:
    begin, end = brief.started, brief.finished
    started = begin.t if begin else None
    job = read_job(run_dir)
    state: RunVerdict
    if end is not None:
        state, reason = end.state, end.reason
    elif lives is None or lives.lease is None:
        state, reason = ("unfinished", "") if job is None else ("submitted", f"{job.text} has not started")
    else:
        state, reason = ("running", lives.silence_text) if lives.alive else ("lost", lives.text)
    host = begin.host if begin else lives.lease.host if lives and lives.lease else ""
    # The last event of a run that goes on may be of long ago.
    last = run_time(run_dir) if state == "running" else brief.t
    wall_s = max(0.0, last - started) if started is not None and last is not None else None
    notes, part = read_notes(run_dir), read_part(run_dir)
    planned = _planned(run_dir)
    before = "" if part is None else Path(part.run).name
    begun = _later_attempts(run_dir)
    return RunLine(
        name=run_dir.name,
        state=state,
        lacks=_lacks(run_dir, end),
        violated=_count_violated(run_dir) if state == "succeeded" else 0,
        reason=reason,
        started=started,
        wall_s=wall_s,
        host=host,
        site=planned.site,
        part=1 if part is None else part.number,
        parts=1 if job is None else planned.parts,
        job=_job_text(run_dir, job, brief),
        tags=notes.tags,
        note=notes.with_text[-1].text if notes.with_text else "",
        goes_on_with=before if part is not None and part.number > 1 else "",
        next_part="" if following is None else following.name,
        reused_from=before if part is not None and part.number == 1 else "",
        restarts={name: len(folders) for name, folders in begun.items()},
        skipped=planned.skipped | {name: steps for name, folders in begun.items() if (steps := _skipped(folders[-1]))},
    )


def _later_attempts(run_dir: Path) -> dict[str, list[Path]]:
    """Stage → the folders of its attempts but the first one, of those that were started again. The events say the same,
    but are long."""
    names = sorted({path.parent.name for path in run_dir.glob("stages/*/attempt-*")})
    return {name: attempts(run_dir, name)[1:] for name in names}


def _skipped(attempt: Path) -> list[int]:
    """The steps that an attempt of a stage skips."""
    try:
        ends = read_stage_file(attempt / STAGE_FILE).ends
    except (OSError, ValueError):
        return []
    return sorted({step for end in ends for step in end.skipped})


def _job_text(run_dir: Path, job: JobRecord | None, brief: StartAndVerdict) -> str:
    if job is None:
        return job_of_allocation(run_dir)
    # The verdict of a submission that the scheduler has refused: no job of that name exists.
    refused = not job.job and brief.started is None and brief.finished is not None and brief.finished.state == "failed"
    return "not submitted" if refused else job.text


def _lacks(run_dir: Path, end: RunFinished | None) -> str:
    """What a run that succeeded has lost, and that nobody knows any more whether it kept what was expected."""
    if end is None or end.state != "succeeded":
        return ""
    unknown = (run_dir / EXPECTATIONS_FILE).exists() and read_expectations(run_dir) is None
    return ", ".join(filter(None, (end.lacks, f"{EXPECTATIONS_FILE} cannot be read" if unknown else "")))


def _count_violated(run_dir: Path) -> int:
    """As found when the run ended; 0 where nothing is expected, or nothing was kept."""
    return sum(each.is_violated for each in read_expectations(run_dir) or ())


class _Planned(NamedTuple):
    """The site of a run's plan, how many parts it may have, and the steps that stages have skipped in earlier parts."""

    site: str
    parts: int
    skipped: dict[str, list[int]]


def _planned(run_dir: Path) -> _Planned:
    """Whatever the version of that plan; nothing where it cannot be read."""
    try:
        plan = read_json((run_dir / PLAN_FILE).read_bytes())
        skipped = {str(name): [*map(int, steps)] for name, steps in (plan.get("part") or {}).get("skipped", {}).items()}
        return _Planned(str(plan.get("site", "")), int((plan.get("allocation") or {}).get("parts", 1)), skipped)
    except (OSError, ValueError, TypeError, AttributeError):
        return _Planned("", 1, {})


# Of what was attached to a run and has left it, so many are listed.
MOST_ATTACHED = 3
# The event of a start is written within this time of it; a process that is younger is another one that was given the
# same number.
SLACK_S = 5.0


def with_verdict(report: Report, run_dir: Path) -> Report:
    """Say of an unfinished run whether its supervisor lives (`running`) or is dead (`lost`).

    Takes up to ten seconds for a supervisor on another host. Nothing is said of a run that nobody has started.
    """
    job = read_job(run_dir)
    of_job = {"parts": 1} if job is None else {"job": job.text}
    report = report.model_copy(update={"run": report.run.model_copy(update=of_job)})
    if report.run.state != "unfinished":
        return report
    (lives,) = examine_leases([run_dir])
    if lives.lease is None:
        return report if job is None else _with_run(report, "submitted", f"{job.text} has not started")
    if lives.alive:
        return _with_run(report, "running", lives.silence_text)
    stages = [_bereft(stage, lives) for stage in report.stages]
    left = ", ".join(f"{stage.name} (process {stage.pid})" for stage in stages if stage.state == "running")
    reason = lives.text + (f"; still running: {left}" if left else "")
    if job is None and (received := job_of_allocation(run_dir)):
        reason += f"; {received} may hold its nodes until its time limit: end it if you do not need it"
    return _with_run(report.model_copy(update={"stages": stages}), "lost", reason)


def with_related_runs(report: Report, run_dir: Path) -> Report:
    """Say of a run which one goes on with it, or why none does, and what is or was attached to it; of one that has not
    succeeded whether `wf resume` can, with the pipeline as it was. What was said before does not count: a part may
    have been made since."""
    run = report.run
    has_ended = run.state in ("failed", "interrupted", "stopped", "lost")
    has_done = run.part > 1 or any(
        stage.steps_in or stage.steps_out or stage.state == "succeeded" for stage in report.stages
    )
    record = known_next_part(run_dir)
    is_attached = attached_to(run_dir) is not None  # what it joined does not come again
    may_go_on = has_ended and has_done and not is_attached and following_part(run_dir) is None
    found = {
        "resumable": may_go_on and _has_kept_some(run_dir),
        "next_part": "" if record is None or record.state == "none" else Path(record.run).name,
        "next_part_reason": "" if record is None else record.reason,
    }
    now, attached = run.model_copy(update=found), list_runs(attached_runs(run_dir))
    said = {*next_part_notes(run), *attached_notes(report)}
    report = report.model_copy(update={"run": now, "attached": attached})
    notes = [*attached_notes(report), *next_part_notes(now), *(note for note in report.notes if note not in said)]
    return report.model_copy(update={"notes": notes})


def _has_kept_some(run_dir: Path) -> bool:
    """Whether some stage need not begin with its first step again, as `wf resume` decides it."""
    from workflow.run.cut import find_cut
    from workflow.run.reached import held_files, how_far, kept_streams, unused_states
    from workflow.run.records.events_file import read_events
    from workflow.run.records.run_directory import read_filled_plan, read_plan_file
    from workflow.run.state.reducer import fold
    from workflow.run.state.run_state import initial_state

    try:
        before, now = read_filled_plan(run_dir), read_plan_file(run_dir)
        state = fold(initial_state(before), tuple(read_events(run_dir)))
        held = held_files(run_dir, before, now)
        reached = how_far(run_dir, before, now, state, held, unused_states(before, state))
        return not find_cut(now, state, reached, kept_streams(now, state, held)).is_empty
    except (WfError, OSError):
        return False  # nor can `wf resume` read it


def attached_notes(report: Report) -> list[str]:
    """What is attached to a run, and when it has joined; of what has left the newest ones, and how they ended."""
    running = [each for each in report.attached if each.state == "running"]
    ended = [each for each in report.attached if each.state != "running"]
    left_out = max(0, len(ended) - MOST_ATTACHED)
    more = [f"{left_out} more were attached before: attached/ in its directory has them"] if left_out else []
    begin = report.run.started
    return [
        *(f"{each.name} is attached, since {_since(each, begin)}" for each in running),
        *more,
        *(f"{each.name} was attached at {_since(each, begin)}, {_how_ended(each)}" for each in ended[left_out:]),
    ]


def _since(run: RunLine, begin: float | None) -> str:
    return "its start" if run.started is None or begin is None else duration(max(0.0, run.started - begin))


def _how_ended(run: RunLine) -> str:
    lasted = "" if run.wall_s is None else f" after {duration(run.wall_s)}"
    if run.state == "interrupted":
        return f"detached{lasted}"
    lacks = f", {run.lacks}" if run.lacks else ""
    return f"{run.state}{lasted}{lacks}" + (f": {run.reason}" if run.reason else "")


def next_part_notes(run: RunPart) -> list[str]:
    """Which run goes on with this one, or why none does where one was to."""
    if not run.next_part and not run.next_part_reason:
        return []
    record = NextPart("submitted" if run.next_part else "none", run.next_part, run.next_part_reason)
    return [next_part_text(run.directory, record)]


def is_over(run_dir: Path, lives: Liveness) -> bool:
    """Whether nobody works on a run any more; cheap enough to ask often. A run that never started is over, unless its
    job waits."""
    if lives.alive or (lives.lease is None and read_job(run_dir) is not None):
        return read_start_and_verdict(run_dir).finished is not None
    return True


def is_alive(pid: int, not_after: float) -> bool:
    """Does this process run, and is it the one that was alive at that Unix time?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # alive, of another user
    born, boot = born_ticks(pid), _boot_time()
    if born is None or boot is None:
        return True  # the number is all that is known of it
    return born > 0 and boot + born / os.sysconf("SC_CLK_TCK") <= not_after + SLACK_S


def _boot_time() -> float | None:
    """When this machine was started, in Unix seconds; None where there is no /proc."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, StopIteration, ValueError):
        return None


def _bereft(stage: StagePart, lives: Liveness) -> StagePart:
    """A stage whose supervisor is dead: its process may have outlived it."""
    if stage.state not in ("starting", "running", "stopping"):
        return stage
    here = lives.is_here and stage.ended is None and stage.pid and stage.started
    alive = here and is_alive(stage.pid or 0, stage.started or 0.0)
    return stage.model_copy(update={"state": "running" if alive else "ended"})


def _with_run(report: Report, state: RunVerdict, reason: str) -> Report:
    run = report.run.model_copy(update={"state": state, "reason": reason or report.run.reason})
    return report.model_copy(update={"run": run})


EXPECTATIONS_FILE = "expectations.json"


class ExpectationsKept(BaseModel):
    """Whether a run met its expectations, as found when it ended: `expectations.json` in its directory.

    It is stored because it could not be determined again later: data may be removed, and another host may see records
    late.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    expectations_version: Literal[1] = 1
    expectations: list[ExpectationPart]


def read_expectations(run_dir: Path) -> list[ExpectationPart] | None:
    """None where nothing was kept, or where it cannot be read: the report then finds it out anew."""
    try:
        return ExpectationsKept.model_validate(read_json((run_dir / EXPECTATIONS_FILE).read_bytes())).expectations
    except (OSError, ValueError):
        return None


def keep_expectations(run_dir: Path, report: Report) -> None:
    """Keep what a run that has succeeded measured; to be called by the process that has supervised it.

    A full disk changes no verdict.
    """
    path = run_dir / EXPECTATIONS_FILE
    if not report.expectations or report.run.state != "succeeded" or path.exists():
        return
    text = ExpectationsKept(expectations=report.expectations).model_dump_json(indent=2) + "\n"
    with contextlib.suppress(OSError):
        replace_file(path, text.encode())
