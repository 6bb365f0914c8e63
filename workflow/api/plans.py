"""Plans: made, checked against the machine and its job, and forecast; the calibration that forecasts need."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workflow import __version__
from workflow.errors import SpecError
from workflow.spec.loaded_pipeline import Loaded
from workflow.spec.models.pipeline import AUTO_SITE

if TYPE_CHECKING:
    from workflow.calibration.calibrate import GivenData
    from workflow.calibration.keep_calibration import KeptCalibration
    from workflow.errors import Problem
    from workflow.forecast.calibration_model import MeasuredPart
    from workflow.forecast.forecast_model import Forecast
    from workflow.launch.allocation import Allocation
    from workflow.plan.plan_model import Plan
    from workflow.site.site_model import Site
    from workflow.spec.overlay import Setting


def make_plan(loaded: Loaded, site: Site | None = None, allocation: Allocation | None = None) -> Plan:
    """Decide everything about a loaded pipeline. Starts no process; reads the site's file when no site is given.

    With `allocation` its mistakes come with a note where the job has nodes that the site leaves idle. Where it fits on
    the site, but not on the nodes of the job, that is the mistake.

    Raises:
        SpecError: all that is wrong, with places in the pipeline file.
    """
    from workflow.plan.make_plan import make_plan as decide
    from workflow.site.operator_probe import operators_of

    if site is None:
        site = find_site(loaded)
    compresses = any(stage.output.compression for stage in loaded.spec.stages.values())
    built = operators_of(loaded.completed.spec, loaded.path.parent) if compresses else {}

    def plan_for(machine: Site) -> Plan:
        return decide(loaded, machine, python=loaded.python or sys.executable, wf_version=__version__, built=built)

    try:
        return plan_for(site)
    except SpecError as error:
        if allocation is None:
            raise
        from workflow.plan.batch_job import too_few_nodes
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
    from workflow.site.discover import discover_allocation
    from workflow.site.known_sites import site_here
    from workflow.site.load_site import load_site

    received = allocation or discover_allocation()
    name = site_here(received) if loaded.spec.site == AUTO_SITE else loaded.spec.site
    return load_site(name, loaded.path.parent, received, settings)


def portable_plan(loaded: Loaded) -> str:
    """The plan of a pipeline without the facts of a machine, as JSON: the same text on every machine.

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

    from workflow.plan.batch_job import allocation_problems
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
    """The advice on a plan as notes, with their places in the pipeline file."""
    from workflow.plan.plan_notes import located

    return located(plan.advice, loaded.completed.origins)


def job_notes(plan: Plan, site: Site) -> list[Problem]:
    """What the job of a plan does not say, and the site may ask for, as notes."""
    from workflow.plan.batch_job import unnamed_options

    return [] if plan.allocation is None else unnamed_options(plan.allocation, site)


def forecast_plan(plan: Plan) -> Forecast | None:
    """The expected time per step of a run of this plan; None if its site has not been calibrated (`wf calibrate`).

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
    despite_load: bool = False,
    show: Callable[[str], None] = print,
) -> KeptCalibration:
    """Measure a site, and keep it in `calibration/SITE.json` beside the user's sites.

    Args:
        site: a name, the path of a file, or `auto`.
        folder: on the file system that is measured; files are written there, and removed.
        parts: what is measured; by default everything.
        data: the data to compress; by default data of the component gray_scott.
        quick: fewer sizes, everything once.
        new: forget what was known before.
        despite_load: measure also where other programs use more than a quarter of the cores.
        show: is called with a line of text before each measurement.

    Raises:
        WfError: nothing can be measured here, or other programs use too much of the machine.
    """
    from workflow.calibration.keep_calibration import measure_and_keep, measuring_place

    place = measuring_place(os.fspath(site), Path(folder).absolute(), make_plan, quick=quick)
    return measure_and_keep(place, parts, data, new=new, despite_load=despite_load, show=show)
