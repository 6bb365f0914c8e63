"""Where the repetitions of a campaign run: in this process, on nodes that are here, on pilots, or in a job each."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence

from workflow.campaign.execution.campaign_loop import CampaignContext, Driver, Executor
from workflow.campaign.execution.in_order import InOrder
from workflow.campaign.execution.left_attempts import LeftAttempt
from workflow.campaign.ledger import Repetition
from workflow.campaign.planning.campaign_size import most_at_once, needs_jobs
from workflow.campaign.planning.job_allocation import fit_to_nodes_up, pilot_allocation
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.campaign.planning.trial_requests import footprint_of
from workflow.errors import RunError
from workflow.site.site_model import Site


def choose_executor(
    driver: Driver,
    context: CampaignContext,
    todo: Sequence[Repetition],
    going_on: Sequence[LeftAttempt],
    say: Callable[[str], None],
) -> Executor:
    """What runs these repetitions. `going_on`: jobs of single repetitions that an earlier call has submitted.

    Raises RunError where Parsl or PSI/J is needed and missing, SpecError for jobs that the site does not take.
    """
    planned, site = driver.planned, next(iter(context.sites.values()))
    by_jobs = needs_jobs(planned, context.allocation)
    if by_jobs and planned.spec.jobs.mode == "each":
        return _job_each(driver, context, site, todo, going_on, say)
    if going_on:
        names = ", ".join(each.start.run_dir.name for each in going_on)
        hint = "go on with `jobs: {mode: each}`, or end them: wf cancel RUN"
        raise RunError(f"repetitions of this campaign run in jobs of their own: {names}", hint)
    if by_jobs:
        return _on_pilot_jobs(driver, context, site, todo, say)
    # Otherwise cores of a part of a node are counted differently by each repetition.
    share = planned.spec.side_by_side == "cores" and has_all_cores(site)
    most = _at_once(planned, todo, len(context.allocation.hosts), len(site.usable_cores), share)
    if planned.spec.side_by_side == "no" or most <= 1:
        return InOrder(planned, context, todo, driver.stop.wanted)
    return _on_nodes_here(driver, context, todo, say, most, share)


def _on_nodes_here(
    driver: Driver, context: CampaignContext, todo: Sequence[Repetition], say: Callable[[str], None], most: int,
    share: bool,
) -> Executor:  # fmt: skip
    from workflow.campaign.execution.on_pilots import OnPilots, PilotUse
    from workflow.campaign.execution.parsl_workers import require_parsl
    from workflow.campaign.execution.pilots import PilotHere, Pilots

    require_parsl()
    planned, hosts = driver.planned, len(context.allocation.hosts)
    pilots = Pilots(driver.directory, driver.lease, lambda folder, _: PilotHere(folder), hosts, 1, most, True, say)
    grace_s = max((plan.grace_s for trial in planned.ready if (plan := trial.plan.allocation)), default=0.0)
    end = context.allocation.end_time
    time_s = math.inf if end is None else end - time.time()
    use = PilotUse(share, time_s, grace_s)
    return OnPilots(planned, context, todo, driver.ledger.history, pilots, use)


def _job_each(
    driver: Driver, context: CampaignContext, site: Site, todo: Sequence[Repetition],
    going_on: Sequence[LeftAttempt], say: Callable[[str], None],
) -> Executor:  # fmt: skip
    from workflow.campaign.execution.job_each import DEFAULT_MOST, JobEach
    from workflow.submit.submission import check_submission

    planned = driver.planned
    check_submission(planned.ready[0].plan, site, driver.directory)
    most = 1 if planned.spec.side_by_side == "no" else site.submit.max_queued or DEFAULT_MOST
    return JobEach(planned, context, todo, most, going_on, say)


def _on_pilot_jobs(
    driver: Driver, context: CampaignContext, site: Site, todo: Sequence[Repetition], say: Callable[[str], None]
) -> Executor:  # fmt: skip
    from workflow.campaign.execution.on_pilots import OnPilots, PilotUse
    from workflow.campaign.execution.parsl_workers import require_parsl
    from workflow.campaign.execution.pilots import PilotJob, Pilots
    from workflow.schedulers.job_questions import nodes_up
    from workflow.schedulers.schedulers import scheduler_named
    from workflow.submit.submission import check_submission

    require_parsl()
    planned = driver.planned
    check_submission(planned.ready[0].plan, site, driver.directory)
    jobs, asked = planned.spec.jobs, pilot_allocation(planned, site)
    assert asked is not None, "the site has a scheduler"
    up = nodes_up(asked.scheduler, scheduler_named(asked.scheduler).queue(asked))
    allocation, text = fit_to_nodes_up(planned, asked, up)
    if text:
        say(text)
    share = planned.spec.side_by_side == "cores" and allocation.exclusive
    most = _at_once(planned, todo, allocation.nodes, len(site.usable_cores), share)
    pilots = Pilots(
        driver.directory, driver.lease,
        lambda folder, name: PilotJob(folder, f"{planned.spec.campaign}-{name}", allocation, site),
        allocation.nodes, jobs.count, 1 if planned.spec.side_by_side == "no" else most, False, say,
    )  # fmt: skip
    use = PilotUse(share, allocation.walltime_s, allocation.grace_s, renewable=True)
    return OnPilots(planned, context, todo, driver.ledger.history, pilots, use)


def _at_once(planned: PlannedCampaign, todo: Sequence[Repetition], nodes: int, cores: int, share: bool) -> int:
    """How many repetitions can run at the same time on so many nodes, at most."""
    keys = {each.key for each in todo}
    footprints = {footprint_of(planned.by_key[key].plan, share_nodes=share) for key in keys}
    return min(len(todo), most_at_once(footprints, nodes, cores))


def has_all_cores(site: Site) -> bool:
    """Whether this process may use all cores of the site's nodes."""
    return set(range(site.cores_per_node)) <= os.sched_getaffinity(0)
