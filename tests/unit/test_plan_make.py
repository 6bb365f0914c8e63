"""The plan as a whole: the same every time, JSON both ways, and made without a look at the machine."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.planner import SITE, Planner
from workflow.errors import SpecError
from workflow.plan.make import make_plan
from workflow.plan.placeholders import fill_all
from workflow.plan.plan_model import Plan
from workflow.spec.load import Loaded

OPTIONS: list[dict[str, Any]] = [
    {},
    {"via": "bp5"},
    {"via": "hdf5"},
    {"via": "bp5", "sets": ("streams.*.coupling=live",)},
    {"sets": ("stages.walk.ranks=3",)},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_equal_inputs_give_equal_bytes(plan_of: Planner, options: dict[str, Any]) -> None:
    first = plan_of(**options).to_json()
    assert plan_of(**options).to_json() == first
    assert Plan.model_validate_json(first).to_json() == first


def test_the_order_of_dictionaries_inside_does_not_matter(plan_of: Planner) -> None:
    """The file's order of stages and streams is the plan's; that of everything that is looked up is not."""
    loaded = plan_of.load()
    shuffled = random.Random(1)
    expected = make_plan(loaded, SITE, python="/p", wf_version="0").to_json()
    for _ in range(5):
        changed: dict[str, Any] = {}
        for name in ("components", "component_dirs", "engines", "parameters"):
            items = list(getattr(loaded, name).items())
            shuffled.shuffle(items)
            changed[name] = dict(items)
        again: Loaded = dataclasses.replace(loaded, **changed)
        assert make_plan(again, SITE, python="/p", wf_version="0").to_json() == expected


def test_planning_looks_at_nothing(plan_of: Planner) -> None:
    """No file, process, host name or environment: an audit hook sees what the interpreter does meanwhile."""
    loaded = plan_of.load()
    make_plan(loaded, SITE, python="/p", wf_version="0")  # imports are done
    seen: list[str] = []
    watching = True

    def hook(event: str, _: tuple[object, ...]) -> None:
        if watching and event.split(".")[0] in ("open", "os", "socket", "subprocess", "time", "shutil", "import"):
            seen.append(event)

    sys.addaudithook(hook)
    make_plan(loaded, SITE, python="/p", wf_version="0")
    watching = False
    assert seen == []


def test_the_run_directory_is_the_only_thing_left_to_fill(plan_of: Planner) -> None:
    plan = plan_of()
    assert "${{ run.dir }}" in plan.to_json()
    filled = fill_all(plan.model_dump(mode="python", include={"stages", "streams"}), "/runs/1")
    assert "${{" not in str(filled)
    assert filled["stages"][0]["ends"][0]["path"] == "/runs/1/streams/positions"


def test_names_and_paths_of_the_machine_are_only_what_was_given(plan_of: Planner) -> None:
    plan = plan_of()
    assert plan.pipeline_file == str(plan_of.folder / "pipeline.yaml")
    assert (plan.wf_version, plan.site, plan.pipeline) == ("1.2.3", "test", "test")
    assert plan.stage("walk").program[0] == "/env/bin/python"


def test_all_mistakes_come_at_once_in_the_files_order(plan_of: Planner) -> None:
    text = """
stages:
  walk: {component: walker, ranks: 9, env: {OUT: "${{ run }}"}}
  count: {component: tally, with: {variable: speed}}
  keep: {component: keep, ranks: 2}
streams:
  positions: {from: walk, to: count, parameters: {queuelimit: 3}}
  counts: {from: count, to: keep, via: bp5, parameters: {Threds: 2}}
"""
    with pytest.raises(SpecError) as caught:
        plan_of(text)
    problems = caught.value.problems
    assert [problem.key for problem in problems] == [
        "stages.walk.ranks",
        "stages.walk.env.OUT",
        "stages.count.with.variable",
        "stages.keep.ranks",
        "streams.positions.parameters.queuelimit",
        "streams.counts.parameters.Threds",
    ]
    assert all(problem.line > 0 and problem.hint for problem in problems)


def test_a_pipeline_of_one_program(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of("stages: {hello: {command: [echo, hello]}}\n")
    assert plan.streams == []
    assert plan.stage("hello").kind == "simulation"
    assert plan.stage("hello").ends == []
    assert not (tmp_path / "runs").exists()


def test_equal_bytes_whatever_the_hash_seed() -> None:
    """Sets iterate in another order in each process: none may reach the plan."""
    root = Path(__file__).parents[2]
    argv = [sys.executable, "-m", "workflow.cli", "plan", str(root / "examples/01-shock-diffraction/pipeline.yaml")]
    argv += ["--json", "--set", "oversubscribe=true"]
    environments = [{**os.environ, "PYTHONHASHSEED": seed} for seed in "1234"]
    plans = {subprocess.run(argv, env=env, cwd=root, check=True, capture_output=True).stdout for env in environments}
    assert len(plans) == 1
