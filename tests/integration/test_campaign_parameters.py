"""A campaign over a parameter of the pipeline: what the program gets, and what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.campaigns import CampaignFolder
from workflow import read_report

PIPELINE = """wf: 1
name: tiny
params:
  n: 8
  tolerance: {value: 1e-3, unit: m, maximum: 1, text: largest error}
stages:
  one:
    command: [sh, -c, 'echo "$1 $2" "$(cat deck.txt)" >> "$0/ran.txt"', "${{ pipeline.dir }}", "${{ params.n }}",
              "--tol=${{ params.tolerance }}"]
    files: {deck.txt: deck.txt}
"""
CAMPAIGN = """wf: 1
campaign: tiny
pipeline: pipeline.yaml
repetitions: 1
warmup: 0
set: {params.tolerance: 0.5}
matrix: {params.n: [16, 32]}
include: [{params.n: 64}]
"""


def test_each_trial_gets_its_value_in_the_command_and_in_the_template(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=1, repetitions=1)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    (tmp_path / "deck.txt").write_text("deck ${{ params.n }}\n")
    head, *rows = [line.split() for line in campaign.wf("plan").split("\n\n")[1].splitlines()]
    assert head[:2] == ["trial", "n"] and [row[1] for row in rows] == ["16", "32", "64"]
    assert "3 of 3 repetitions succeeded" in campaign.wf("run")
    ran = sorted((tmp_path / "ran.txt").read_text().splitlines())
    assert ran == [f"{n} --tol=0.5 deck {n}" for n in (16, 32, 64)]
    reports = [read_report(run) for run in sorted((campaign.directory / "runs").iterdir()) if run.name != "latest"]
    assert sorted(report.params["n"].value for report in reports) == [16, 32, 64]
    assert {(report.params["tolerance"].value, report.params["tolerance"].unit) for report in reports} == {(0.5, "m")}
    # Nothing runs again, although a text of the pipeline is another one.
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace("largest error", "bound of the error"))
    assert "all of them are finished" in campaign.wf("plan")


def test_zip_varies_parameters_together(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=1, repetitions=1)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "deck.txt").write_text("deck\n")
    zipped = CAMPAIGN.partition("set:")[0] + "zip: {params.n: [1, 2], params.tolerance: [0.1, 0.2]}\n"
    (tmp_path / "campaign.yaml").write_text(zipped)
    campaign.wf("run", "-q")
    assert sorted((tmp_path / "ran.txt").read_text().splitlines()) == ["1 --tol=0.1 deck", "2 --tol=0.2 deck"]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ("{params.nn: [1, 2]}", "campaign.yaml:7:10: params.nn: there is no parameter `nn`\n"),
        ("{params.n: [1, many]}", "campaign.yaml:7:24: params.n: expected a whole number, as the default of `n` is"),
        ("{params.tolerance: [0.1, 2]}", "campaign.yaml:7:34: params.tolerance: expected at most 1, got 2"),
    ],
)
def test_mistakes_have_their_place_in_the_campaign(tmp_path: Path, matrix: str, message: str) -> None:
    campaign = CampaignFolder(tmp_path, values=1, repetitions=1)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "deck.txt").write_text("deck\n")
    text = CAMPAIGN.partition("include:")[0].replace("{params.n: [16, 32]}", matrix)
    text = text.replace("set: {params.tolerance: 0.5}", "set: {}")
    (tmp_path / "campaign.yaml").write_text(text)
    assert f"error: {message}" in campaign.wf("plan", code=2)


def test_a_secret_as_a_value_of_a_campaign_is_refused(tmp_path: Path) -> None:
    campaign = CampaignFolder(tmp_path, values=1, repetitions=1)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace("n: 8", "n: 8\n  api_token: ''"))
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN.replace("params.n: [16, 32]", "params.api_token: [swordfish]"))
    said = campaign.wf("plan", code=2)
    assert "swordfish" not in said
    assert not campaign.directory.exists()
