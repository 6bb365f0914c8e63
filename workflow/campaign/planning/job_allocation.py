"""What a campaign requests from the batch system: `jobs:` of its file, then `allocation:` of the pipeline. Pure."""

from __future__ import annotations

from workflow.campaign.file.campaign_spec import JobsRequest
from workflow.campaign.file.load_campaign import Campaign
from workflow.campaign.planning.planned_trials import PlannedCampaign, ReadyTrial
from workflow.errors import Problem, SpecError
from workflow.formatting import plural
from workflow.plan.job_request import plan_allocation
from workflow.plan.placement.nodes import nodes_needed
from workflow.plan.plan_model import AllocationPlan
from workflow.plan.plan_notes import Notes, Problems
from workflow.site.site_model import Site
from workflow.spec.models.allocation_request import AllocationRequest
from workflow.spec.validation_messages import problem_at

_AT = "allocation."


def pilot_allocation(planned: PlannedCampaign, site: Site) -> AllocationPlan | None:
    """The job of a pilot, which has room for the largest trial; None where the site has no scheduler.

    Raises SpecError for what the queues of the site do not take, with places in the campaign file.
    """
    largest = max(planned.ready, key=lambda trial: (trial.nodes, _needed(trial)))
    return job_allocation(planned.campaign, largest, site)


def fit_to_nodes_up(planned: PlannedCampaign, allocation: AllocationPlan, up: int | None) -> tuple[AllocationPlan, str]:
    """The job of a pilot where `up` nodes are up (None: not known), and what to say of it.

    A job for more nodes than are up waits for ever. It asks for those that are up when every trial fits on them.
    """
    if up is None or allocation.nodes <= up:
        return allocation, ""
    needed = max(trial.nodes for trial in planned.ready)
    are_up = f"{plural(up, 'node')} {'is' if up == 1 else 'are'} up"
    if needed > up:
        text = f"a trial needs {plural(needed, 'node')}, but {are_up}: the job of its pilot waits until there are more"
        return allocation, f"{text}. To run the smaller trials, press Ctrl-C and leave this one out of `matrix:`"
    text = f"`jobs: {{nodes: {allocation.nodes}}}`, but {are_up}: pilots ask for {up}, on which every trial fits"
    return allocation.model_copy(update={"nodes": up}), text


def job_problems(planned: PlannedCampaign, site: Site) -> list[Problem]:
    """What the site does not take of the jobs of a campaign, whose trials all have this site."""
    found: list[Problem] = []
    each = planned.spec.jobs.mode == "each"
    for trial in planned.ready if each else planned.ready[:1]:
        try:
            if each:
                job_allocation(planned.campaign, trial, site, own_nodes=True)
            else:
                pilot_allocation(planned, site)
        except SpecError as error:
            found += [problem for problem in error.problems if problem not in found]
    return found


def job_allocation(
    campaign: Campaign, trial: ReadyTrial, site: Site, *, own_nodes: bool = False
) -> AllocationPlan | None:
    """The job for one trial. `own_nodes`: it has the nodes of this trial, whatever pilots have. Raises SpecError."""
    notes = Notes(Problems(trial.loaded.origins))
    placements = {stage.name: stage.placement for stage in trial.plan.stages}
    jobs = campaign.spec.jobs
    nodes = trial.nodes if own_nodes or jobs.nodes is None else jobs.nodes
    asked = _laid_over(trial.loaded.spec.allocation, jobs, nodes)
    found = plan_allocation(asked, site, placements, notes)
    if mistakes := notes.problems.found:
        raise SpecError([_in_campaign(problem, campaign) for problem in mistakes])
    return found


def _needed(trial: ReadyTrial) -> int:
    return nodes_needed(stage.placement for stage in trial.plan.stages)


def _laid_over(of_pipeline: AllocationRequest | None, jobs: JobsRequest, nodes: int) -> AllocationRequest:
    """What `jobs` says, and what the pipeline says besides."""
    base = of_pipeline or AllocationRequest()
    given = {key: getattr(jobs, key) for key in jobs.model_fields_set & set(AllocationRequest.model_fields)}
    # A repetition is one job: its figures are those of an uninterrupted run.
    merged: AllocationRequest = base.model_copy(update={**given, "nodes": nodes, "parts": 1})
    return merged


def _in_campaign(problem: Problem, campaign: Campaign) -> Problem:
    """A problem of a key that `jobs` has is told there; any other one stays with the pipeline."""
    key = problem.key.removeprefix(_AT)
    written = "time" if key == "walltime" else key
    jobs = campaign.root.child("jobs")
    if not problem.key.startswith(_AT) or jobs is None or jobs.child(written) is None:
        return problem
    hint = problem.hint.replace("`walltime:", "`time:")
    return problem_at(campaign.root, ("jobs", written), problem.message, hint)
