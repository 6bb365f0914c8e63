"""The studies of examples/campaigns run: one repetition of their smallest scale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.pipelines import ROOT
from workflow import run_campaign
from workflow.api.campaigns import plan_campaign
from workflow.compare.compare_runs import compare_runs

pytestmark = pytest.mark.turns(2)

FOLDER = ROOT / "examples/campaigns"
STUDIES = sorted(
    path.parent
    for path in FOLDER.glob("**/campaign.yaml")
    if "tiny" in yaml.safe_load(path.read_text()).get("scales", {})
)


# The others need an ADIOS2 with MPI or more compressors; tests/docs/test_study_*.py run two of them.
HERE = [path for path in STUDIES if path.name not in ("data-reduction", "h5part", "in-situ-transport")]


@pytest.mark.parametrize("study", HERE, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_a_repetition_of_every_trial_succeeds(study: Path, tmp_path: Path) -> None:
    outcome = run_campaign(study / "campaign.yaml", tmp_path / "campaign", sets=["scale=tiny"])
    assert outcome.status.complete, outcome.status
    assert {(trial.succeeded, trial.failed) for trial in outcome.status.trials} == {(1, 0)}


def test_all_ways_of_in_situ_transport_bring_all_values(mpi_python: str, tmp_path: Path) -> None:
    """Its programs check each value, and end with an error otherwise."""
    command = [mpi_python, "-m", "workflow.cli", "campaign"]
    for words in (
        ["run", str(FOLDER / "in-situ-transport/campaign.yaml"), "--set", "scale=tiny"],
        ["report", "in-situ-transport"],
    ):
        done = subprocess.run(
            [*command, *words], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
            text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "campaigns/in-situ-transport/report.json").read_bytes())
    measured = {
        each["parameters"]["profile"]: each["median"] for each in report["results"] if each["metric"] == "transport"
    }
    assert measured.keys() == {"memory", "file-live", "file-after", "messages"} and all(measured.values()), measured


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_the_largest_scale_is_planned_for_a_large_machine(study: Path) -> None:
    sets = ["scale=cluster", "set.site.operators=[blosc, bzip2, zfp]"]
    planned, problems, _ = plan_campaign(study / "campaign.yaml", sets=sets, site="frontier", as_written=True)
    assert planned.ready and not planned.problems
    assert [problem for problem in problems if problem.level == "error"] == []


def test_the_tracers_are_the_same_in_the_simulation_and_beside_it(tmp_path: Path) -> None:
    for name, ranks, options in (("inside", 2, []), ("beside", 1, ["--profile", "offloaded"])):
        sizes = {"size": 32, "steps": 3, "tracers": 50}
        sets = [f"--set=stages.simulation.with.{key}={value}" for key, value in sizes.items()]
        sets += ["--set=stages.tracers.with.tracers=50"] if options else []
        argv = [
            sys.executable, "-m", "workflow.cli", "run", f"{FOLDER}/adios-at-scale/offloading/pipeline.yaml", "-q",
            *sets, *options, f"--set=stages.simulation.ranks={ranks}", "--set=streams.tracks.via=bp5",
            "--run-dir", str(tmp_path / name),
        ]  # fmt: skip
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
    found = compare_runs(tmp_path / "inside", tmp_path / "beside")
    assert found.identical and [(file.steps, file.variables) for file in found.files] == [(3, 2)]
