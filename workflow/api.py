"""The functions for notebooks and scripts; the command line uses them too.

>>> from workflow import load_pipeline, make_plan, run_pipeline
>>> plan = make_plan(load_pipeline("pipeline.yaml", via="bp5"))   # no process, no file written
>>> report = run_pipeline("pipeline.yaml")                        # runs it, returns the report

Paths are given as text or as any path object.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from workflow import __version__
from workflow.errors import SpecError
from workflow.spec.load import Loaded, load_pipeline
from workflow.spec.models.pipeline import AUTO_SITE

if TYPE_CHECKING:
    from workflow.calibration.calibrate import GivenData
    from workflow.calibration.keep_calibration import KeptCalibration
    from workflow.campaign.campaign_run import CampaignOutcome, Say, ShowEnded
    from workflow.campaign.changes.changes_model import CampaignChanges
    from workflow.campaign.file.campaign_overlay import CampaignOptions
    from workflow.campaign.planning.packed_campaign import PackedCampaign
    from workflow.campaign.planning.planned_trials import PlannedCampaign
    from workflow.campaign.results.results_model import CampaignResults, CampaignStatus
    from workflow.crate.archive_contents import ArchiveContents
    from workflow.crate.fill_archive import ArchiveOptions
    from workflow.errors import Problem
    from workflow.forecast.calibration_model import MeasuredPart
    from workflow.forecast.forecast_model import Forecast
    from workflow.launch.allocation import Allocation
    from workflow.plan.plan_model import Plan
    from workflow.report.run_report import RunReport
    from workflow.run.state import RunState
    from workflow.site.site_model import Site
    from workflow.spec.overlay import Setting

__all__ = [
    "Loaded",
    "archive_campaign",
    "archive_run",
    "calibrate_site",
    "campaign_status",
    "compare_campaigns",
    "create_run",
    "detach_campaign",
    "detach_run",
    "forecast_plan",
    "load_pipeline",
    "make_plan",
    "notes_on",
    "plan_campaign",
    "portable_plan",
    "read_report",
    "report_campaign",
    "run_campaign",
    "run_pipeline",
    "start_run",
]


def make_plan(loaded: Loaded, site: Site | None = None, allocation: Allocation | None = None) -> Plan:
    """Decide everything about a loaded pipeline. Starts no process; reads the site's file when no site is given.

    With `allocation` its mistakes come with a note where the job has nodes that the site leaves idle. Where it fits on
    the site, but not on the nodes of the job, that is the mistake.

    Raises:
        SpecError: all that is wrong, with places in the pipeline file.
    """
    from workflow.plan.make import make_plan as decide
    from workflow.plan.topology.implicit_stages import complete_pipeline
    from workflow.site.operator_probe import operators_of

    if site is None:
        site = find_site(loaded)
    built = operators_of(complete_pipeline(loaded).spec, loaded.path.parent)

    def plan_for(machine: Site) -> Plan:
        return decide(loaded, machine, python=sys.executable, wf_version=__version__, built=built)

    try:
        return plan_for(site)
    except SpecError as error:
        if allocation is None:
            raise
        from workflow.plan.allocation_check import too_few_nodes
        from workflow.site.known_sites import better_site, whole_site

        if (whole := whole_site(site, loaded.spec.site, loaded.path.parent, allocation)) is not None:
            few = too_few_nodes(plan_for(whole), allocation)
            if few is not None:
                raise SpecError([few]) from error
        note = better_site(allocation, site.site)
        if note is None:
            raise
        raise SpecError([*error.problems, note]) from error


def find_site(loaded: Loaded, allocation: Allocation | None = None, settings: Sequence[Setting] = ()) -> Site:
    """The site of a pipeline; what its file leaves to `auto` is that of the allocation, or of this machine.

    Without `allocation` that of the batch job which this process is part of is found. `settings`: what a trial of a
    campaign lays over the site's file.
    """
    from workflow.site.allocation.discover import discover_allocation
    from workflow.site.known_sites import site_here
    from workflow.site.load_site import load_site

    received = allocation or discover_allocation()
    name = site_here(received) if loaded.spec.site == AUTO_SITE else loaded.spec.site
    return load_site(name, loaded.path.parent, received, settings)


def portable_plan(loaded: Loaded) -> str:
    """The plan of a pipeline without its machine, as JSON: the same text on every machine.

    Raises:
        SpecError: all that is wrong, with places in the pipeline file.
    """
    from workflow.plan.portable_plan import portable_plan as decide
    from workflow.site.load_site import any_machine, read_site_file

    # What `auto` would choose is no fact of the pipeline.
    name = "local" if loaded.spec.site == AUTO_SITE else loaded.spec.site
    site, stated = any_machine(read_site_file(name, loaded.path.parent))
    return decide(loaded, site, stated)


def refuse_missing(loaded: Loaded, plan: Plan, site: Site) -> list[Problem]:
    """What this machine seems to lack for the stages, as warnings with places in the pipeline file.

    Raises:
        SpecError: what it lacks for certain.
    """
    from workflow.preflight import start_preflight

    finish = start_preflight(loaded, plan, site, run=True)
    # What the start needs next is imported while another Python answers.
    import workflow.run.supervisor  # noqa: F401

    problems = finish()
    if missing := [problem for problem in problems if problem.level == "error"]:
        raise SpecError(missing)
    return [problem for problem in problems if problem.level == "warning"]


def refuse_allocation(plan: Plan, site: Site, allocation: Allocation) -> list[Problem]:
    """What was received and differs from what the plan and the site say, as warnings and notes.

    Raises:
        SpecError: the plan does not fit.
    """
    import time

    from workflow.plan.allocation_check import allocation_problems
    from workflow.site.known_sites import site_for

    problems = allocation_problems(plan, allocation, time.time(), site, site_for(allocation, site.site))
    if errors := [problem for problem in problems if problem.level == "error"]:
        raise SpecError(errors)
    return problems


def show_warnings(warnings: list[Problem]) -> None:
    """Prints warnings on standard error."""
    if warnings:
        from workflow.report.show.printing import show_errors

        show_errors(warnings)


def notes_on(plan: Plan, loaded: Loaded) -> list[Problem]:
    """The advice of a plan as notes, with their places in the pipeline file."""
    from workflow.plan.plan_notes import located
    from workflow.plan.topology.implicit_stages import complete_pipeline

    return located(plan.advice, complete_pipeline(loaded).origins)


def job_notes(plan: Plan, site: Site) -> list[Problem]:
    """What the job of a plan does not say, and the site may ask for, as notes."""
    from workflow.plan.job_request import unnamed_options

    return [] if plan.allocation is None else unnamed_options(plan.allocation, site)


def start_run(
    loaded: Loaded,
    plan: Plan,
    run_dir: str | os.PathLike[str] | None = None,
    allocation: Allocation | None = None,
) -> tuple[Path, Generator[RunState, None, None]]:
    """Write the run directory; return it and the states of the run, which starts when the first one is taken.

    From then on it does not wait for the caller: each state taken is the newest. Closing the generator ends the run.
    It uses the hosts of `allocation`, by default of the batch job that this process is part of, else this machine.
    """
    from workflow.run.supervisor import supervise
    from workflow.site.allocation.discover import discover_allocation

    allocation = allocation or discover_allocation()
    directory = create_run(loaded, plan, run_dir)
    return directory, supervise(directory, allocation)


def detach_run(loaded: Loaded, plan: Plan, run_dir: str | os.PathLike[str] | None = None) -> Path:
    """Write the run directory and start its supervisor as a process of its own, which outlives this one.

    Returns the run directory when the supervisor has taken the run. Raises RunError when it does not.
    """
    from workflow.run.detached import start_detached

    directory = create_run(loaded, plan, run_dir)
    start_detached(directory)
    return directory


def create_run(loaded: Loaded, plan: Plan, run_dir: str | os.PathLike[str] | None = None) -> Path:
    """Write the directory of a run that somebody else is to start, for example a batch job."""
    from workflow.provenance.collect import circumstances, to_provenance
    from workflow.run.run_directory import create_run_dir

    provenance = to_provenance(circumstances(loaded.path.parent, sys.argv), plan, loaded)
    directory = create_run_dir(plan, loaded, None if run_dir is None else Path(run_dir), provenance=provenance)
    _keep_forecast(plan, directory)
    return directory


def _keep_forecast(plan: Plan, directory: Path) -> None:
    """The report shows it beside what was measured. No run fails for want of it."""
    from workflow.errors import WfError

    with contextlib.suppress(WfError, OSError):
        if (forecast := forecast_plan(plan)) is not None:
            from workflow.forecast.forecast_model import FORECAST_FILE

            (directory / FORECAST_FILE).write_text(forecast.to_json(), encoding="utf-8")


def run_pipeline(
    path: str | os.PathLike[str],
    *,
    profiles: Sequence[str] = (),
    sets: Sequence[str] = (),
    via: str | None = None,
    site: str | os.PathLike[str] | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> RunReport:
    """Run a pipeline to its end and return the report. A failed run is a report too: see `report.run.state`.

    Args:
        path: the pipeline file.
        profiles: as for `load_pipeline`, like `sets`, `via` and `site`.
        run_dir: the run directory to create; by default a new one below `runs/`.
        progress: whether to show the progress while it runs, redrawn in a notebook and on a terminal, as lines on
            standard error elsewhere; None: in a notebook and on a terminal only.

    Ctrl-C, or an interrupt of the kernel, stops the run in order: its state is then `interrupted`. On a site with a
    scheduler, outside of its jobs, the run is submitted as one job, which an interrupt leaves alone.

    Raises:
        SpecError: the pipeline is wrong, or this machine lacks what it needs; nothing was started.
        RunError: the run directory cannot be used.
    """
    from workflow.report.report_files import write_report
    from workflow.report.run_report import RunReport
    from workflow.report.show.live_display import Progress, is_watched
    from workflow.site.allocation.discover import discover_allocation

    loaded = load_pipeline(path, profiles=profiles, sets=sets, via=via, site=site)
    allocation = discover_allocation()
    machine = find_site(loaded, allocation)
    plan = make_plan(loaded, machine, allocation)
    shown = is_watched() if progress is None else progress
    if plan.allocation is not None and allocation.source == "local":
        return _run_as_job(loaded, plan, machine, run_dir, shown)
    found = refuse_allocation(plan, machine, allocation)
    show_warnings([*refuse_missing(loaded, plan, machine), *found])
    directory, states = start_run(loaded, plan, run_dir, allocation)
    state = None
    with contextlib.closing(states), Progress(plan, directory, quiet=not shown) as display:
        for state in states:
            display.update(state)
    return RunReport.of(write_report(directory, state), directory)


def _run_as_job(
    loaded: Loaded, plan: Plan, site: Site, run_dir: str | os.PathLike[str] | None, shown: bool
) -> RunReport:
    """Submit a run and follow it to its end. Raises RunError when its job is not accepted."""
    from workflow.report.report_files import write_report
    from workflow.report.run_report import RunReport
    from workflow.report.show.live_display import Progress
    from workflow.run.run_directory import RUNS
    from workflow.submit.followed_job import follow_job
    from workflow.submit.submission import check_submission, submit_run

    check_submission(plan, site, Path(RUNS if run_dir is None else run_dir).absolute())
    show_warnings(job_notes(plan, site))
    directory = create_run(loaded, plan, run_dir)
    job, command = submit_run(plan, site, directory)
    with Progress(plan, directory, quiet=not shown) as display:
        display.say(f"submit its job by: {command}" if command else f"{job.text} was submitted")
        with contextlib.closing(follow_job(directory, plan, job, display.say)) as states:
            for state in states:
                if state.started is not None:
                    display.update(state)
    return RunReport.of(write_report(directory), directory)


def read_report(run: str | os.PathLike[str] | None = None) -> RunReport:
    """The report of a run: by its path, by its name below `runs/`, or the newest (`latest`), the default.

    Raises:
        RunError: there is no such run.
    """
    from workflow.report.report_files import read_report as read
    from workflow.report.run_report import RunReport
    from workflow.run.run_names import find_run

    directory = find_run(run)
    return RunReport.of(read(directory), directory)


def plan_campaign(
    path: str | os.PathLike[str],
    directory: str | os.PathLike[str] | None = None,
    *,
    sets: Sequence[str] = (),
    profiles: Sequence[str] = (),
    site: str | os.PathLike[str] | None = None,
    as_written: bool = False,
) -> tuple[PlannedCampaign, list[Problem], PackedCampaign | None]:
    """The trials of a campaign with their plans, what to know about it as a whole, and how they run; starts nothing.

    Trials that cannot be planned are in `refused`, with the reasons. How they run is None where none can, or where the
    site does not take the jobs. The arguments are those of `run_campaign`.

    Raises:
        SpecError: the campaign file is wrong, or gives no trials.
        RunError: there is no such campaign.
    """
    sites, options = _Sites(), _campaign_options(sets, profiles, site)
    planned, problems, where = _plan_campaign(path, directory, options, as_written, sites)
    packed = None
    with contextlib.suppress(SpecError):  # of jobs: it is among the problems
        packed = _packed(planned, where, sites) if planned.ready else None
    return planned, problems, packed


def _packed(planned: PlannedCampaign, directory: Path, sites: _Sites) -> PackedCampaign:
    """How the repetitions run, with durations from the ledger where there is one."""
    from workflow.campaign.execution.ways_to_run import has_all_cores
    from workflow.campaign.ledger import read_history
    from workflow.campaign.planning.estimated_duration import EstimatedDurations
    from workflow.campaign.planning.packed_campaign import pack_campaign, pilots_of

    first = planned.ready[0]
    site = sites.find(first.loaded, first.trial.of_site)
    estimates = EstimatedDurations.from_history(read_history(directory), planned.spec.expected, planned.spec.deadline)
    pilots = pilots_of(planned, sites.allocation, site, all_cores=has_all_cores(site))
    return pack_campaign(planned, estimates, pilots)


def _campaign_options(
    sets: Sequence[str], profiles: Sequence[str], site: str | os.PathLike[str] | None
) -> CampaignOptions:
    from workflow.campaign.file.campaign_overlay import CampaignOptions
    from workflow.spec.overlay import given_site

    sets, profiles = ([each] if isinstance(each, str) else each for each in (sets, profiles))
    # They are kept: a path must mean the same from another directory.
    machine = None if site is None else str(given_site(os.fspath(site)).value)
    return CampaignOptions(tuple(sets), tuple(profiles), machine)


class _Sites:
    """The sites of the trials of a campaign: each is looked at once, which takes longer than a plan."""

    def __init__(self) -> None:
        from workflow.site.allocation.discover import discover_allocation

        self.allocation = discover_allocation()
        self._known: dict[tuple[str, str], Site] = {}

    def find(self, loaded: Loaded, settings: Sequence[Setting] = ()) -> Site:
        """The site of a trial. All are of pipelines in one folder, so that its name decides, and what varies of it."""
        key = loaded.spec.site, repr(settings)
        if key not in self._known:
            self._known[key] = find_site(loaded, self.allocation, settings)
        return self._known[key]


def _plan_campaign(
    path: str | os.PathLike[str],
    directory: str | os.PathLike[str] | None,
    options: CampaignOptions,
    as_written: bool,
    sites: _Sites,
) -> tuple[PlannedCampaign, list[Problem], Path]:
    """The planned campaign, what to know about it, and its directory."""
    from workflow.campaign.campaign_advice import advise_campaign
    from workflow.campaign.campaign_directory import campaign_to_run, options_note
    from workflow.campaign.planning.job_allocation import job_problems
    from workflow.campaign.planning.packed_campaign import needs_jobs
    from workflow.campaign.planning.planned_trials import plan_campaign as plan

    def decide(loaded: Loaded, settings: Sequence[Setting]) -> Plan:
        return make_plan(loaded, sites.find(loaded, settings))

    campaign, where = campaign_to_run(Path(path), None if directory is None else Path(directory), options, as_written)
    planned = plan(campaign, decide)
    problems = [*advise_campaign(planned), *options_note(campaign, options)]
    if planned.ready and needs_jobs(planned, sites.allocation):
        trial = planned.ready[0]
        problems += job_problems(planned, sites.find(trial.loaded, trial.trial.of_site))
    return planned, problems, where


def run_campaign(
    path: str | os.PathLike[str],
    directory: str | os.PathLike[str] | None = None,
    *,
    sets: Sequence[str] = (),
    profiles: Sequence[str] = (),
    site: str | os.PathLike[str] | None = None,
    as_written: bool = False,
    only_failed: bool = False,
    show: ShowEnded | None = None,
    say: Say | None = None,
) -> CampaignOutcome:
    """Run what is not finished of a campaign, on this machine, the nodes of the job around this process, or in jobs.

    Args:
        path: the campaign file, or for one that has run its directory or its name below `campaigns/`.
        directory: where it runs; by default `campaigns/NAME` below the current directory.
        sets: `KEY=VALUE` each, over keys of the campaign file: `repetitions=20`, `scale=frontier`.
        profiles: profiles of the pipeline for all trials, after those of the file.
        site: the machine, by name or by path.
        as_written: without the options of the last run, which else are kept.
        only_failed: run again what failed, and nothing else.
        show: is called with each repetition that ended.
        say: is called with what happens to pilots and jobs.

    Raises:
        SpecError: a trial cannot be planned, this machine lacks what one needs, or the budget is too small; nothing
            was started.
        RunError: the directory cannot be used, or a process runs this campaign.
    """

    from workflow.campaign.campaign_run import run_planned
    from workflow.campaign.control.detached_campaign import refuse_running
    from workflow.campaign.execution.ways_to_run import Surroundings
    from workflow.provenance.collect import circumstances

    sites, options = _Sites(), _campaign_options(sets, profiles, site)
    planned, machines, where = _checked_campaign(path, directory, options, as_written, sites)
    refuse_running(where)
    common = circumstances(Path(planned.campaign.pipeline).parent, sys.argv)
    around = Surroundings(sites.allocation, machines, make_plan, common)
    return run_planned(planned, where, around, only_failed=only_failed, show=show, say=say)


def _checked_campaign(
    path: str | os.PathLike[str],
    directory: str | os.PathLike[str] | None,
    options: CampaignOptions,
    as_written: bool,
    sites: _Sites,
) -> tuple[PlannedCampaign, dict[str, Site], Path]:
    """The planned campaign that can run here, the sites of its trials by their keys, and its directory.

    Prints warnings. Raises SpecError, RunError.
    """
    from workflow.campaign.planning.packed_campaign import needs_jobs
    from workflow.plan.stage_needs import stage_needs
    from workflow.plan.topology.implicit_stages import complete_pipeline

    planned, problems, where = _plan_campaign(path, directory, options, as_written, sites)
    if wrong := [*planned.problems, *(problem for problem in problems if problem.level == "error")]:
        raise SpecError(wrong)
    warnings = [problem for problem in problems if problem.level == "warning" or not problem.place]
    machines = {trial.key: sites.find(trial.loaded, trial.trial.of_site) for trial in planned.ready}
    asked, by_jobs = set(), needs_jobs(planned, sites.allocation)
    for trial in planned.ready:
        machine = machines[trial.key]
        # Most trials need the same: the answer takes longer than the plan.
        needs = machine.site, repr(stage_needs(trial.plan, complete_pipeline(trial.loaded)))
        if needs not in asked:
            asked.add(needs)
            warnings += refuse_missing(trial.loaded, trial.plan, machine)
        if not by_jobs:
            # Nodes that one repetition leaves are for others.
            own = sites.allocation.hosts[: trial.plan.nodes]
            received = replace(sites.allocation, hosts=own)
            warnings += refuse_allocation(trial.plan, machine, received)
    show_warnings(list(dict.fromkeys(warnings)))
    return planned, machines, where


def detach_campaign(
    path: str | os.PathLike[str],
    directory: str | os.PathLike[str] | None = None,
    *,
    sets: Sequence[str] = (),
    profiles: Sequence[str] = (),
    site: str | os.PathLike[str] | None = None,
    as_written: bool = False,
    only_failed: bool = False,
) -> tuple[Path, bool]:
    """Start a campaign as `run_campaign` does, in a process of its own that outlives this one.

    Returns its directory when the process has begun, and whether there was anything left to run.

    Raises:
        SpecError: as for `run_campaign`.
        RunError: a process runs the campaign already, or the new one does not begin.
    """
    import time

    from workflow.campaign.campaign_directory import open_directory
    from workflow.campaign.campaign_run import write_schedule
    from workflow.campaign.control.detached_campaign import refuse_running, start_detached_campaign
    from workflow.campaign.execution.remaining import remaining
    from workflow.campaign.ledger import read_history

    begin, options = time.monotonic(), _campaign_options(sets, profiles, site)
    planned, _, where = _checked_campaign(path, directory, options, as_written, _Sites())
    planning_s = time.monotonic() - begin
    refuse_running(where)
    history = read_history(where)
    if not history.open and not remaining(planned, history, only_failed):
        return where, False
    open_directory(where)
    write_schedule(planned, where)
    more = ["--failed"] if only_failed else []
    return where, start_detached_campaign(planned.campaign, where, planning_s, more) is not None


def campaign_status(
    campaign: str | os.PathLike[str], directory: str | os.PathLike[str] | None = None
) -> CampaignStatus:
    """How far a campaign is, and what runs now: by its file, its directory, or its name below `campaigns/`.

    Raises:
        RunError: it has not been run.
    """
    from workflow.campaign.campaign_directory import find_campaign
    from workflow.campaign.control.campaign_state import read_state

    found, its, schedule = find_campaign(Path(campaign), None if directory is None else Path(directory))
    return read_state(found, its.spec, schedule)


def report_campaign(
    campaign: str | os.PathLike[str], directory: str | os.PathLike[str] | None = None, *, sets: Sequence[str] = ()
) -> tuple[CampaignResults, list[Path]]:
    """What a campaign found so far; writes its table and report, and returns the files too. It is named as above.

    `sets` lays values over its file for this report only: `threshold=0.02`.

    Raises:
        RunError: it has not been run.
        WfError: scipy or matplotlib is not installed.
    """
    from workflow.campaign.campaign_directory import find_campaign
    from workflow.campaign.results.campaign_files import write_results

    found, its, schedule = find_campaign(
        Path(campaign), None if directory is None else Path(directory), _campaign_options(sets, (), None)
    )
    return write_results(found, its.spec, schedule)


def forecast_plan(plan: Plan) -> Forecast | None:
    """What a run of this plan will take; None where its site has not been calibrated (`wf calibrate`).

    Raises:
        WfError: the file of the site's calibration is wrong, or of a newer wf.
    """
    from workflow.calibration.calibration_folder import find_calibration

    if (file := find_calibration(plan.site)) is None:
        return None
    from workflow.calibration.calibration_file import host_note, read_calibration
    from workflow.forecast.make_forecast import make_forecast

    calibration = read_calibration(file)
    forecast = make_forecast(plan, calibration)
    return forecast.model_copy(update={"notes": host_note(calibration, plan.site)})


def calibrate_site(
    site: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    parts: Sequence[MeasuredPart] = (),
    data: GivenData | None = None,
    quick: bool = False,
    new: bool = False,
    show: Callable[[str], None] = print,
) -> KeptCalibration:
    """Measure a site, and keep it in `calibration/SITE.json` beside the user's sites.

    Args:
        site: a name, the path of a file, or `auto`.
        folder: on the file system that is measured; files are written there, and removed.
        parts: what is measured; by default everything.
        data: what is compressed; by default data of the component gray_scott.
        quick: fewer sizes, everything once.
        new: forget what was known before.
        show: gets a line before each measurement.

    Raises:
        WfError: nothing can be measured here.
    """
    from workflow.calibration.keep_calibration import measure_and_keep, measuring_place

    place = measuring_place(os.fspath(site), Path(folder).absolute(), make_plan, quick=quick)
    return measure_and_keep(place, parts, data, new=new, show=show)


def compare_campaigns(
    base: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    metrics: Sequence[str] = (),
    tolerance: float | None = None,
) -> CampaignChanges:
    """What changed from one campaign to another: of two machines, dates, or versions of a program.

    Args:
        base: a campaign's file, directory or name, or its report.json or table.csv.
        new: what is compared with it, named in the same way.
        metrics: names of metrics; all that both have where none is given.
        tolerance: smallest relative difference that counts; by default the threshold of each metric in `new`.

    Raises:
        RunError: one of them is no campaign, or has not been run.
        WfError: they have no trial or no metric in common; a metric is not known, or means something else in the two;
            scipy is not installed.
    """
    from workflow.campaign.changes.given_campaign import read_given
    from workflow.campaign.changes.make_changes import make_changes
    from workflow.errors import WfError
    from workflow.installation import install_command

    try:
        return make_changes(read_given(Path(base)), read_given(Path(new)), metrics, tolerance)
    except ModuleNotFoundError as error:
        text = f"comparing campaigns needs {str(error.name).partition('.')[0]}"
        raise WfError(text, install_command("campaign")) from error


def archive_run(
    run: str | os.PathLike[str] | None = None,
    archive: str | os.PathLike[str] | None = None,
    *,
    data: bool = False,
    largest: int | None = None,
    license: str | None = None,
) -> tuple[Path, ArchiveContents]:
    """Write all that repeats a run into one archive, which is a Workflow Run RO-Crate; returns its path and contents.

    Args:
        run: as for `read_report`.
        archive: a name that ends in `.zip`, or that of a folder; by default NAME.zip in the current directory.
        data: with what the stages wrote.
        largest: bytes; larger inputs and records are left out (default: 100 MiB).
        license: of the archive, as text or URL.

    Raises:
        RunError: there is no such run, it goes on, or the archive exists.
        WfError: rocrate is not installed.
    """
    from workflow.crate.archive_run import archive_run as write
    from workflow.run.run_names import find_run

    directory = find_run(run)
    target = Path(f"{directory.name}.zip" if archive is None else archive)
    return target, write(directory, target, _archive_options(data, largest, license))


def archive_campaign(
    campaign: str | os.PathLike[str],
    archive: str | os.PathLike[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
    *,
    data: bool = False,
    largest: int | None = None,
    license: str | None = None,
) -> tuple[Path, ArchiveContents]:
    """The same for a campaign, by its file, its directory, or its name below `campaigns/`.

    Raises:
        RunError: it has not been run, nothing has succeeded, or the archive exists.
        WfError: rocrate is not installed.
    """
    from workflow.campaign.campaign_directory import find_campaign
    from workflow.crate.archive_campaign import archive_campaign as write

    found, its, schedule = find_campaign(Path(campaign), None if directory is None else Path(directory))
    target = Path(f"{its.spec.campaign}.zip" if archive is None else archive)
    return target, write(found, its, schedule, target, _archive_options(data, largest, license))


def _archive_options(data: bool, largest: int | None, license: str | None) -> ArchiveOptions:
    from workflow.crate.archive_contents import DEFAULT_LARGEST
    from workflow.crate.fill_archive import NO_LICENSE, ArchiveOptions

    return ArchiveOptions(data, DEFAULT_LARGEST if largest is None else largest, license or NO_LICENSE)
