"""Each public function that takes a path takes it as text, as a Path, and as any other path object."""

from __future__ import annotations

import inspect
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import workflow
import workflow.stage
from tests.support.sample_run import write_sample
from workflow.api.runs import start_run
from workflow.compare.compare_runs import compare_runs
from workflow.errors import RunError, SpecError

ROOT = Path(__file__).parents[2]
FUNCTIONS = {
    *(getattr(workflow, name) for name in workflow.__all__ if name != "__version__"),
    *(getattr(workflow.stage, name) for name in workflow.stage.__all__),
    compare_runs,
}
PathText = str | os.PathLike[str]


class Named:
    """A path object that is no Path, and whose text is none."""

    def __init__(self, path: PathText) -> None:
        self._path = os.fspath(path)

    def __fspath__(self) -> str:
        return self._path


FORMS = pytest.mark.parametrize("form", [str, Path, Named])
Form = Callable[[PathText], PathText]


@pytest.fixture(autouse=True)
def _starter_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory holds the starter's pipeline, two equal runs below `runs/`, and a site of their own."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples/00-starter/pipeline.yaml", tmp_path)
    shutil.copy(ROOT / "configs/sites/local.yaml", tmp_path / "mine.yaml")
    (tmp_path / "runs").mkdir()
    for name in ("one", "other"):
        write_sample(tmp_path / "runs" / name, steps=10)
    (tmp_path / "runs/latest").symlink_to("one")


def test_no_parameter_takes_a_path_of_one_form_only() -> None:
    taken = {
        (function.__name__, name): str(parameter.annotation)
        for function in FUNCTIONS
        if inspect.isfunction(function)
        for name, parameter in inspect.signature(function).parameters.items()
        if "Path" in str(parameter.annotation) or (name == "site" and "str" in str(parameter.annotation))
    }
    assert {key for key, annotation in taken.items() if "str | os.PathLike[str]" not in annotation} == set()
    assert taken.keys() == {
        ("load_pipeline", "path"), ("load_pipeline", "site"), ("run_pipeline", "path"), ("run_pipeline", "site"),
        ("run_pipeline", "run_dir"), ("start_run", "run_dir"), ("detach_run", "run_dir"), ("create_run", "run_dir"),
        ("read_report", "run"), ("load_replay", "run"), ("load_replay", "pipeline"),
        ("steps_table", "run"), ("compare_runs", "a"), ("compare_runs", "b"), ("open_reader", "path"),
        ("open_writer", "path"), ("plan_campaign", "path"), ("plan_campaign", "directory"), ("plan_campaign", "site"),
        ("run_campaign", "site"), ("run_campaign", "path"), ("run_campaign", "directory"),
        ("detach_campaign", "site"), ("detach_campaign", "path"), ("detach_campaign", "directory"),
        ("campaign_status", "campaign"), ("campaign_status", "directory"), ("report_campaign", "campaign"),
        ("report_campaign", "directory"), ("compare_campaigns", "base"), ("compare_campaigns", "new"),
        ("gate_campaign", "directory"), ("gate_campaign", "site"),
        ("archive_run", "run"), ("archive_run", "archive"), ("archive_campaign", "campaign"),
        ("archive_campaign", "archive"), ("archive_campaign", "directory"),
        ("keep_measurements", "source"),
        ("attach", "run"), ("follow", "path"), ("follow", "events"),
        ("look_at", "run"), ("look_at", "other"), ("look_at", "page"),
    }  # fmt: skip


@FORMS
def test_pipelines_and_run_directories(form: Form, tmp_path: Path) -> None:
    loaded = workflow.load_pipeline(form("pipeline.yaml"), site=form(tmp_path / "mine.yaml"))
    assert loaded.spec.site == str(tmp_path / "mine.yaml")
    directory, states = start_run(loaded, workflow.make_plan(loaded), form("started"))
    states.close()
    assert directory == tmp_path / "started"


@FORMS
def test_runs(form: Form, tmp_path: Path) -> None:
    sets = ["stages.sim.with.steps=20"]
    report = workflow.run_pipeline(form("pipeline.yaml"), site=form("mine.yaml"), run_dir=form("run"), sets=sets)
    assert report.run.state == "succeeded", report.run.reason
    assert report.run_dir == tmp_path / "run"


@FORMS
def test_messages_name_the_file_as_given(form: Form, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("wf: 1\nname: bad\nstage: {}\n")
    with pytest.raises(SpecError) as caught:
        workflow.load_pipeline(form("bad.yaml"))
    assert {problem.source for problem in caught.value.problems} == {"bad.yaml"}
    with pytest.raises(RunError, match="there is no run `runs/none`"):
        workflow.read_report(form("runs/none"))


@FORMS
@pytest.mark.parametrize("run", ["runs/latest", "one", "latest", None])
def test_tables_and_reports(form: Form, run: str | None, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    assert len(workflow.steps_table(form(run) if run else None)) == 4 * 10
    report = workflow.read_report(form(run) if run else None)
    assert report.run_dir == tmp_path / "runs/one"


@FORMS
def test_files_of_data(form: Form, tmp_path: Path) -> None:
    for name in ("a.bp", "b.bp"):
        with workflow.stage.open_writer(path=form(tmp_path / name)) as out, out.step():
            out.write("x", np.arange(3.0), shape=(3,), start=(0,))
    with workflow.stage.open_reader(path=form("a.bp")) as reader:
        assert [step.read("x").tolist() for step in reader] == [[0.0, 1.0, 2.0]]
    comparison = compare_runs(form("a.bp"), form(tmp_path / "b.bp"))
    assert comparison.identical and (comparison.a, comparison.b) == ("a.bp", str(tmp_path / "b.bp"))


@FORMS
def test_calibration(form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    kept = workflow.keep_measurements(form(write_sample(tmp_path / "former")))
    assert kept.file.parent == tmp_path / "config/wf/calibration" and kept.stages == 3


@FORMS
def test_campaigns(form: Form, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text('wf: 1\nname: tiny\nstages: {one: {command: ["true"]}}\n')
    (tmp_path / "campaign.yaml").write_text(
        "wf: 1\ncampaign: tiny\npipeline: pipeline.yaml\nrepetitions: 1\nwarmup: 0\n"
    )
    planned, _, _ = workflow.plan_campaign(form("campaign.yaml"))
    assert len(planned.ready) == 1
    outcome = workflow.run_campaign(form("campaign.yaml"), form("measured"))
    assert outcome.directory == tmp_path / "measured" and outcome.status.complete
    assert workflow.campaign_status(form("measured")).complete
    results, written = workflow.report_campaign(form("campaign.yaml"), form(tmp_path / "measured"))
    changes = workflow.compare_campaigns(form("measured"), form(tmp_path / "measured" / "report.json"))
    assert len(changes.changes) == len(results.results)
    assert results.results[0].values and all(path.parent == tmp_path / "measured" for path in written)
    archive, _ = workflow.archive_campaign(form("measured"), form("measured.zip"))
    assert archive == Path("measured.zip") and archive.is_file()


@FORMS
def test_a_replay_of_a_run(form: Form, tmp_path: Path) -> None:
    with pytest.raises((RunError, SpecError)):
        workflow.load_replay(form(tmp_path / "runs/one"), pipeline=form(tmp_path / "pipeline.yaml"))


@FORMS
def test_joining_a_run(form: Form, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not running"):
        workflow.attach(form(tmp_path / "runs/one"))
    with workflow.stage.open_writer(path=tmp_path / "a.bp") as out, out.step():
        out.write("x", np.arange(3.0), shape=(3,), start=(0,))
    with workflow.stage.follow(form("a.bp"), form(tmp_path / "events.jsonl"), "a") as steps:
        assert [step.read("x").tolist() for step in steps] == [[0.0, 1.0, 2.0]]
