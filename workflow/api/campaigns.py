"""Campaigns: planned, run, reported, compared."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from workflow.errors import SpecError, WfError, named_if_missing, to_message, to_notes
from workflow.spec.load import Loaded

if TYPE_CHECKING:
    from workflow.campaign.campaign_directory import Schedule
    from workflow.campaign.campaign_run import CampaignOutcome, Say, ShowEnded
    from workflow.campaign.changes.changes_model import CampaignChanges
    from workflow.campaign.file.campaign_overlay import CampaignOptions
    from workflow.campaign.file.load_campaign import Campaign
    from workflow.campaign.planning.campaign_size import CampaignSize
    from workflow.campaign.planning.planned_trials import PlannedCampaign
    from workflow.campaign.results.results_model import CampaignResults, CampaignStatus
    from workflow.errors import Problem
    from workflow.plan.plan_model import Plan
    from workflow.preflight import Answers
    from workflow.site.site_model import Site
    from workflow.spec.overlay import Setting
from workflow.api.plans import find_site, make_plan, refuse_allocation, refuse_missing, show_warnings


def plan_campaign(
    path: str | os.PathLike[str],
    directory: str | os.PathLike[str] | None = None,
    *,
    sets: Sequence[str] = (),
    profiles: Sequence[str] = (),
    site: str | os.PathLike[str] | None = None,
    as_written: bool = False,
) -> tuple[PlannedCampaign, list[Problem], CampaignSize | None]:
    """The trials of a campaign with their plans, messages about the campaign, and how the trials would run; starts
    nothing.

    Trials that cannot be planned are in `refused`, with the reasons. The last item is None if no trial can run, or if
    the site does not accept the jobs. The arguments are those of `run_campaign`.

    Raises:
        SpecError: the campaign file is wrong, or gives no trials.
        RunError: there is no such campaign.
    """
    sites, options = Sites(), campaign_options(sets, profiles, site)
    planned, problems, where = _plan_campaign(path, directory, options, as_written, sites)
    size = None
    with contextlib.suppress(SpecError):  # of jobs: it is among the problems
        size = _size(planned, where, sites) if planned.ready else None
    return planned, problems, size


def _size(planned: PlannedCampaign, directory: Path, sites: Sites) -> CampaignSize:
    """What the repetitions that are not finished need, with durations from the ledger where there is one."""
    from workflow.campaign.execution.campaign_loop import is_left
    from workflow.campaign.execution.choose_executor import has_all_cores
    from workflow.campaign.ledger import read_history
    from workflow.campaign.planning.campaign_size import pilots_of, size_campaign
    from workflow.campaign.planning.trial_requests import EstimatedDurations
    from workflow.campaign.search import asked_repetitions

    first = planned.ready[0]
    site = sites.find(first.loaded, first.trial.of_site)
    history = read_history(directory)
    asked = asked_repetitions(planned, history, to_the_end=True)
    finished = {each for each in asked if not is_left(planned, history, each)}
    estimates = EstimatedDurations.from_history(history, planned.spec.expected, planned.spec.deadline)
    pilots = pilots_of(planned, sites.allocation, site, all_cores=has_all_cores(site))
    return size_campaign(planned, estimates, pilots, finished, asked)


def campaign_options(
    sets: Sequence[str], profiles: Sequence[str], site: str | os.PathLike[str] | None
) -> CampaignOptions:
    """The options that these arguments are."""
    from workflow.campaign.file.campaign_overlay import CampaignOptions
    from workflow.spec.overlay import given_site

    sets, profiles = ([each] if isinstance(each, str) else each for each in (sets, profiles))
    # They are kept: a path must mean the same from another directory.
    machine = None if site is None else str(given_site(os.fspath(site)).value)
    return CampaignOptions(tuple(sets), tuple(profiles), machine)


class Sites:
    """The sites of the trials of a campaign: each is looked at once, which takes longer than a plan."""

    def __init__(self) -> None:
        from workflow.site.discover import discover_allocation

        self.allocation = discover_allocation()
        self._known: dict[tuple[str, str], Site] = {}

    def find(self, loaded: Loaded, settings: Sequence[Setting] = ()) -> Site:
        """The site of a trial. All are of pipelines in one folder, so that its name decides, and what varies of it."""
        key = loaded.spec.site, repr(settings)
        if key not in self._known:
            self._known[key] = find_site(loaded, self.allocation, settings)
        return self._known[key]

    def decide(self, loaded: Loaded, settings: Sequence[Setting]) -> Plan:
        """The plan of a trial."""
        return make_plan(loaded, self.find(loaded, settings))


def _plan_campaign(
    path: str | os.PathLike[str],
    directory: str | os.PathLike[str] | None,
    options: CampaignOptions,
    as_written: bool,
    sites: Sites,
) -> tuple[PlannedCampaign, list[Problem], Path]:
    """The planned campaign, what to know about it, and its directory."""
    from workflow.campaign.campaign_advice import advise_campaign
    from workflow.campaign.campaign_directory import campaign_to_run, elsewhere_note, options_note
    from workflow.campaign.planning.campaign_size import needs_jobs
    from workflow.campaign.planning.job_allocation import job_problems
    from workflow.campaign.planning.planned_trials import plan_campaign as plan
    from workflow.installation import install_command

    campaign, where = campaign_to_run(Path(path), None if directory is None else Path(directory), options, as_written)
    planned = plan(campaign, sites.decide)
    problems = [*advise_campaign(planned), *data_notes(planned, where), *options_note(campaign, options)]
    if lacking := missing_libraries(planned, "matplotlib"):
        text = f"the report cannot be made here: {lacking}; the campaign runs all the same"
        problems.append(to_message("warning", text, install_command("campaign")))
    if directory is None:
        problems += elsewhere_note(campaign, where)
    if planned.ready and not planned.refused:
        problems += to_notes(_unmatched(planned, where))
    if planned.ready and needs_jobs(planned, sites.allocation):
        trial = planned.ready[0]
        problems += job_problems(planned, sites.find(trial.loaded, trial.trial.of_site))
    return planned, problems, where


def data_notes(planned: PlannedCampaign, directory: Path) -> list[Problem]:
    """What becomes of the data that the stages of a campaign write."""
    from workflow.campaign.campaign_advice import data_advice
    from workflow.campaign.ledger import read_history
    from workflow.run.observe.disk_room import free_bytes

    there = next(each for each in (directory, *directory.parents) if each.is_dir())
    return data_advice(planned, read_history(directory), directory, free_bytes(there))


def missing_libraries(planned: PlannedCampaign, *needed: str) -> str:
    """`scipy is missing`: which of these libraries, and of those of its comparisons, are not installed; empty: none."""
    from importlib.util import find_spec

    from workflow.campaign.campaign_advice import compares_by_ranks

    names = [*needed, *(["scipy"] if compares_by_ranks(planned) else [])]
    missing = [name for name in names if find_spec(name) is None]
    return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing" if missing else ""


def run_campaign(
    path: str | os.PathLike[str],
    directory: str | os.PathLike[str] | None = None,
    *,
    sets: Sequence[str] = (),
    profiles: Sequence[str] = (),
    site: str | os.PathLike[str] | None = None,
    as_written: bool = False,
    only_failed: bool = False,
    remeasure_reference: bool = False,
    show: ShowEnded | None = None,
    say: Say | None = None,
) -> CampaignOutcome:
    """Run the unfinished repetitions of a campaign: on this machine, on the nodes of the current job, or in new jobs.

    Args:
        path: the campaign file, or for one that has run its directory or its name below `campaigns/`.
        directory: where it runs; by default `campaigns/NAME` below the current directory.
        sets: strings `KEY=VALUE` for keys of the campaign file: `repetitions=20`, `scale=frontier`.
        profiles: profiles of the pipeline for all trials, after those of the file.
        site: the machine, by name or by path.
        as_written: without the options of the last run, which are otherwise kept.
        only_failed: run only the repetitions that failed.
        remeasure_reference: measure the trials again with which new ones are compared, beside these; and those that
        were not interleaved. Comparisons use the measurements that are nearest in time.
        show: is called with each repetition that ended.
        say: is called with what happens to pilots and jobs.

    Raises:
        SpecError: a trial cannot be planned, this machine lacks what one needs, or the budget is too small; nothing
            was started.
        RunError: the directory cannot be used, or a process runs this campaign.
    """

    from workflow.campaign.campaign_control import refuse_running
    from workflow.campaign.campaign_run import run_planned
    from workflow.campaign.execution.campaign_loop import CampaignContext
    from workflow.provenance.collect import start_context

    sites, options = Sites(), campaign_options(sets, profiles, site)
    planned, machines, where = _checked_campaign(path, directory, options, as_written, sites)
    if remeasure_reference:
        _refuse_remeasuring(planned)
    refuse_running(where)
    common = start_context(Path(planned.campaign.pipeline).parent, sys.argv)
    context = CampaignContext(sites.allocation, machines, make_plan, common)
    return run_planned(
        planned, where, context, only_failed=only_failed, remeasure=remeasure_reference, show=show, say=say
    )


def _refuse_remeasuring(planned: PlannedCampaign) -> None:
    """Raises SpecError where no reference can be measured again beside what is compared with it."""
    from workflow.spec.validation_messages import problem_at

    spec, root = planned.spec, planned.campaign.root
    if not spec.comparisons and spec.search is None:
        problem = problem_at(root, (), "compares nothing: there is no reference", "add `comparisons: [{vary: KEY}]`")
    elif spec.order.by == "file":
        text = "all repetitions of a trial run together: a reference cannot run beside others"
        problem = problem_at(root, ("order", "by"), text, "write `by: blocks`")
    else:
        return
    raise SpecError([problem])


def _checked_campaign(
    path: str | os.PathLike[str],
    directory: str | os.PathLike[str] | None,
    options: CampaignOptions,
    as_written: bool,
    sites: Sites,
) -> tuple[PlannedCampaign, dict[str, Site], Path]:
    """The planned campaign that can run here, the sites of its trials by their keys, and its directory.

    Prints warnings. Raises SpecError, RunError.
    """
    planned, problems, where = _plan_campaign(path, directory, options, as_written, sites)
    return planned, checked_machines(planned, problems, sites), where


def checked_machines(planned: PlannedCampaign, problems: Sequence[Problem], sites: Sites) -> dict[str, Site]:
    """The sites of trials that can run here, by their keys. Prints warnings. Raises SpecError."""
    from workflow.campaign.planning.campaign_size import needs_jobs
    from workflow.plan.topology.implicit_stages import complete_pipeline

    if wrong := [*planned.problems, *(problem for problem in problems if problem.level == "error")]:
        raise SpecError(wrong)
    warnings = [problem for problem in problems if problem.level == "warning" or not problem.place]
    machines = {trial.key: sites.find(trial.loaded, trial.trial.of_site) for trial in planned.ready}
    answers: Answers = {}
    by_jobs = needs_jobs(planned, sites.allocation)
    for trial in planned.ready:
        machine = machines[trial.key]
        warnings += refuse_missing(complete_pipeline(trial.loaded), trial.plan, machine, answers)
        if not by_jobs:
            # Nodes that one repetition leaves are for others.
            own = sites.allocation.hosts[: trial.plan.nodes]
            received = replace(sites.allocation, hosts=own)
            warnings += refuse_allocation(trial.plan, machine, received)
    show_warnings(list(dict.fromkeys(warnings)))
    return machines


def detach_campaign(
    path: str | os.PathLike[str],
    directory: str | os.PathLike[str] | None = None,
    *,
    sets: Sequence[str] = (),
    profiles: Sequence[str] = (),
    site: str | os.PathLike[str] | None = None,
    as_written: bool = False,
    only_failed: bool = False,
    remeasure_reference: bool = False,
) -> tuple[Path, bool]:
    """Start a campaign as `run_campaign` does, in a process of its own that outlives this one.

    Returns the campaign's directory when the process has begun, and whether there is anything left to run.

    Raises:
        SpecError: as for `run_campaign`.
        RunError: another process already runs the campaign, or the new one does not begin.
    """
    import time

    from workflow.campaign.campaign_control import refuse_running, start_detached_campaign
    from workflow.campaign.campaign_directory import open_directory
    from workflow.campaign.campaign_run import select, write_schedule
    from workflow.campaign.execution.campaign_loop import remaining
    from workflow.campaign.ledger import read_history

    begin, options = time.monotonic(), campaign_options(sets, profiles, site)
    planned, _, where = _checked_campaign(path, directory, options, as_written, Sites())
    planning_s = time.monotonic() - begin
    refuse_running(where)
    if remeasure_reference:
        _refuse_remeasuring(planned)
    history = read_history(where)
    which = select(planned, history, only_failed=only_failed, remeasure=remeasure_reference)
    if not history.open and not remaining(planned, history, which):
        return where, False
    open_directory(where)
    write_schedule(planned, where)
    more = [*(["--failed"] if only_failed else []), *(["--remeasure-reference"] if remeasure_reference else [])]
    return where, start_detached_campaign(planned.campaign, where, planning_s, more) is not None


def campaign_status(
    campaign: str | os.PathLike[str], directory: str | os.PathLike[str] | None = None
) -> CampaignStatus:
    """How far a campaign is, and what runs now: by its file, its directory, or its name below `campaigns/`.

    Raises:
        RunError: it has not been run.
    """
    from workflow.campaign.campaign_directory import find_campaign
    from workflow.campaign.campaign_state import read_state

    found, its, schedule = find_campaign(Path(campaign), None if directory is None else Path(directory))
    status = read_state(found, its.spec, schedule)
    return status.model_copy(update={"notes": _content_notes(found, its, schedule)})


def report_campaign(
    campaign: str | os.PathLike[str], directory: str | os.PathLike[str] | None = None, *, sets: Sequence[str] = ()
) -> tuple[CampaignResults, list[Path]]:
    """The results of a campaign so far; also writes its table and report, and returns the paths of these files.

    The campaign is named as for `campaign_status`.

    `sets` overrides values of its file for this report only: `threshold=0.02`.

    Raises:
        RunError: it has not been run.
        WfError: scipy or matplotlib is not installed.
    """
    from workflow.campaign.campaign_directory import find_campaign
    from workflow.campaign.results.campaign_page import write_results

    found, its, schedule = find_campaign(
        Path(campaign), None if directory is None else Path(directory), campaign_options(sets, (), None)
    )
    return write_results(found, its.spec, schedule, _content_notes(found, its, schedule))


def _content_notes(directory: Path, campaign: Campaign, schedule: Schedule) -> list[str]:
    """That finished repetitions do not match the campaign any more: as it was planned last, or as it is now.

    It is planned again only where a file has changed since. What cannot be planned here says nothing.
    """
    from workflow.campaign.campaign_directory import is_as_planned
    from workflow.campaign.file.load_campaign import load_campaign
    from workflow.campaign.ledger import read_history
    from workflow.campaign.planning.content_key import unmatched_notes
    from workflow.campaign.planning.planned_trials import plan_campaign as plan

    file = directory / schedule.file
    if not schedule.is_gate and not is_as_planned(schedule) and file.is_file():
        with contextlib.suppress(WfError):
            its = load_campaign(os.path.relpath(file), campaign.options)
            planned = plan(its, Sites().decide)
            if planned.ready and not planned.refused:
                shown = {each.key for each in schedule.trials} - {each.key for each in planned.ready}
                more = (
                    "; the figures here belong to the old content, and `wf campaign run` measures again"
                    if shown
                    else ""
                )
                return [note + more for note in _unmatched(planned, directory)]
    history = read_history(directory)
    trials = {each.key: (each.parameters, each.is_baseline) for each in schedule.trials}
    return unmatched_notes(history, trials, history.contents)


def _unmatched(planned: PlannedCampaign, directory: Path) -> list[str]:
    """That finished repetitions do not match a campaign as it is planned now."""
    from workflow.campaign.ledger import read_history
    from workflow.campaign.planning.content_key import unmatched_notes

    trials = {each.key: (each.content.parameters, each.is_baseline) for each in planned.ready}
    return unmatched_notes(read_history(directory), trials, {each.key: each.content for each in planned.ready})


def compare_campaigns(
    base: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    tolerance: float | None = None,
) -> CampaignChanges:
    """The differences between two campaigns: of two machines, dates, or versions of a program.

    Args:
        base: a campaign's file, directory or name, or its report.json.
        new: the campaign that is compared with it, named in the same way.
        tolerance: smallest relative difference that counts; by default the threshold of each metric in `new`.

    Raises:
        RunError: one of them is no campaign, or has not been run.
        WfError: they have no trial or no metric in common; a metric means something else in the two; scipy is not
            installed.
    """
    from workflow.campaign.changes.compared_campaign import read_compared
    from workflow.campaign.changes.make_changes import make_changes

    with named_if_missing("comparing campaigns", "campaign"):
        return make_changes(read_compared(Path(base)), read_compared(Path(new)), tolerance)
