"""What repetitions ask of a pilot: nodes and cores by their plan, the duration by what has been measured, the block."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from workflow.campaign.file.load_campaign import load_campaign
from workflow.campaign.ledger import Attempt, History, RepetitionId, RunEnd
from workflow.campaign.planning.estimated_duration import EstimatedDurations
from workflow.campaign.planning.free_nodes import Footprint
from workflow.campaign.planning.planned_trials import PlannedCampaign, plan_campaign
from workflow.campaign.planning.trial_requests import all_requests, footprint_of
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
        history.end(RepetitionId(key, number), Attempt(state, 1, "r", 1e9, wall_s))
    estimates = EstimatedDurations.from_history(history, 20.0, 600.0)
    assert [estimates.of(key) for key in "abc"] == [4.0, 30.0, 6.5]
    assert [estimates.is_measured(key) for key in "abc"] == [True, True, False]
    estimates.add("b", 40.0)
    assert (estimates.of("b"), estimates.of("c")) == (35.0, 9.0)


def planned(tmp_path: Path, more: str = "") -> PlannedCampaign:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN + more)

    def decide(loaded: Loaded, of_site: Sequence[Setting]) -> Plan:
        assert not of_site
        return make_plan(loaded, SITE, python="python", wf_version="0")

    return plan_campaign(load_campaign(tmp_path / "campaign.yaml"), decide)


def test_requests_have_the_cores_and_the_block_of_their_repetition(tmp_path: Path) -> None:
    estimates = EstimatedDurations(20.0, 600.0)
    of_campaign = planned(tmp_path)
    estimates.add(of_campaign.ready[0].key, 5.0)
    requests = all_requests(of_campaign, estimates, share_nodes=True)
    assert [each.block for each in requests] == [0, 0, 1, 1, 2, 2]
    assert {(each.footprint, each.expected_s) for each in requests} == {(Footprint(1, 4), 5.0), (Footprint(1, 5), 5.0)}
    whole = all_requests(of_campaign, estimates, share_nodes=False)
    assert {each.footprint for each in whole} == {Footprint(1, None)}
    by_file = all_requests(planned(tmp_path, "order: {by: file}"), estimates, share_nodes=True)
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
