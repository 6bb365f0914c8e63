"""SIGKILL of any stage at any moment: the run ends by no deadline and soon, names that stage, and leaves nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.chains import Way, chain
from tests.support.watching import NAMED_WITHIN_S, describe, held, kill, run_and_hurt, stepped

# who is killed, and whether a sink follows the reader
VICTIMS = {"writer": ("md", True), "reader": ("saxs", False), "middle": ("saxs", True), "sink": ("keep", True)}
MOMENTS = {"before open": "open", "in a step": "step:3", "between steps": "", "at the end": "end"}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("way", ["sst", "live", "after"])
def test_killed_stage_is_named(way: Way, victim: str, moment: str, tmp_path: Path) -> None:
    check(way, victim, moment, tmp_path, plain=False)


@pytest.mark.parametrize("moment", ["in a step", "between steps"])
@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("way", ["sst", "after"])
def test_killed_program_that_knows_nothing_of_wf_is_named(way: Way, victim: str, moment: str, tmp_path: Path) -> None:
    check(way, victim, moment, tmp_path, plain=True)


def check(way: Way, victim: str, moment: str, folder: Path, *, plain: bool) -> None:
    name, sink = VICTIMS[victim]
    place = MOMENTS[moment]
    if way == "after" and not place:
        place = "step:40"  # a reader of a file is done before anybody could look
    steps = 60 if place or way == "after" else 100000
    plan = chain(
        way, plain=plain, sink=sink, steps=steps, step_s=0.002 if way == "after" else 0.005,
        options={name: ["--hold", place]} if place else {},
    )  # fmt: skip
    outcome = run_and_hurt(plan, folder, held(name) if place else stepped(name, 5), kill(name))
    story = describe(outcome.state, outcome.run_dir)
    assert outcome.passed_deadlines() == [], story
    assert outcome.reaction_s() < NAMED_WITHIN_S, story
    assert outcome.verdict.state == "failed"
    assert outcome.verdict.exit_code == 1
    assert outcome.verdict.stage == name, story
    assert "killed by signal 9 (SIGKILL)" in outcome.verdict.reason, story
    assert outcome.state.stages[name].status == "failed"
    others = {stage.status for stage in outcome.state.stages.values() if stage.name != name}
    assert others <= {"stopped", "failed", "succeeded"}, story
    outcome.assert_tidy()
    last = json.loads((outcome.run_dir / "events.jsonl").read_text().splitlines()[-1])
    assert last["event"] == "run_finished"
