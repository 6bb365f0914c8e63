"""A campaign that grew: what was measured at another time gets no verdict, until it is measured again beside it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.support.campaigns import CampaignFolder
from workflow.campaign.ledger import Repetition, read_history

REPETITIONS = 8
# What a program takes on a machine that others use, too: it says so itself, no clock decides. A little more each time.
PIPELINE = """wf: 1
name: tiny
oversubscribe: true
stages:
  one:
    command: [./program.sh]
    env: {VALUE: 0, FOLDER: "${{ pipeline.dir }}"}
"""
PROGRAM = """#!/bin/sh
test -e "$FOLDER/load" || exit 1
count=$(cat "$FOLDER/ran.txt" 2> /dev/null | wc -l)
echo "$VALUE" >> "$FOLDER/ran.txt"
echo "{\\"time\\": $(cat "$FOLDER/load").00$((count % 10))}" > figures.json
"""
MORE = """metrics: {time: {of: stages.one.figures.time, better: less, unit: s}}
comparisons: [{vary: stages.one.env.VALUE}]
"""


@pytest.fixture
def grown(tmp_path: Path) -> CampaignFolder:
    """One trial was measured on a quiet machine, another one is to be measured on a busy one."""
    campaign = CampaignFolder(tmp_path, values=1, repetitions=REPETITIONS, more=MORE)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    program = tmp_path / "program.sh"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    (tmp_path / "load").write_text("1")
    campaign.wf("run", "-q")
    (tmp_path / "load").write_text("2")
    campaign.write(values=2, repetitions=REPETITIONS, more=MORE)
    return campaign


def report(campaign: CampaignFolder) -> tuple[dict[str, object], list[str]]:
    """The only comparison, and the notes."""
    campaign.wf("report")
    results = json.loads((campaign.directory / "report.json").read_text())
    (comparison,) = results["comparisons"]
    return comparison, results["notes"]


def test_what_was_measured_at_another_time_gets_no_verdict(grown: CampaignFolder) -> None:
    grown.wf("run", "-q")
    comparison, notes = report(grown)
    assert comparison["decision"] == "undecided", "the load of the machine was taken for a property of the trial"
    assert comparison["in_turns"] is False
    assert any("1 comparison of trials that were not interleaved" in note for note in notes)
    assert any("--remeasure-reference" in note for note in notes)


@pytest.mark.parametrize("first", [False, True], ids=["at-once", "later"])
def test_the_reference_is_measured_again_beside_the_new(grown: CampaignFolder, first: bool) -> None:
    """With the option at once, or after the new trial was measured alone: then it is measured again, too."""
    if first:
        grown.wf("run", "-q")
    before = len(grown.ran())
    grown.wf("run", "-q", "--remeasure-reference")
    assert Counter(grown.ran()[before:]) == {"1": REPETITIONS, "2": REPETITIONS}
    for start in range(before, len(grown.ran()), 2):
        assert sorted(grown.ran()[start : start + 2]) == ["1", "2"], "they do not run in turns"
    comparison, notes = report(grown)
    assert comparison["in_turns"] is True
    assert isinstance(comparison["ratio"], float) and 0.9 < comparison["ratio"] < 1.1
    assert comparison["decision"] != "slower"
    assert any("measured more than once" in note for note in notes)
    grown.wf("run", "-q", "--remeasure-reference")
    assert len(grown.ran()) == before + 2 * REPETITIONS, "what was measured in turns ran again"


def test_what_was_measured_before_is_kept_when_a_new_measurement_fails(grown: CampaignFolder) -> None:
    reference = next(iter(read_history(grown.directory).ended)).key
    (grown.folder / "load").unlink()
    grown.wf("run", "-q", "--remeasure-reference", code=1)
    history = read_history(grown.directory)
    measured = [history.ended[Repetition(reference, number)] for number in range(1, REPETITIONS + 1)]
    assert {each.state for each in measured} == {"succeeded"}
    assert {int(each.figures["stages.one.figures.time"]) for each in measured} == {1}


@pytest.mark.parametrize(
    ("more", "said"),
    [("", "compares nothing"), (f"{MORE}order: {{by: file}}\n", "all repetitions of a trial run together")],
)
def test_where_nothing_can_be_measured_again_it_is_said(tmp_path: Path, more: str, said: str) -> None:
    campaign = CampaignFolder(tmp_path, values=2, repetitions=1, more=more)
    assert said in campaign.wf("run", "--remeasure-reference", code=2)
    assert campaign.ran() == []
