"""The attempts that a killed campaign has left: reads their outcome from their run directories.

A run that ended is taken into the ledger as it is. One that still runs belongs to a worker whose campaign is dead, and
is ended, because nobody knows any more which nodes it uses; one that is a batch job of its own goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workflow.campaign.campaign_directory import RUNS_FOLDER
from workflow.campaign.execution.repetition import StartedAttempt, ended_attempt
from workflow.campaign.ledger import Attempt, History, OpenAttempt, Repetition
from workflow.errors import EXIT_INTERRUPTED, RunError
from workflow.formats.lease_file import DEAD_S
from workflow.run.control.cancellation import REACTION_S
from workflow.run.control.lease import Liveness, examine_leases
from workflow.run.control.missing_verdict import write_missing_verdict
from workflow.run.processes.process_reaper import end_members
from workflow.run.records.control_requests import send_request
from workflow.run.records.events_file import read_start_and_verdict
from workflow.run.records.job_record import read_job
from workflow.run.records.run_directory import PLAN_FILE, read_filled_plan

_PAUSE_S = 0.1
NEVER_BEGAN = "the campaign was killed before this run began"


@dataclass(frozen=True)
class LeftAttempt:
    """An attempt without an end in the ledger; `goes_on`: as a batch job of its own."""

    repetition: Repetition
    start: StartedAttempt
    goes_on: bool = False


def left_attempts(history: History, directory: Path) -> list[LeftAttempt]:
    """Attempts whose end is not recorded. Reads nothing but the plans of their runs."""
    return [
        LeftAttempt(repetition, _start(directory / RUNS_FOLDER / attempt.run, attempt))
        for (repetition, _), attempt in history.open.items()
    ]


def adopt(left: list[LeftAttempt]) -> Iterator[tuple[LeftAttempt, Attempt | None]]:
    """How each attempt ended; None for one that goes on. Those that run on, and should not, are ended: all at once.

    Raises RunError in the end, for those that did not end, or whose verdict cannot be written; they are left out.
    """
    open_runs = [
        each for each in left if _has_plan(each) and read_start_and_verdict(each.start.run_dir).finished is None
    ]
    leases = examine_leases([each.start.run_dir for each in open_runs], DEAD_S)
    goes_on = []
    for each, lives in zip(open_runs, leases, strict=True):
        if read_job(each.start.run_dir) is not None and (lives.alive or lives.lease is None):
            goes_on.append(each)
        elif lives.alive:
            send_request(each.start.run_dir, "stop")
    begin, stubborn = time.monotonic(), dict[Path, RunError]()
    for each, lives in zip(open_runs, leases, strict=True):
        if each not in goes_on:
            try:
                _end_run(each.start.run_dir, lives, begin)
            except RunError as error:
                stubborn[each.start.run_dir] = error
    for each in left:
        if each.start.run_dir in stubborn:
            continue
        if each in goes_on:
            yield each, None
        elif not _has_plan(each):
            yield each, _never_began(each.start)
        else:
            yield each, ended_attempt(each.start)
    if stubborn:
        texts = "; ".join(str(error) for error in stubborn.values())
        raise RunError(texts, f"wf cancel --now {next(iter(stubborn))}")


def _end_run(run_dir: Path, lives: Liveness, begin: float) -> None:
    """`begin`: when it was asked to stop, if it lives."""
    if lives.alive:
        lives = _await_end(run_dir, begin + read_filled_plan(run_dir).deadlines.stop + REACTION_S)
    if read_start_and_verdict(run_dir).finished is not None:
        return
    if lives.lease is not None:
        end_members(lives.lease.run_dir)
    why = "its campaign was killed" + (f", and {lives.text}" if lives.lease is not None else " before it started")
    try:
        write_missing_verdict(run_dir, lives, "interrupted", EXIT_INTERRUPTED, why)
    except OSError as error:
        raise RunError(f"cannot write the verdict of {run_dir}: {error.strerror}") from error


def _await_end(run_dir: Path, deadline: float) -> Liveness:
    """Wait for the end of a run that was asked to stop. Raises RunError when it does not come."""
    while read_start_and_verdict(run_dir).finished is None:
        if time.monotonic() > deadline:
            break
        time.sleep(_PAUSE_S)
    (lives,) = examine_leases([run_dir], DEAD_S)
    if lives.alive and lives.lease is not None and read_start_and_verdict(run_dir).finished is None:
        where = f"its supervisor on {lives.lease.host} (process {lives.lease.pid})"
        what = lives.silence_text or f"{where} has not stopped it"
        text = f"{run_dir.name} was left by a killed campaign, and {what}"
        raise RunError(text, f"wf cancel --now {run_dir}")
    return lives


def _start(run_dir: Path, attempt: OpenAttempt) -> StartedAttempt:
    nodes = read_filled_plan(run_dir).nodes if (run_dir / PLAN_FILE).exists() else 1
    return StartedAttempt(run_dir, attempt.attempt, nodes, attempt.t, attempt.place)


def _has_plan(each: LeftAttempt) -> bool:
    return (each.start.run_dir / PLAN_FILE).exists()


def _never_began(start: StartedAttempt) -> Attempt:
    return Attempt("interrupted", start.number, start.run_dir.name, start.t, 0.0, start.nodes, reason=NEVER_BEGAN)
