"""Run a planned campaign: write its directory and run the repetitions that are not finished."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from workflow import __version__
from workflow.campaign.campaign_directory import (
    Schedule,
    file_checksums,
    open_directory,
    prepare,
    to_schedule,
    to_scheduled,
    to_trials,
)
from workflow.campaign.execution.campaign_loop import (
    CampaignContext,
    Driver,
    EndedRepetition,
    RepetitionChoice,
    is_left,
    remaining,
    run_repetitions,
)
from workflow.campaign.execution.choose_executor import choose_executor
from workflow.campaign.execution.driver_lease import StopRequests, driver_lease
from workflow.campaign.execution.left_attempts import LeftAttempt, adopt, left_attempts
from workflow.campaign.ledger import History, Ledger
from workflow.campaign.planning.content_key import key_versions
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.campaign.results.comparisons import compared_keys, to_measure_again
from workflow.campaign.results.make_results import make_status
from workflow.campaign.results.results_model import CampaignStatus
from workflow.campaign.search import asked_repetitions
from workflow.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_RUN_FAILED
from workflow.provenance.provenance_model import read_provenance
from workflow.site.this_machine import usable_cores

ShowEnded = Callable[[EndedRepetition], None]
Say = Callable[[str], None]


@dataclass(frozen=True)
class CampaignOutcome:
    """What one call has done."""

    directory: Path
    status: CampaignStatus
    interrupted: bool
    """Ctrl-C, a signal, a request, or the end of its nodes stopped the campaign."""
    left: int
    """Repetitions that neither succeeded nor failed as often as they may."""
    left_because: str = ""
    """Why they are left."""

    @property
    def exit_code(self) -> int:
        """What a verb exits with: that of the status, but for a stop, and for what should be measured again."""
        if self.interrupted:
            return EXIT_INTERRUPTED
        return self.status.exit_code or (EXIT_RUN_FAILED if self.left and self.status.complete else EXIT_OK)


def run_planned(
    planned: PlannedCampaign,
    directory: Path,
    context: CampaignContext,
    *,
    only_failed: bool = False,
    remeasure: bool = False,
    failed_anew: bool = False,
    show: ShowEnded | None = None,
    say: Say | None = None,
) -> CampaignOutcome:
    """Run what is not finished where `context` says. `say` gets what happens to pilots and jobs.

    `remeasure`: and again what is compared with it, or was not interleaved with what it is compared with;
    `failed_anew`: and what failed as often as it may.

    Raises RunError when the directory cannot be used, or no pilot can be had.
    """
    open_directory(directory)
    interrupted = False
    with Ledger(directory) as ledger, driver_lease(directory) as lease, StopRequests(directory) as stop:
        schedule = write_schedule(planned, directory)
        for trial in planned.ready:
            ledger.note_trial(trial.key, trial.content)
        driver = Driver(planned, directory, ledger, lease, stop)
        going_on: list[LeftAttempt] = []
        for each in _adopted(driver, going_on):
            if show is not None:
                show(each)
        which = select(planned, ledger.history, only_failed=only_failed, remeasure=remeasure, failed_anew=failed_anew)
        submitted = {each.repetition for each in going_on}
        asked, because = asked_repetitions(planned, ledger.history), ""
        left_now = submitted | set(remaining(planned, ledger.history, which))
        todo = [each for each in planned.repetitions if each in left_now]
        while True:
            executor = choose_executor(driver, context, todo, going_on, say or _say_nothing)
            with contextlib.closing(run_repetitions(driver, executor, todo, which)) as ended:
                while True:
                    try:
                        each = next(ended)
                    except StopIteration as end:
                        because = end.value or ""
                        break
                    interrupted = interrupted or each.attempt.state == "interrupted"
                    if show is not None:
                        show(each)
            interrupted = interrupted or stop.wanted() is not None
            # What a search asks for follows from what has been measured.
            before, asked = set(asked), asked_repetitions(planned, ledger.history)
            todo = [each for each in asked if each not in before and is_left(planned, ledger.history, each, which)]
            if because or interrupted or not todo:
                break
            going_on = []
        status = make_status(planned.spec, schedule, ledger.history)
        left = len(remaining(planned, ledger.history, RepetitionChoice(again=which.again)))
        if left and not because and not interrupted:
            because = "the repetitions that were to be measured again have failed"
    return CampaignOutcome(directory, status, interrupted, left, because)


def select(
    planned: PlannedCampaign, history: History, *, only_failed: bool, remeasure: bool, failed_anew: bool = False
) -> RepetitionChoice:
    """Which repetitions a call runs."""
    if not remeasure:
        return RepetitionChoice(only_failed)
    trials = to_trials(planned)
    baselines = {trial.key: trial.baseline for trial in trials if trial.baseline}
    again = to_measure_again(planned.spec, compared_keys(planned.spec, trials, history), baselines, history)
    return RepetitionChoice(only_failed, failed_anew, again)


def _say_nothing(_: str) -> None:
    """Nobody listens."""


def write_schedule(planned: PlannedCampaign, directory: Path) -> Schedule:
    """Write the file and the schedule of a campaign into its directory. Raises RunError."""
    schedule = to_schedule(
        planned,
        directory,
        wf_version=__version__,
        host=socket.gethostname(),
        cores=usable_cores(),
        versions=key_versions(),
        checksums=file_checksums(planned.campaign),
    )
    prepare(directory, planned.campaign, schedule)
    return schedule


def _adopted(driver: Driver, going_on: list[LeftAttempt]) -> Iterator[EndedRepetition]:
    """Take what a killed campaign has left into the ledger; tell of those that belong to this campaign as it is now.

    A run that was started with other files than its key says is not counted. `going_on` gets those that go on.
    """
    planned, history = driver.planned, driver.ledger.history
    left = left_attempts(history, driver.directory)
    known = set(asked_repetitions(planned, history)) if left else set()
    unfinished = set(remaining(planned, history)) if left else set()
    for each, attempt in adopt(left):
        if attempt is None:
            going_on.append(each)
            continue
        if attempt.state == "succeeded" and not _has_files(each, planned):
            attempt = replace(attempt, state="interrupted", reason="its files changed after planning")
        its = each.repetition
        driver.end(its, attempt)
        if its in known:
            if not is_left(planned, history, its):
                unfinished.discard(its)
            trial = to_scheduled(planned.by_key[its.key])
            yield EndedRepetition(len(known) - len(unfinished), len(known), trial, its, attempt, 0.0)


def _has_files(left: LeftAttempt, planned: PlannedCampaign) -> bool:
    """Whether a run was started with the files of its trial, as far as its directory tells."""
    provenance, trial = read_provenance(left.start.run_dir), planned.by_key.get(left.repetition.key)
    if provenance is None or trial is None:
        return True
    started_with = {Path(record.path): record.sha256 for record in provenance.files if record.sha256 is not None}
    return all(started_with.get(path, checksum) == checksum for path, checksum in trial.files.items())
