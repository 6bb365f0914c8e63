"""Runs: created, started, submitted, and read."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from workflow.api.plans import (
    find_site,
    job_notes,
    make_plan,
    refuse_allocation,
    refuse_missing,
    show_warnings,
)
from workflow.errors import Problem, RunError, SpecError, to_message
from workflow.spec.load import Loaded, load_pipeline

if TYPE_CHECKING:
    from workflow.launch.allocation import Allocation
    from workflow.plan.plan_model import Plan
    from workflow.plan.topology.declared_stages import CompletePipeline
    from workflow.report.notebook_report import RunReport
    from workflow.report.report_model import Report
    from workflow.run.records.job_record import JobRecord
    from workflow.run.state.run_state import RunState
    from workflow.site.site_model import Site


class PlannedRun(NamedTuple):
    """A pipeline with its plan for the place where this process runs."""

    loaded: Loaded
    allocation: Allocation
    site: Site
    pipeline: CompletePipeline
    """That of `loaded`, with the stages that wf adds: those of the plan."""
    plan: Plan

    @property
    def is_job(self) -> bool:
        """Whether it is submitted: the site has a scheduler, and this process is in none of its jobs."""
        return self.plan.allocation is not None and self.allocation.source == "local"

    def check_here(self) -> list[Problem]:
        """The warnings before it starts in this place. Raises SpecError, RunError where it cannot run here."""
        found = refuse_allocation(self.plan, self.site, self.allocation)
        if self.plan.most_parts > 1:
            text = "allocation.parts is not used: only a job that wf submits is followed by another"
            found.append(to_message("note", text, "to go on with a run that was stopped: wf resume"))
        return [*refuse_missing(self.pipeline, self.plan, self.site), *found, *self.notes]

    def check_before_job(self) -> list[Problem]:
        """The warnings before its job is submitted.

        Modules of the job may bring what this machine lacks. Without modules the nodes have what the login node has:
        raises SpecError then.
        """
        try:
            missing = refuse_missing(self.pipeline, self.plan, self.site)
        except SpecError as error:
            if not self.site.modules:
                raise
            missing = [problem._replace(level="warning") for problem in error.problems]
        return [*missing, *job_notes(self.plan, self.site), *self.notes]

    @property
    def notes(self) -> list[Problem]:
        """What `wf plan` notes on the plan."""
        from workflow.plan.plan_notes import located

        return located(self.plan.advice, self.pipeline.origins)


def plan_run(loaded: Loaded, others: Sequence[int] = ()) -> PlannedRun:
    """Plan a pipeline for this process: for the batch job that it is part of, else for the site of the pipeline.

    `others`: cores of this machine that another run uses. Raises SpecError.
    """
    from workflow.plan.topology.implicit_stages import complete_pipeline
    from workflow.site.discover import discover_allocation

    allocation = discover_allocation()
    site = find_site(loaded, allocation)
    if others and site.nodes == 1:
        site = site.model_copy(update={"others": tuple(others)})
    plan = make_plan(loaded, site, allocation)
    return PlannedRun(loaded, allocation, site, complete_pipeline(loaded), plan)


def submit_planned(
    planned: PlannedRun,
    run_dir: str | os.PathLike[str] | None = None,
    tags: Sequence[str] = (),
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Path, JobRecord]:
    """Write the run directory, and submit the run as a job. Prints warnings; `say` gets what is about to be done.

    Raises:
        SpecError: the queues do not take such a job, or the login node lacks what the stages need.
        RunError: the job is not accepted.
    """
    from workflow.run.records.run_directory import RUNS
    from workflow.submit.submission import check_submission, submit_run

    check_submission(planned.plan, planned.site, Path(RUNS if run_dir is None else run_dir).absolute())
    show_warnings(planned.check_before_job())
    directory = create_run(planned.loaded, planned.plan, run_dir, tags)
    say(f"{directory.name}: submitting its job to {planned.site.scheduler}…")
    return directory, submit_run(planned.plan, planned.site, directory)


def run_planned_here(
    planned: PlannedRun,
    run_dir: str | os.PathLike[str] | None = None,
    tags: Sequence[str] = (),
    *,
    quiet: bool,
    while_starting: Callable[[], None] = lambda: None,
) -> tuple[Report, Path]:
    """Run it to its end, under a supervisor in this process. Returns the report and the run directory.

    `while_starting` is called once, while the first stages start. Prints warnings.

    Raises SpecError, RunError where it cannot run here; nothing was started.
    """
    warnings = planned.check_here()
    directory, states = start_run(planned.loaded, planned.plan, run_dir, planned.allocation, tags)
    with contextlib.closing(states):
        # The run starts before anything is printed: a terminal that accepts no output does not hold it up.
        state = next(states)
        show_warnings(warnings)
        # The first stages are starting now: import meanwhile what shows the run, then what only the end needs.
        from workflow.report.show.live_display import Progress

        with Progress(planned.plan, directory, quiet=quiet) as progress:
            progress.update(state)
            from workflow.report.read.run_states import keep_expectations
            from workflow.report.report_files import write_report

            while_starting()
            for state in states:
                progress.update(state)
    _note_lost_output(directory)
    report = write_report(directory, state)
    keep_expectations(directory, report)
    return report, directory


def _note_lost_output(directory: Path) -> None:
    """A note in the records of a run whose progress could not be printed; no run fails for want of it."""
    from workflow.standard_streams import output_fault

    if fault := output_fault():
        from workflow.errors import WfError
        from workflow.run.records.run_notes import add_note

        with contextlib.suppress(WfError):
            add_note(directory, f"{fault}: what wf printed from then on is lost, the run went on")


def start_run(
    loaded: Loaded,
    plan: Plan,
    run_dir: str | os.PathLike[str] | None = None,
    allocation: Allocation | None = None,
    tags: Sequence[str] = (),
) -> tuple[Path, Generator[RunState, None, None]]:
    """Write the run directory; return it and the states of the run, which starts when the first one is taken.

    The run does not wait for the caller: each state taken is the newest. Closing the generator ends the run.
    It uses the hosts of `allocation`, by default of the batch job that this process is part of, else this machine;
    in a batch job those that no other run uses.
    """
    from workflow.run.supervisor import supervise
    from workflow.site.discover import discover_allocation

    allocation = allocation or discover_allocation()
    directory = create_run(loaded, plan, run_dir, tags)
    return directory, supervise(directory, allocation, shares_job=True)


def detach_run(
    loaded: Loaded, plan: Plan, run_dir: str | os.PathLike[str] | None = None, tags: Sequence[str] = ()
) -> Path:
    """Write the run directory and start its supervisor as a process of its own, which outlives this one.

    Returns the run directory when the supervisor has begun. Raises RunError if it does not begin.
    """
    from workflow.run.control.detached import start_detached

    directory = create_run(loaded, plan, run_dir, tags)
    start_detached(directory)
    return directory


def create_run(
    loaded: Loaded,
    plan: Plan,
    run_dir: str | os.PathLike[str] | None = None,
    tags: Sequence[str] = (),
    latest: bool = True,
) -> Path:
    """Write the directory of a run that something else starts, for example a batch job. That of a part is made in the
    folder of the part before. `latest`: whether it is what `runs/latest` points to, also where that was another run.

    Raises WfError for a bad tag, before anything is written.
    """
    from workflow.provenance.collect import start_context, to_provenance
    from workflow.run.records.attached_runs import attached_to
    from workflow.run.records.find_runs import note_run
    from workflow.run.records.run_directory import RUNS, create_run_dir
    from workflow.run.records.run_notes import add_note, check_tags

    tags = check_tags(tags)
    provenance = to_provenance(start_context(loaded.path.parent, sys.argv), plan, loaded)
    given = None if run_dir is None else Path(run_dir)
    other = None if plan.part is None else Path(plan.part.run)
    # What is attached to a run is found by that run.
    is_own = given is None or attached_to(given) is None
    directory = create_run_dir(plan, loaded, given, provenance=provenance, beside=other, latest=latest and is_own)
    if is_own and (run_dir is not None or directory.parent != Path(RUNS).absolute()):
        note_run(directory)
    if tags:
        add_note(directory, tags=tags)
    return directory


def run_pipeline(
    path: str | os.PathLike[str],
    *,
    profiles: Sequence[str] = (),
    sets: Sequence[str] = (),
    via: str | None = None,
    site: str | os.PathLike[str] | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    tags: Sequence[str] = (),
) -> RunReport:
    """Run a pipeline to its end and return the report, also if the run failed: see `report.run.state`.

    Args:
        path: the pipeline file.
        profiles: as for `load_pipeline`, like `sets`, `via` and `site`.
        run_dir: the run directory to create; by default a new one below `runs/`.
        progress: whether to show the progress while it runs, redrawn in a notebook and on a terminal, as lines on
            standard error elsewhere; None: in a notebook and on a terminal only.
        tags: tags of the run: `wf runs --tag` finds it by them.

    Ctrl-C, or an interrupt of the kernel, stops the run cleanly: its state is then `interrupted`. On a site with a
    scheduler, outside of its jobs, the run is submitted as one job, which an interrupt leaves alone.

    Raises:
        SpecError: the pipeline is wrong, or this machine lacks what it needs; nothing was started.
        RunError: the run directory cannot be used.
    """
    from workflow.report.notebook_report import RunReport
    from workflow.report.show.live_display import is_watched

    planned = plan_run(load_pipeline(path, profiles=profiles, sets=sets, via=via, site=site))
    quiet = not (is_watched() if progress is None else progress)
    if planned.is_job:
        directory, job = submit_planned(planned, run_dir, tags)
        return RunReport.of(*_follow(planned.plan, directory, job, quiet))
    report, directory = run_planned_here(planned, run_dir, tags, quiet=quiet)
    return RunReport.of(report, directory)


def _follow(plan: Plan, directory: Path, job: JobRecord, quiet: bool) -> tuple[Report, Path]:
    """Follow a run that was submitted to its end, and the parts that its jobs submit. Returns the last report, with its
    run directory."""
    from workflow.report.report_files import write_report
    from workflow.report.show.live_display import Progress
    from workflow.run.chain import next_part_text
    from workflow.run.records.job_record import read_job
    from workflow.run.records.run_directory import read_filled_plan
    from workflow.submit.job_status import follow_job
    from workflow.submit.next_part import await_next_part

    following: JobRecord | None = job
    while following is not None:
        with Progress(plan, directory, quiet=quiet) as display:
            display.say(f"{following.text} was submitted")
            with contextlib.closing(follow_job(directory, plan, following, display.say)) as states:
                for state in states:
                    if state.started is not None:
                        display.update(state)
            part, following = await_next_part(directory), None
            if part is not None:
                display.say(next_part_text(directory.name, part))
        if part is not None and part.state == "submitted":
            directory = Path(part.run)
            plan, following = read_filled_plan(directory), read_job(directory)
    return write_report(directory), directory


def read_report(run: str | os.PathLike[str] | None = None) -> RunReport:
    """The report of a run: by its path, by its name below `runs/`, or the newest (`latest`), the default.

    Raises:
        RunError: there is no such run.
    """
    from workflow.report.notebook_report import RunReport
    from workflow.report.report_files import read_report as read
    from workflow.run.records.find_runs import find_run

    directory = find_run(run)
    return RunReport.of(read(directory), directory)


def find_running(run: str | os.PathLike[str] | None, instead: str = "") -> tuple[Path, Plan]:
    """The directory of a run, the newest part of it, and its plan. Raises RunError where it is not running.

    `instead`: what can be done with one that has ended, before its name; by default what it has kept is replayed.
    """
    from workflow.report.read.run_states import list_runs
    from workflow.run.records.find_runs import find_run, newest_part, typed_name
    from workflow.run.records.run_directory import read_filled_plan

    run_dir = newest_part(find_run(run))
    plan, (line,) = read_filled_plan(run_dir), list_runs([run_dir])
    if line.state == "running":
        return run_dir, plan
    if line.state == "submitted":
        raise RunError(f"{run_dir.name} has not started yet", f"wait for it: wf watch {run_dir.name}")
    ends = {"succeeded": "it has succeeded", "failed": "it has failed", "unfinished": "it was never started"}
    replays = any(stream.is_kept or stream.has_whole_spool for stream in plan.streams)
    instead = instead or ("run its analyses again on what it has kept: wf replay" if replays else "")
    hint = f"{instead} {typed_name(run_dir)}" if instead else ""
    raise RunError(f"{run_dir.name} is not running: {ends.get(line.state, f'it is {line.state}')}", hint)
