"""How the repetitions of a campaign run: in order, side by side on nodes that are here, by pilots, or a job each."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workflow.campaign.execution.adoption import LeftAttempt
from workflow.campaign.execution.in_order import execute_in_order
from workflow.campaign.execution.remaining import EndedRepetition, RepetitionChoice, remaining
from workflow.campaign.execution.worker import DecideOnSite
from workflow.campaign.execution.workplace import Workplace
from workflow.campaign.planning.job_allocation import fit_to_nodes_up, pilot_allocation
from workflow.campaign.planning.packed_campaign import most_at_once, needs_jobs
from workflow.campaign.planning.planned_trials import PlannedCampaign
from workflow.campaign.planning.trial_requests import footprint_of
from workflow.errors import RunError
from workflow.launch.allocation import Allocation
from workflow.provenance.provenance_model import Circumstances, GitState
from workflow.run.lease import Lease
from workflow.site.site_model import Site

Way = Generator[EndedRepetition, None, str]


@dataclass(frozen=True)
class Surroundings:
    """Where a campaign was started. `sites`: key of a trial → its site; `decide`: makes a plan for a site."""

    allocation: Allocation
    sites: Mapping[str, Site]
    decide: DecideOnSite
    common: Circumstances
    """What all runs are started with: kept in each run directory."""
    git: Mapping[Path, GitState | None] = field(default_factory=dict)
    """Folder of a pipeline → its repository, where there are pipelines of several folders."""


def choose_way(
    planned: PlannedCampaign,
    place: Workplace,
    around: Surroundings,
    driver: Lease,
    going_on: list[LeftAttempt],
    say: Callable[[str], None],
    which: RepetitionChoice,
) -> Way:
    """The repetitions as they end; the value in the end says why some are left, if they are.

    `going_on`: jobs of single repetitions that an earlier call has submitted.

    Raises RunError where Parsl or PSI/J is needed and missing, SpecError for jobs that the site does not take.
    """
    site = next(iter(around.sites.values()))
    by_jobs = needs_jobs(planned, around.allocation)
    if by_jobs and planned.spec.jobs.mode == "each":
        return _each(planned, place, around, site, going_on, say, which)
    if going_on:
        names = ", ".join(each.start.run_dir.name for each in going_on)
        hint = "go on with `jobs: {mode: each}`, or end them: wf cancel RUN"
        raise RunError(f"repetitions of this campaign run in jobs of their own: {names}", hint)
    if by_jobs:
        return _by_pilots(planned, place, around, site, driver, say, which)
    # Otherwise cores of a part of a node are counted differently by each repetition.
    share = planned.spec.side_by_side == "cores" and has_all_cores(site)
    hosts = len(around.allocation.hosts)
    most = _at_once(planned, place, hosts, len(site.usable_cores), share, which)
    if planned.spec.side_by_side == "no" or most <= 1:
        return execute_in_order(planned, place, which)
    return _here(planned, place, around, driver, say, which, most, share)


def _here(
    planned: PlannedCampaign, place: Workplace, around: Surroundings, driver: Lease, say: Callable[[str], None],
    which: RepetitionChoice, most: int, share: bool,
) -> Way:  # fmt: skip
    from workflow.campaign.execution.parsl_workers import require_parsl
    from workflow.campaign.execution.pilots import PilotHere, Pilots
    from workflow.campaign.execution.side_by_side import SideBySide, execute_side_by_side

    require_parsl()
    hosts = len(around.allocation.hosts)
    pilots = Pilots(place.directory, driver, lambda folder, _: PilotHere(folder), hosts, 1, most, True, say)
    grace_s = max((plan.grace_s for trial in planned.ready if (plan := trial.plan.allocation)), default=0.0)
    end = around.allocation.end_time
    time_s = math.inf if end is None else end - time.time()
    how = SideBySide(pilots, around.sites, around.decide, share, time_s, grace_s)
    return execute_side_by_side(planned, place, how, which)


def _each(
    planned: PlannedCampaign, place: Workplace, around: Surroundings, site: Site, going_on: list[LeftAttempt],
    say: Callable[[str], None], which: RepetitionChoice,
) -> Way:  # fmt: skip
    from workflow.campaign.execution.job_each import DEFAULT_MOST, JobEach, execute_jobs
    from workflow.submit.submission import check_submission

    check_submission(planned.ready[0].plan, site, place.directory)
    most = 1 if planned.spec.side_by_side == "no" else site.submit.max_queued or DEFAULT_MOST
    return execute_jobs(planned, place, JobEach(around.sites, most, going_on, say), which)


def _by_pilots(
    planned: PlannedCampaign, place: Workplace, around: Surroundings, site: Site, driver: Lease,
    say: Callable[[str], None], which: RepetitionChoice,
) -> Way:  # fmt: skip
    from workflow.campaign.execution.parsl_workers import require_parsl
    from workflow.campaign.execution.pilots import PilotJob, Pilots
    from workflow.campaign.execution.side_by_side import SideBySide, execute_side_by_side
    from workflow.schedulers.job_questions import nodes_up
    from workflow.schedulers.schedulers import scheduler_named
    from workflow.submit.submission import check_submission

    require_parsl()
    check_submission(planned.ready[0].plan, site, place.directory)
    jobs, asked = planned.spec.jobs, pilot_allocation(planned, site)
    assert asked is not None, "the site has a scheduler"
    up = nodes_up(asked.scheduler, scheduler_named(asked.scheduler).queue(asked))
    allocation, text = fit_to_nodes_up(planned, asked, up)
    if text:
        say(text)
    share = planned.spec.side_by_side == "cores" and allocation.exclusive
    most = _at_once(planned, place, allocation.nodes, len(site.usable_cores), share, which)
    pilots = Pilots(
        place.directory, driver,
        lambda folder, name: PilotJob(folder, f"{planned.spec.campaign}-{name}", allocation, site),
        allocation.nodes, jobs.count, 1 if planned.spec.side_by_side == "no" else most, False, say,
    )  # fmt: skip
    how = SideBySide(
        pilots, around.sites, around.decide, share, allocation.walltime_s, allocation.grace_s, renewable=True
    )
    return execute_side_by_side(planned, place, how, which)


def _at_once(
    planned: PlannedCampaign, place: Workplace, nodes: int, cores: int, share: bool, which: RepetitionChoice
) -> int:
    """How many repetitions can run at the same time on so many nodes, at most."""
    todo = remaining(planned, place.ledger.history, which)
    footprints = {footprint_of(each.trial.plan, share_nodes=share) for each in todo}
    return min(len(todo), most_at_once(footprints, nodes, cores))


def has_all_cores(site: Site) -> bool:
    """Whether this process may use all cores of the site's nodes."""
    return set(range(site.cores_per_node)) <= os.sched_getaffinity(0)
