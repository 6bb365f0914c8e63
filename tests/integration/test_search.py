"""A search of a campaign, with real runs: it finds what is known to be the best, and goes on where it was stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.campaigns import TIMEOUT_S, CampaignFolder, ledger_records
from tests.support.pilot_campaigns import PilotCampaign
from workflow import report_campaign, run_campaign
from workflow.campaign.execution.campaign_loop import EndedRepetition

PIPELINE = """wf: 1
name: steps
oversubscribe: true
stages:
  source: {component: synthetic, with: {bytes: 100 kB, steps: 8, compute_time: 0}}
  sink: {component: 'null'}
streams:
  data: {from: source, to: sink, via: bp5}
"""
# Of the four a step takes 20 ms at least; the next one twice as long.
CAMPAIGN = """wf: 1
campaign: steps
pipeline: pipeline.yaml
matrix: {stages.source.with.compute_time: [160 ms, 20 ms, 80 ms, 240 ms]}
repetitions: 6
warmup: 0
search: {over: [stages.source.with.compute_time], best: stages.source.step_s, trials: 14}
"""


@pytest.mark.slow
def test_the_best_of_real_runs_is_found_and_a_stop_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    monkeypatch.chdir(tmp_path)
    shown: list[EndedRepetition] = []

    def stop_after_five(ended: EndedRepetition) -> None:
        shown.append(ended)
        if len(shown) == 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run_campaign("campaign.yaml", show=stop_after_five)
    directory = tmp_path / "campaigns/steps"
    (search,) = report_campaign("steps")[0].searches
    assert search.decision == "unfinished" and len(search.left) == 2 and {each.total for each in shown} == {14}
    outcome = run_campaign("campaign.yaml", show=shown.append)
    assert outcome.exit_code == 0 and outcome.left == 0 and [each.done for each in shown] == list(range(1, 15))

    ran = Counter((each["key"], each["number"]) for each in ledger_records(directory, "ended"))
    assert set(ran.values()) == {1} and len(ran) == 14
    assert sorted(Counter(key for key, _ in ran).values()) == [1, 1, 6, 6]
    results, _ = report_campaign("steps")
    (search,) = results.searches
    assert (search.trials, search.repetitions, search.decision) == (4, 14, "found")
    assert [list(each.values()) for each in search.left] == [["20 ms"], ["80 ms"]]
    assert search.ratio is not None and search.high is not None and search.ratio < search.high < 0.9
    said = subprocess.run(
        [sys.executable, "-m", "workflow.cli", "campaign", "report", "steps"],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=True,
    ).stdout  # fmt: skip
    assert "the better of the last two of 4 trials: compute_time=20 ms, 0." in " ".join(said.split())


def test_what_is_planned_and_shown_of_a_search(tmp_path: Path) -> None:
    search = "search: {over: [stages.one.env.VALUE], best: run.wall_s, trials: 30}\n"
    campaign = CampaignFolder(tmp_path, values=5, repetitions=6, more=search)
    planned = " ".join(campaign.wf("plan").split())
    assert "runs: at most 16, fewer of a trial that is not the best" in planned, "5 + 3 + 2 × 4"
    (tmp_path / "fail-3").touch()
    assert "[ 1/16]" in campaign.wf("run", code=1)
    counts = Counter(campaign.ran())
    assert counts["3"] == 2 and sum(counts.values()) == 17, "what failed is tried once more, and drops out"
    assert sorted(counts.values())[-2:] == [6, 6]
    assert "all of them are finished" in campaign.wf("plan")
    campaign.wf("run", code=1)
    assert sum(Counter(campaign.ran()).values()) == 17
    said = " ".join(campaign.wf("report").split())
    assert "the better of the last two of 5 trials" in said or "undecided which of 5 trials is the best" in said


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="side by side needs two cores")
def test_side_by_side_each_round_has_workers_of_its_own(tmp_path: Path) -> None:
    text = (
        "matrix: {stages.one.env.VALUE: [8, 1, 9, 6]}\nside_by_side: cores\nrepetitions: 6\n"
        "search: {over: [stages.one.env.VALUE], best: run.wall_s, trials: 14}\n"
    )
    campaign = PilotCampaign(tmp_path, text, sleep_s="0.$VALUE")
    said = campaign.run()
    counts = Counter((tmp_path / "ran.txt").read_text().split())
    assert counts["1"] == 6 and sorted(counts.values()) == [1, 1, 6, 6], said
    assert sorted(path.name for path in (campaign.directory / "pilots").iterdir()) == ["p1", "p2"]
    assert not campaign.processes()
