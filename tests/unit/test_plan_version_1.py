"""Runs of plan version 1, from before plans had what to launch instead of launch lines: read as those of today.

tests/golden/run-of-plan-version-1 was made by wf at commit cdf208e: sim and drop share a launch line, side has one of
its own, keep was started directly. Its paths are normalised; the data files are left out.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.planner import SITE, Planner
from workflow.compare.compare_runs import compare_runs
from workflow.errors import RunError
from workflow.launch.launchers import launch_line
from workflow.launch.old_options import OLD_OPTIONS
from workflow.plan.launch_requests import group_request, stage_request
from workflow.plan.plan_model import Plan
from workflow.plan.read_plan import read_plan
from workflow.report.report_files import compute_report
from workflow.report.show.plan_tables import launch_lines
from workflow.run.run_directory import read_filled_plan

RUN = Path(__file__).parents[1] / "golden/run-of-plan-version-1"


@pytest.fixture
def old_run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RUN, tmp_path / "small"))


def test_its_launch_lines_are_those_that_were_executed() -> None:
    old = json.loads((RUN / "plan.json").read_text())
    plan = read_plan((RUN / "plan.json").read_bytes(), "plan.json")
    executed = {stage["name"]: stage["argv"] for stage in old["stages"]}
    lines = dict(launch_lines(plan))
    assert lines["sim, drop"] == old["groups"][0]["argv"]
    assert (lines["side"], lines["keep"]) == (executed["side"], executed["keep"])
    assert plan.stage("sim").launch.wrapper == executed["sim"]
    assert [stage.launch.launcher for stage in plan.stages] == ["mpiexec", "mpiexec", "mpiexec", "none"]


def test_its_report_is_what_it_was(old_run: Path) -> None:
    old = json.loads((RUN / "report-of-that-wf.json").read_text())
    new = compute_report(old_run).model_dump(mode="json")
    assert read_filled_plan(old_run).plan_version == 3
    for part, keys in (
        ("stages", ("name", "program", "ranks", "state", "exit_code", "wall_s", "steps_in", "steps_out", "bytes_out")),
        ("streams", ("name", "writer", "engine", "transport", "steps", "bytes", "complete")),
    ):
        assert [[each[key] for key in keys] for each in new[part]] == [
            [each[key] for key in keys] for each in old[part]
        ]
    assert new["run"]["state"] == "succeeded"


def test_status_and_report_show_it(old_run: Path) -> None:
    for verb in ("status", "report"):
        command = [sys.executable, "-m", "workflow.cli", verb, str(old_run)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert "succeeded" in said
        assert "sim → drop" in said


def test_it_is_compared(old_run: Path, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(old_run / "kept.h5", "w") as file:
        file["Step0/grid"] = [1.0, 2.0]
    other = shutil.copytree(old_run, tmp_path / "other")
    comparison = compare_runs(old_run, Path(other))
    assert [(each.path, each.differences) for each in comparison.files] == [("kept.h5", [])]


def as_version_1(plan: Plan) -> dict[str, Any]:
    """What the version before would have written for this plan."""
    data: dict[str, Any] = json.loads(plan.to_json()) | {"plan_version": 1}
    for stage, part in zip(plan.stages, data["stages"], strict=True):
        del part["launch"]
        part["launcher"] = stage.launch.launcher
        part["argv"] = stage.launch.wrapper or launch_line(stage_request(stage, plan)).argv
    for group, part in zip(plan.groups, data["groups"], strict=True):
        del part["launch"]
        line = launch_line(group_request(group, plan))
        part |= {"launcher": group.launch.launcher, "argv": line.argv, "files": line.texts()}
    return data


@pytest.mark.parametrize("arguments", [[], ["--mpi=pmi2", "-v"]])
@pytest.mark.parametrize("via", [None, "ssc"])
def test_the_sites_arguments_are_found_in_a_line(plan_of: Planner, arguments: list[str], via: str | None) -> None:
    old = OLD_OPTIONS["mpiexec"]
    site = SITE.model_copy(
        update={"nodes": 4, "launcher_args": arguments, "launch_single": True, "launcher_options": old}
    )
    sets = ("stages.walk.ranks=2", "stages.count.place.share=walk", "stages.keep.place.share=walk")
    plan = plan_of(via=via, site=site, sets=(*sets, "oversubscribe=true"))
    assert len(plan.groups) == (via == "ssc")
    read = read_plan(json.dumps(as_version_1(plan)), "plan.json")
    assert read.model_copy(update={"node": plan.node}) == plan


def _without_launcher(group: dict[str, Any]) -> None:
    if "launch" in group:
        group["launch"] = {"launcher": "none"}
    else:
        group["launcher"] = "none"


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("spoil", [_without_launcher, lambda group: group.update(stages=[])])
def test_a_group_that_makes_no_line_is_refused(plan_of: Planner, version: int, spoil: Any) -> None:
    plan = plan_of(via="ssc")
    data = as_version_1(plan) if version == 1 else json.loads(plan.to_json())
    spoil(data["groups"][0])
    with pytest.raises(RunError, match=r"plan\.json cannot be read: it is not a plan"):
        read_plan(json.dumps(data), "plan.json")


def test_an_unknown_launcher_is_refused_when_the_plan_is_read(plan_of: Planner) -> None:
    data = json.loads(plan_of().to_json())
    data["stages"][0]["launch"]["launcher"] = "mpirun"
    with pytest.raises(RunError) as caught:
        read_plan(json.dumps(data), "plan.json")
    expected = 'plan.json cannot be read: stages.0.launch.launcher: there is no launcher "mpirun"; launchers: `none`'
    assert str(caught.value).startswith(expected)
