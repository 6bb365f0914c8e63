"""What repetitions ask of a pilot: nodes and cores by their plan, the duration by what has been measured, the block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from workflow.campaign.file.load_campaign import load_campaign
from workflow.campaign.ledger import Attempt, History, Repetition, RunEnd
from workflow.campaign.planning.campaign_size import PilotSize, PilotsOfCampaign, pilots_of, size_campaign
from workflow.campaign.planning.free_nodes import Footprint
from workflow.campaign.planning.planned_trials import PlannedCampaign, plan_campaign
from workflow.campaign.planning.trial_requests import EstimatedDurations, all_requests, footprint_of
from workflow.campaign.show_campaign import size_lines
from workflow.formatting import duration
from workflow.launch.allocation import Allocation, Host
from workflow.plan.make import make_plan
from workflow.plan.plan_model import Plan
from workflow.site.site_model import Site
from workflow.spec.load import Loaded
from workflow.spec.overlay import Setting

SITE = Site(
    site="test",
    summary="7 of 8 cores",
    nodes=4,
    cores_per_node=8,
    reserved_cores=(0,),
    memory_per_node=2**33,
    launcher="srun",
)
CORES = (1, 2, 3, 4, 5, 6, 7, 8, 9)
PIPELINE = """
wf: 1
name: small
stages:
  a: {command: [./prog], ranks: 2, place: {nodes: 1}}
  b: {command: [./prog], ranks: 3, place: {share: a}}
"""
CAMPAIGN = """
wf: 1
campaign: c
pipeline: pipeline.yaml
matrix: {stages.a.ranks: [1, 2]}
repetitions: 2
warmup: 1
expected: 20 s
"""


def test_estimates_follow_what_has_been_measured() -> None:
    estimates = EstimatedDurations(None, 600.0)
    assert estimates.of("a") == 600 and not estimates.any_measured
    assert EstimatedDurations(20.0, 600.0).of("a") == 20
    history = History()
    ends: list[tuple[str, int, RunEnd, float]] = [
        ("a", 1, "succeeded", 3.0), ("a", 2, "succeeded", 9.0), ("a", 3, "succeeded", 4.0), ("a", 4, "failed", 0.1),
        ("b", 1, "succeeded", 30.0), ("c", 1, "interrupted", 1.0),
    ]  # fmt: skip
    for key, number, state, wall_s in ends:
        history.end(Repetition(key, number), Attempt(state, 1, "r", 1e9, wall_s))
    estimates = EstimatedDurations.from_history(history, 20.0, 600.0)
    assert [estimates.of(key) for key in "abc"] == [4.0, 30.0, 6.5]
    assert [estimates.is_measured(key) for key in "abc"] == [True, True, False]
    estimates.add("b", 40.0)
    assert (estimates.of("b"), estimates.of("c")) == (35.0, 9.0)


def planned(tmp_path: Path, more: str = "", site: Site = SITE) -> PlannedCampaign:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN + more)

    def decide(loaded: Loaded, of_site: Sequence[Setting]) -> Plan:
        assert not of_site
        return make_plan(loaded, site, python="python", wf_version="0")

    return plan_campaign(load_campaign(tmp_path / "campaign.yaml"), decide)


def test_requests_have_the_cores_and_the_block_of_their_repetition(tmp_path: Path) -> None:
    estimates = EstimatedDurations(20.0, 600.0)
    of_campaign = planned(tmp_path)
    estimates.add(of_campaign.ready[0].key, 5.0)
    requests = all_requests(of_campaign, of_campaign.repetitions, estimates, share_nodes=True)
    assert [each.block for each in requests] == [0, 0, 1, 1, 2, 2]
    assert {(each.footprint, each.expected_s) for each in requests} == {(Footprint(1, 4), 5.0), (Footprint(1, 5), 5.0)}
    whole = all_requests(of_campaign, of_campaign.repetitions, estimates, share_nodes=False)
    assert {each.footprint for each in whole} == {Footprint(1, None)}
    in_order = planned(tmp_path, "order: {by: file}")
    by_file = all_requests(in_order, in_order.repetitions, estimates, share_nodes=True)
    assert [(each.block, each.cores_per_node) for each in by_file] == [(0, 4)] * 3 + [(1, 5)] * 3


@pytest.mark.parametrize("changed", [{"cores": []}, {"gpus": [0]}, {"cores": [1, 2, 3, 4, 5, 6, 7]}])
def test_a_repetition_has_its_nodes_for_itself_where_it_cannot_share_them(
    changed: dict[str, list[int]], tmp_path: Path
) -> None:
    plan = planned(tmp_path).ready[0].plan
    assert footprint_of(plan, share_nodes=True) == Footprint(1, 4)
    first, *others = plan.stages
    stage = first.model_copy(update={"placement": first.placement.model_copy(update=changed)})
    assert footprint_of(plan.model_copy(update={"stages": [stage, *others]}), share_nodes=True) == Footprint(1, None)


@pytest.mark.parametrize(
    ("pilots", "measured", "lines"),
    [
        (
            PilotsOfCampaign(PilotSize(1, CORES)), {},
            [
                "they run one at a time on this machine, so that none disturbs another",
                "`side_by_side: cores` runs up to 2 at once; they then disturb each other",
                "time: 2 min 00 s, cost: 0.0333 node-hours, as expected in the file",
            ],
        ),
        (
            PilotsOfCampaign(PilotSize(4, CORES)), {0: 10.0, 1: 30.0},
            [
                "they run side by side, up to 4 at once, each on its own nodes",
                "time: at least 30.0 s, cost: at least 0.0333 node-hours, by what has been measured",
            ],
        ),
        (
            PilotsOfCampaign(PilotSize(1, CORES), share_nodes=True), {},
            [
                "they run side by side, up to 2 at once, each on its own cores: those on one node disturb each other",
                "time: at least 60.0 s, cost: at least 0.0167 node-hours, as expected in the file",
            ],
        ),
        (
            PilotsOfCampaign(PilotSize(1, CORES, 50.0), 2, in_jobs=True), {},
            [
                "they run side by side, up to 2 at once, each on its own nodes",
                "jobs: 1 node for at most 50.0 s each, 2 at the same time",
                "time: at least 60.0 s, besides the time in the queue, cost: at least 0.0333 node-hours, as expected "
                "in the file",
            ],
        ),
        (
            PilotsOfCampaign(PilotSize(1, CORES, 15.0), in_jobs=True, one_at_a_time=True), {0: 10.0, 1: 30.0},
            [
                "they run one at a time, so that none disturbs another",
                "`side_by_side: cores` runs up to 2 at once; they then disturb each other",
                "jobs: 1 node for at most 15.0 s each",
                "3 of them are expected to take longer than a job: give `jobs:` a longer `time`",
                "time: 30.0 s, besides the time in the queue, cost: 0.00833 node-hours, by what has been measured",
            ],
        ),
    ],
)  # fmt: skip
def test_the_plan_says_how_many_run_at_once_and_why_not_more(
    pilots: PilotsOfCampaign, measured: dict[int, float], lines: list[str], tmp_path: Path
) -> None:
    of_campaign = planned(tmp_path)
    estimates = EstimatedDurations(of_campaign.spec.expected, of_campaign.spec.deadline)
    for trial, wall_s in measured.items():
        estimates.add(of_campaign.ready[trial].key, wall_s)
    assert size_lines(size_campaign(of_campaign, estimates, pilots), of_campaign.spec) == lines


def test_the_plan_counts_what_is_left(tmp_path: Path) -> None:
    of_campaign = planned(tmp_path)
    spec, pilots = of_campaign.spec, PilotsOfCampaign(PilotSize(1, CORES), one_at_a_time=True)
    estimates = EstimatedDurations(10.0, 600.0)
    every = of_campaign.repetitions
    done = size_campaign(of_campaign, estimates, pilots, set(every))
    assert size_lines(done, spec, refused=True) == ["all of them are finished"], "a trial that cannot run is left"
    for count, lines in (
        (1, [f"1 of them is finished; for the other {len(every) - 1}:", "they run one at a time on this machine"]),
        (3, [f"3 of them are finished; for the other {len(every) - 3}:", "they run one at a time on this machine"]),
        (len(every), ["all of them are finished: nothing is left to run"]),
    ):
        size = size_campaign(of_campaign, estimates, pilots, set(every[:count]))
        assert [line.split(", so")[0] for line in size_lines(size, spec)[:2]] == lines
        if count == 3:
            assert f"time: {duration((len(every) - 3) * 10.0)}, " in size_lines(size, spec)[-1]


def test_without_any_estimate_no_time_is_stated(tmp_path: Path) -> None:
    of_campaign = planned(tmp_path)
    unknown = replace(
        of_campaign, campaign=replace(of_campaign.campaign, spec=of_campaign.spec.model_copy(update={"expected": None}))
    )
    pilots = PilotsOfCampaign(PilotSize(2, CORES, 300.0), 2, in_jobs=True)
    lines = size_lines(size_campaign(unknown, EstimatedDurations(None, 600.0), pilots), unknown.spec)
    assert lines == [
        "they run side by side, up to 4 at once, each on its own nodes",
        "jobs: 2 nodes for at most 5 min 00 s each, 2 at the same time",
        "time: not known; at most 10 min 00 s a run; write `expected: 20 s` in the file to state it",
    ]
    each = PilotsOfCampaign(PilotSize(2, CORES, 300.0), 2, in_jobs=True, job_each=True)
    estimates = EstimatedDurations(20.0, 600.0)
    assert size_lines(size_campaign(of_campaign, estimates, each), of_campaign.spec) == [
        "each runs in a batch job of its own, as many at once as the queue runs",
        "cost: 0.0333 node-hours, as expected in the file",
    ]


def test_the_nodes_are_those_of_this_job_or_of_jobs_to_come(tmp_path: Path) -> None:
    here = Allocation("slurm", "7", (Host("n1", 8), Host("n2", 8)))
    login = Allocation("local", "", (Host("login", 8),))
    site = SITE.model_copy(update={"scheduler": "slurm"})
    cores = SITE.usable_cores
    plain = planned(tmp_path, "", site)
    assert pilots_of(plain, here, site, all_cores=True) == PilotsOfCampaign(PilotSize(2, cores))
    shared = planned(tmp_path, "side_by_side: cores", site)
    assert pilots_of(shared, here, site, all_cores=True) == PilotsOfCampaign(PilotSize(2, cores), share_nodes=True)
    assert pilots_of(shared, here, site, all_cores=False) == PilotsOfCampaign(PilotSize(2, cores))
    alone = planned(tmp_path, "side_by_side: no\njobs: {nodes: 3, time: 1 h, count: 4, mode: each, grace: 5 min}", site)
    assert pilots_of(alone, login, site, all_cores=True) == PilotsOfCampaign(
        PilotSize(3, cores, 3300.0), 4, in_jobs=True, one_at_a_time=True, job_each=True
    )
