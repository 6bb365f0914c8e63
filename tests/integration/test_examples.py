"""Every example is run, by stream and by file in both couplings, and must hold the same data each time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pipelines import FEWER_STEPS
from workflow.compare.compare_runs import compare_runs
from workflow.engines import CONTACT_SUFFIXES
from workflow.plan.plan_model import Plan
from workflow.plan.read_plan import read_plan
from workflow.report.report_model import Report
from workflow.run.records.run_directory import kept_plan

pytestmark = pytest.mark.turns(2)

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/pipeline.yaml"))
WAYS: dict[str, list[str]] = {
    "stream": [],
    "after": ["--via", "bp5"],
    "live": ["--via", "bp5", "--set", "streams.*.coupling=live"],
}


def wf(*argv: str, cwd: Path, code: int = 0) -> str:
    env = {**os.environ, "COLUMNS": "100"}
    # On a busy machine a run takes as long as it takes: a deadline is that of the test.
    argv = (sys.executable, "-m", "workflow.cli", *argv)
    answer = subprocess.run(argv, capture_output=True, text=True, cwd=cwd, env=env)
    assert answer.returncode == code, f"wf {' '.join(argv)}\n{answer.stdout}\n{answer.stderr}"
    return answer.stdout


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """Example 03 has a program to build, as its README says."""
    folder = ROOT / "examples/03-your-own-program"
    subprocess.run(["make", f"PYTHON={sys.executable}"], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_dry_run_is_the_plan_that_the_run_writes(example: Path, tmp_path: Path) -> None:
    pipeline = str(example / "pipeline.yaml")
    planned = wf("plan", pipeline, "--json", cwd=tmp_path)
    assert planned == wf("run", pipeline, "--dry-run", cwd=tmp_path)
    assert Plan.model_validate_json(planned).to_json() == planned
    assert not list(tmp_path.iterdir()), "a dry run wrote something"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one for each example, with a run of each way."""
    return tmp_path_factory.mktemp("examples")


def run_as_planned(example: Path, way: str, home: Path) -> Path:
    """The directory of the run, which is the first one of that way."""
    pipeline, folder = str(example / "pipeline.yaml"), home / example.name
    folder.mkdir(exist_ok=True)
    if not (folder / way).exists():
        asked = [*WAYS[way], *FEWER_STEPS.get(example.name, [])]
        planned = wf("plan", pipeline, *asked, "--json", cwd=folder)
        wf("run", pipeline, *asked, "--run-dir", way, cwd=folder)
        kept = kept_plan(read_plan(planned, "the plan"))
        assert (folder / way / "plan.json").read_text() == kept.to_json()
    return folder / way


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_as_planned(example: Path, way: str, home: Path) -> None:
    """Each way is a test, with a deadline of its own, which three of them together exceed on a busy machine."""
    check_report(run_as_planned(example, way, home))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_stream_and_file_give_the_same_data(example: Path, home: Path) -> None:
    stream, after, live = (run_as_planned(example, way, home) for way in WAYS)
    comparison = compare_runs(stream, live)
    assert comparison.identical, comparison
    assert "identical" in wf("compare", "stream", "after", cwd=after.parent)


def check_report(run_dir: Path) -> None:
    report = Report.model_validate(json.loads((run_dir / "report.json").read_text()))
    assert report.run.state == "succeeded"
    for stream in report.streams:
        assert stream.steps, stream
        for reader in stream.readers:
            # A program of one's own that reads a file leaves no trace of how much of it.
            unseen = report.stage(reader.stage).observed == "evidence" and stream.engine != "SST"
            assert reader.steps == (None if unseen else stream.steps), stream
    assert not [path for path in run_dir.rglob("*") if path.suffix in CONTACT_SUFFIXES], (
        "a contact file was left behind"
    )
