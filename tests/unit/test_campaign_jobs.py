"""What a campaign asks of the batch system, and which nodes it uses no more."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from workflow.api.plans import make_plan
from workflow.campaign.execution import pilots
from workflow.campaign.execution.job_each import counted_attempt
from workflow.campaign.execution.pilots import Pilot
from workflow.campaign.execution.repetition import place_text, silent_hosts
from workflow.campaign.file.load_campaign import load_campaign
from workflow.campaign.ledger import Attempt, RunEnd
from workflow.campaign.planning.job_allocation import (
    fit_to_nodes_up,
    job_allocation,
    job_problems,
    pilot_allocation,
)
from workflow.campaign.planning.planned_trials import PlannedCampaign, plan_campaign
from workflow.run.control.detached import OUTPUT_FILE
from workflow.run.proof.placement_probe import LOOKING_NODES
from workflow.run.records.job_record import JobRecord
from workflow.schedulers.job_questions import JobAnswer
from workflow.site.load_site import load_site
from workflow.site.site_model import Site
from workflow.submit.job_status import JobWatch

if TYPE_CHECKING:
    from workflow.campaign.execution.parsl_workers import WorkerPool
    from workflow.campaign.execution.pilots import PilotStart
    from workflow.plan.plan_model import AllocationPlan

SITES = Path(__file__).parents[1] / "specs/sites"
PIPELINE = """wf: 1
name: p
allocation: {account: mine, walltime: 10 min}
stages:
  one: {command: [sh, -c, 'true'], ranks: 1, place: {ranks_per_node: 1}}
"""


@pytest.fixture
def site() -> Site:
    return load_site("./queues.yaml", SITES)


def planned(folder: Path, site: Site, more: str) -> PlannedCampaign:
    (folder / "pipeline.yaml").write_text(PIPELINE)
    (folder / "campaign.yaml").write_text(
        f"wf: 1\ncampaign: c\npipeline: pipeline.yaml\nmatrix: {{stages.one.ranks: [1, 2]}}\n{more}"
    )
    return plan_campaign(load_campaign(folder / "campaign.yaml"), lambda loaded, _: make_plan(loaded, site))


def test_a_pilot_has_room_for_the_largest_trial_and_what_jobs_says(tmp_path: Path, site: Site) -> None:
    job = pilot_allocation(planned(tmp_path, site, "jobs: {time: 20 min}"), site)
    assert job is not None
    assert (job.nodes, job.walltime_s, job.account, job.queue) == (2, 1200, "mine", "short")


def test_a_job_for_each_has_the_nodes_of_its_trial(tmp_path: Path, site: Site) -> None:
    campaign = planned(tmp_path, site, "jobs: {nodes: 2, mode: each, account: ours}")
    jobs = [job_allocation(campaign.campaign, trial, site, own_nodes=True) for trial in campaign.ready]
    assert [(job.nodes, job.account) for job in jobs if job is not None] == [(1, "ours"), (2, "ours")]


@pytest.mark.parametrize(
    ("up", "nodes", "said"),
    [
        (None, 4, ""),
        (4, 4, ""),
        (3, 3, "`jobs: {nodes: 4}`, but 3 nodes are up: pilots ask for 3, on which every trial fits"),
        (1, 4, "a trial needs 2 nodes, but 1 node is up: the job of its pilot waits until there are more"),
    ],
)
def test_a_pilot_asks_for_no_more_nodes_than_are_up(
    up: int | None, nodes: int, said: str, tmp_path: Path, site: Site
) -> None:
    short = site.queues["short"].model_copy(update={"nodes": (1, 8)})
    site = site.model_copy(update={"queues": {"short": short}})
    campaign = planned(tmp_path, site, "jobs: {nodes: 4, time: 20 min}")
    asked = pilot_allocation(campaign, site)
    assert asked is not None
    found, text = fit_to_nodes_up(campaign, asked, up)
    assert (found.nodes, found.walltime_s) == (nodes, 1200)
    assert text.startswith(said) if said else not text


def test_what_the_queue_does_not_take_has_its_place_in_the_campaign(tmp_path: Path, site: Site) -> None:
    (problem,) = job_problems(planned(tmp_path, site, "jobs: {time: 2 h}"), site)
    assert (problem.line, problem.key) == (5, "jobs.time")
    assert "`time: 1 h" in problem.hint, problem
    (problem,) = job_problems(planned(tmp_path, site, "jobs: {nodes: 1}"), site)
    assert (problem.line, problem.key) == (5, "jobs.nodes")
    assert "the stages need 2" in problem.message


def test_hosts_on_which_no_rank_answered(tmp_path: Path) -> None:
    assert silent_hosts(tmp_path, ["n1"]) == []
    for state, silent in (("refused", ["n2", "n3"]), ("proved", [])):
        proof = {"state": state, "nodes": {"n1": {}, "n3": {}}, "directory": [{"host": "n1"}]}
        (tmp_path / "proof.json").write_text(json.dumps(proof))
        assert silent_hosts(tmp_path, ["n1", "n2", "n3"]) == silent
    # Of many nodes only some look at the directory.
    (tmp_path / "proof.json").write_text(json.dumps({**proof, "state": "refused"}))
    many = [f"n{number}" for number in range(1, LOOKING_NODES + 2)]
    assert silent_hosts(tmp_path, many) == [host for host in many if host not in ("n1", "n3")]


def test_a_place_in_words() -> None:
    assert place_text(["n1", "n2"], ()) == "n1, n2"
    assert place_text(["n1"], (2, 3)) == "n1 cores 2-3"


@pytest.mark.parametrize(
    ("state", "cancelled", "never_came", "counts_as"),
    [
        ("failed", False, False, "failed"),
        # The driver was killed while it submitted the job: it runs again, as after the loss of a node.
        ("failed", False, True, "lost"),
        ("failed", True, True, "interrupted"),
        ("succeeded", False, True, "succeeded"),
    ],
)
def test_a_job_that_never_came_is_no_failure_of_its_programs(
    state: RunEnd, cancelled: bool, never_came: bool, counts_as: RunEnd
) -> None:
    attempt = Attempt(state, 1, "c-r1", 1e9, 70.0, reason="the scheduler no longer knows slurm job c")
    counted = counted_attempt(attempt, cancelled=cancelled, never_came=never_came)
    assert (counted.state, counted.reason) == (counts_as, attempt.reason)


def test_the_reason_of_a_lost_pilot_is_not_what_python_says_at_its_end(tmp_path: Path) -> None:
    noise = "resource_tracker.py:224: UserWarning: resource_tracker: There appear to be 1 leaked semaphore objects"
    (tmp_path / OUTPUT_FILE).write_text(
        f"srun: error: n2: task 1: Killed\n{noise}\n  warnings.warn('resource_tracker: …\n"
    )
    pilot = Pilot("p1", tmp_path, cast("PilotStart", None), cast("WorkerPool", None), Future())
    assert pilot._said() == ": srun: error: n2: task 1: Killed"


def test_a_pilot_whose_id_is_not_known_is_not_lost_by_its_absence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pilots, "ask_about", lambda _: JobAnswer())
    started = pilots.PilotJob(tmp_path, "p1", cast("AllocationPlan", None), cast("Site", None))
    for job, text in (("", ""), ("12", "the scheduler no longer knows slurm job 12")):
        started._watch = JobWatch(tmp_path, JobRecord("slurm", "p1-ab12", job))
        assert started.ask_end() == text
