"""Plans: made, checked against the machine and its job, and forecast."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from workflow import __version__
from workflow.errors import SpecError
from workflow.spec.load import Loaded
from workflow.spec.models.pipeline import AUTO_SITE

if TYPE_CHECKING:
    from workflow.errors import Problem
    from workflow.forecast.forecast_model import Forecast
    from workflow.launch.allocation import Allocation
    from workflow.plan.plan_model import Plan
    from workflow.plan.topology.declared_stages import CompletePipeline
    from workflow.preflight import Answers
    from workflow.site.site_model import Site
    from workflow.spec.overlay import Setting


def make_plan(loaded: Loaded, site: Site | None = None, allocation: Allocation | None = None) -> Plan:
    """Decide everything about a loaded pipeline. Starts no process; reads the site's file when no site is given.

    With `allocation` its mistakes come with a note where the job has nodes that the site leaves idle. Where it fits on
    the site, but not on the nodes of the job, that is the mistake.

    Raises:
        SpecError: all that is wrong, with places in the pipeline file.
    """
    from workflow.plan.make import make_plan as decide
    from workflow.plan.topology.implicit_stages import complete_pipeline
    from workflow.site.adios2_library import operators_of
    from workflow.site.site_model import is_here as site_is_here

    if site is None:
        site = find_site(loaded)
    # What this machine has says nothing about another one, of which the site's file says what it has.
    is_here = not site.detect or site_is_here(site.detect)
    compresses = is_here and any(stage.output.compression for stage in loaded.spec.stages.values())
    built = operators_of(complete_pipeline(loaded).spec, loaded.path.parent) if compresses else {}

    def plan_for(machine: Site) -> Plan:
        return decide(loaded, machine, python=loaded.python or sys.executable, wf_version=__version__, built=built)

    try:
        return plan_for(site)
    except SpecError as error:
        if allocation is None:
            raise
        from workflow.plan.allocation_check import too_few_nodes
        from workflow.site.load_site import better_site, whole_site

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
    from workflow.site.load_site import load_site, site_here

    received = allocation or discover_allocation()
    name = site_here(received) if loaded.spec.site == AUTO_SITE else loaded.spec.site
    return load_site(name, loaded.path.parent, received, settings)


def refuse_missing(pipeline: CompletePipeline, plan: Plan, site: Site, answers: Answers | None = None) -> list[Problem]:
    """What this machine seems to lack for the stages, as warnings with places in the pipeline file.

    `answers`: of Pythons that were asked for an earlier plan.

    Raises:
        SpecError: what it lacks for certain.
    """
    from workflow.preflight import start_preflight

    finish = start_preflight(pipeline, plan, site, run=True, answers=answers)
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
    from workflow.site.load_site import site_for

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
    from workflow.plan.topology.implicit_stages import complete_pipeline

    return located(plan.advice, complete_pipeline(loaded).origins)


def job_notes(plan: Plan, site: Site) -> list[Problem]:
    """What the job of a plan does not say, and the site may ask for, as notes."""
    from workflow.plan.job_request import unnamed_options

    return [] if plan.allocation is None else unnamed_options(plan.allocation, site)


def forecast_plan(plan: Plan) -> Forecast | None:
    """What a step of this plan costs, as far as runs have measured it; None if nothing is kept of its site.

    Raises:
        WfError: the file of the site's figures is wrong, or of another wf.
    """
    from workflow.calibration.calibration_file import find_calibration, host_note, read_calibration

    if (file := find_calibration(plan.site)) is None:
        return None
    from dataclasses import replace

    from workflow.forecast.make_forecast import make_forecast

    calibration = read_calibration(file)
    forecast = make_forecast(plan, calibration)
    return replace(forecast, notes=[*forecast.notes, *host_note(calibration, plan.site)])
