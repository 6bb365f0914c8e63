"""What the plan says of values that can be changed: declared, known to change, and in the files of programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.planner import SITE
from workflow.errors import SpecError
from workflow.formats.steering_files import ValueChange
from workflow.plan.make import make_plan
from workflow.plan.plan_model import FROM_FILE, Plan, StagePlan
from workflow.run.records.run_directory import fill_plan
from workflow.spec.load import load_pipeline

PIPELINE = """
wf: 1
name: steered
stages:
  sim:
    component: gray_scott
    with: {F: 0.02}
    steer: {F: {at: [{step: 9, value: 1}, {step: 4, value: 0.03}]}}
  own:
    command: [solve]
    env: {A: "${{ run.dir }}"}
    steer:
      feed: {value: 0.03, maximum: 1, file: ./in/deck, text: "# $${{ x }}, ${{ run.dir }}\\nfeed ${{ steer.value }} $"}
      on: {value: true, file: on}
    reads: {field: {io: in, config: adios2.xml}}
  keep: {component: archive, with: {path: field.bp}}
streams:
  field: {from: sim, to: [own, keep]}
"""


def plan(tmp_path: Path, **changes: list[ValueChange]) -> Plan:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    loaded = replace(load_pipeline(file), changes=changes)
    return make_plan(loaded, SITE, python="/python", wf_version="0")


def own(made: Plan) -> StagePlan:
    return fill_plan(made, Path("/r")).stage("own")


def test_a_component_has_its_parameters(tmp_path: Path) -> None:
    stage = plan(tmp_path).stage("sim")
    assert list(stage.steer) == ["F", "k"]
    assert (stage.steer["F"].type, stage.steer["F"].value, stage.steer["F"].minimum) == ("float", 0.02, 0)
    assert [(each.step, each.values, each.by) for each in stage.changes] == [
        (4, {"F": 0.03}, FROM_FILE), (9, {"F": 1.0}, FROM_FILE),
    ]  # fmt: skip
    assert plan(tmp_path).stage("keep").steer == {}


def test_what_an_earlier_run_has_taken_is_repeated(tmp_path: Path) -> None:
    before = [ValueChange("a", {"F": 0.5, "k": 0.1}, 4, "ada@n1"), ValueChange("b", {"k": 0.2}, 12, "stage look")]
    stage = plan(tmp_path, sim=before).stage("sim")
    assert [each.id for each in stage.changes] == ["F-at-4", "a", "F-at-9", "b"], (
        "of one step that of the file is first"
    )
    assert stage.changes[-1].by == "stage look"
    with pytest.raises(SpecError, match="`G` was changed at step 7 by ada, and cannot be steered any more"):
        plan(tmp_path, sim=[ValueChange("a", {"G": 0.5}, 7, "ada")])


def test_a_program_finds_the_value_in_its_file(tmp_path: Path) -> None:
    stage = own(plan(tmp_path))
    assert stage.files["/r/stages/own/work/in/deck"] == "# ${{ x }}, /r\nfeed 0.03 $"
    assert stage.files["/r/stages/own/work/on"] == "true\n"
    assert stage.steer["feed"].around == ["# ${{ x }}, /r\nfeed ", " $"]


def test_a_part_begins_with_the_value_that_the_program_had_last(tmp_path: Path) -> None:
    before = [ValueChange("files", {"feed": 0.07}, None, "part1"), ValueChange("look-3-0", {}, None, "")]
    stage = own(plan(tmp_path, own=before))
    assert (stage.answered, [each.id for each in stage.changes]) == (["look-3-0"], ["files"])
    assert stage.files["/r/stages/own/work/in/deck"].endswith("feed 0.07 $")
    assert stage.steer["feed"].value == 0.03, "what the pipeline file says"
