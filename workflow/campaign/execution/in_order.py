"""Runs the repetitions of a campaign on this machine, one after the other: nothing else disturbs what is measured.

All run in this process: what a supervisor imports is imported once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from workflow.campaign.campaign_directory import RUNS_FOLDER
from workflow.campaign.file.figures import figures_of
from workflow.campaign.file.trials import Repetition, make_schedule
from workflow.campaign.ledger import Attempt, History, Ledger, RepetitionId, RunEnd
from workflow.campaign.planning.planned_trials import PlannedCampaign, ReadyTrial
from workflow.launch.allocation import Allocation
from workflow.report.report_files import compute_report
from workflow.run.run_directory import STREAMS, create_run_dir
from workflow.run.supervisor import supervise


@dataclass(frozen=True)
class EndedRepetition:
    """An attempt has ended; `done` counts those that need no further one."""

    done: int
    total: int
    trial: ReadyTrial
    repetition: Repetition
    attempt: Attempt
    left_s: float
    """Estimate for those that remain, from those that ran."""


@dataclass(frozen=True)
class Workplace:
    """Where a campaign runs, and what it has."""

    directory: Path
    allocation: Allocation
    ledger: Ledger
    command: Mapping[str, object]
    """How it was started: kept in each run directory."""


def repetitions(planned: PlannedCampaign) -> list[tuple[Repetition, ReadyTrial]]:
    """All repetitions in the order in which they run."""
    spec = planned.spec
    schedule = make_schedule(len(planned.ready), spec.repetitions, spec.warmup, spec.order)
    return [(each, planned.ready[each.trial]) for each in schedule]


def remaining(
    planned: PlannedCampaign, history: History, only_failed: bool = False
) -> list[tuple[RepetitionId, Repetition, ReadyTrial]]:
    """The repetitions that are not finished: neither succeeded nor failed as often as they may.

    `only_failed`: those that failed, whatever the number of their attempts.
    """
    left = []
    for repetition, trial in repetitions(planned):
        identity = RepetitionId(trial.key, repetition.number, repetition.warmup)
        failures = history.failures.get(identity, 0)
        wanted = failures > 0 if only_failed else failures <= planned.spec.retries
        if wanted and not history.succeeded(identity):
            left.append((identity, repetition, trial))
    return left


def execute(
    planned: PlannedCampaign, place: Workplace, only_failed: bool = False
) -> Generator[EndedRepetition, None, None]:
    """Run what is not finished, and tell of each attempt that ended.

    It stops after an attempt that was interrupted, and before one for which the budget is not enough.
    """
    history, retries = place.ledger.history, planned.spec.retries
    todo = remaining(planned, history, only_failed)
    total = len(repetitions(planned))
    done = total - len(todo)
    times: list[float] = []
    for position, (identity, repetition, trial) in enumerate(todo):
        attempts = retries + 1 - (0 if only_failed else history.failures.get(identity, 0))
        for number in range(1, attempts + 1):
            if is_spent(planned, history, trial.nodes):
                return
            attempt = _run(identity, trial, place)
            times.append(attempt.wall_s)
            final = attempt.state == "succeeded" or number == attempts
            done += final
            left = len(todo) - position - final
            yield EndedRepetition(done, total, trial, repetition, attempt, left * sum(times) / len(times))
            if attempt.state == "interrupted":
                return
            if attempt.state == "succeeded":
                break
        if planned.spec.keep == "records" and attempt.state == "succeeded":
            remove_data(place.directory / RUNS_FOLDER / attempt.run)


def is_spent(planned: PlannedCampaign, history: History, nodes: int) -> bool:
    """Whether the next repetition would exceed the budget, if it takes as long as expected."""
    budget, expected = planned.spec.budget, planned.spec.expected or 0.0
    if budget.time is not None and history.spent_s + expected > budget.time:
        return True
    return budget.node_hours is not None and history.spent_node_s + expected * nodes > budget.node_hours * 3600


def _run(identity: RepetitionId, trial: ReadyTrial, place: Workplace) -> Attempt:
    """One run from its directory to its figures, with its two lines in the ledger."""
    number = place.ledger.history.begin(identity)
    name = identity.name if number == 1 else f"{identity.name}-a{number}"
    run_dir = place.directory / RUNS_FOLDER / name
    started, clock, load = time.time(), time.monotonic(), os.getloadavg()[0]
    place.ledger.begin(identity, name, number, started)
    create_run_dir(trial.plan, trial.loaded, run_dir, command=place.command, latest=False)
    with contextlib.closing(supervise(run_dir, place.allocation)) as states:
        for _ in states:
            pass
    report = compute_report(run_dir)
    state: RunEnd = "interrupted"
    if report.run.state in ("succeeded", "failed"):
        state = "succeeded" if report.run.state == "succeeded" else "failed"
    attempt = Attempt(
        state=state,
        attempt=number,
        run=name,
        started=round(started, 3),
        wall_s=round(time.monotonic() - clock, 6),
        nodes=trial.nodes,
        load=round(load, 2),
        reason=report.run.reason,
        figures=figures_of(report),
    )
    place.ledger.end(identity, attempt)
    return attempt


_RECORDS = {
    "plan.json", "pipeline.yaml", "command.json", "allocation.json", "events.jsonl", "proof.json", "lease.json",
    "job.json", "control.jsonl", "forecast.json", "report.json", "report.html", "stages", "launches", STREAMS,
}  # fmt: skip


def remove_data(run_dir: Path) -> None:
    """Remove what the stages of a run wrote; wf's records and the logs stay, and with them the report."""
    for path in _data(run_dir):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _data(run_dir: Path) -> Iterator[Path]:
    """Files and directories that are no records; empty directories stay: removing them would take longer."""
    for folder in (run_dir / STREAMS, *run_dir.glob("stages/*/work")):
        yield from folder.iterdir()
    yield from (path for path in run_dir.iterdir() if path.name not in _RECORDS)
