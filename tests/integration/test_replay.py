"""`wf replay`: analyses run again on recorded streams, and find what they found before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pipelines import FEWER_STEPS, ROOT, TIMEOUT_S, Done, run
from workflow.api.replays import load_replay
from workflow.api.runs import read_report
from workflow.compare.compare_runs import compare_runs
from workflow.errors import RunError
from workflow.plan.topology.replayed_pipeline import ReplayOptions

pytestmark = pytest.mark.turns(2)

PIPELINE = """
stages:
  sim: {{component: gray_scott, with: {{size: [16], steps: 200, write_every: 10}}}}
  pdf: {{component: histogram, with: {{variable: V, bins: 20}}, on_failure: restart}}
  keep: {{component: archive, with: {{path: pdf.bp}}}}
streams:
  field: {{from: sim, to: pdf, {field}}}
  pdf: {{from: pdf, to: keep}}
"""


def replay(done: Path, *options: str, name: str = "again") -> Done:
    folder = done.with_name(name)
    argv = [sys.executable, "-m", "workflow.cli", "replay", str(done), "--run-dir", str(folder), "-q", *options]
    ended = subprocess.run(argv, cwd=done.parent, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return Done(ended.returncode, ended.stdout + ended.stderr, folder)


@pytest.mark.parametrize("field", ["via: bp5", "via: bp5, coupling: live", "via: sst, keep: true"])
def test_the_analysis_finds_the_same_again(field: str, tmp_path: Path) -> None:
    first = run(tmp_path, PIPELINE.format(field=field))
    assert first.code == 0, first.said
    again = replay(first.folder)
    assert again.code == 0, again.said
    assert [stage.name for stage in again.report.stages] == ["pdf", "keep", "field-replay"]
    found = compare_runs(first.folder / "pdf.bp", again.folder / "pdf.bp")
    assert found.identical, found
    assert found.files[0].steps == 21
    assert again.report.stream("field").steps == 21


WITH_TRIGGER = """
stages:
  sim: {component: gray_scott, with: {size: [16], steps: 200, write_every: 10}}
  keep: {component: archive, with: {path: kept.bp}, when: {stream: field, step: "== 7", before: 2, after: 1}}
  pdf: {component: histogram, with: {variable: V}}
  all: {component: "null"}
streams:
  field: {from: sim, to: [keep, pdf], keep: true}
  pdf: {from: pdf, to: all}
"""


def test_a_stage_with_a_trigger_gets_its_steps_again(tmp_path: Path) -> None:
    first = run(tmp_path, WITH_TRIGGER)
    assert first.code == 0, first.said
    again = replay(first.folder, "--stages", "keep")
    assert again.code == 0, again.said
    assert [stage.name for stage in again.report.stages] == ["keep-when", "keep", "field-replay"]
    found = compare_runs(first.folder / "kept.bp", again.folder / "kept.bp")
    assert found.identical, found
    assert found.files[0].steps == 4


def test_some_steps_at_the_recorded_pace(tmp_path: Path) -> None:
    first = run(tmp_path, PIPELINE.format(field="via: bp5"))
    again = replay(first.folder, "--steps", "5:9", "--pace", "recorded")
    assert again.code == 0, again.said
    assert again.report.stream("field").steps == 4
    assert "replay: 4 steps" in again.printed("field-replay")[-1]
    found = compare_runs(first.folder, again.folder)
    assert found.identical and [file.steps for file in found.files] == [4, 4]
    assert f"{again.folder} has the steps from 5 to 8 of its record: these are compared" in found.notes


SERIES = """
stages:
  sim:
    command: ["${{ wf.python }}", PROGRAM, write, "${{ streams.field.path }}", "@${{ streams.field.config }}"]
    writes: {field: {config: openpmd.json}}
  pdf: {component: histogram, with: {variable: /data/meshes/rho}}
  pdfs: {component: archive, with: {path: pdf.bp}}
  keep: {component: archive, with: {path: FILE, format: FORMAT}}
streams:
  field: {from: sim, to: [pdf, keep]}
  pdf: {from: pdf, to: pdfs}
""".replace("PROGRAM", str(ROOT / "tests/support/openpmd_programs.py"))


def test_an_openpmd_archive_is_a_record(tmp_path: Path) -> None:
    first = run(tmp_path, SERIES.replace("FILE", "kept.h5").replace("FORMAT", "openpmd"))
    assert first.code == 0, first.said
    again = replay(first.folder, "--stages", "pdf,pdfs")
    assert again.code == 0, again.said
    found = compare_runs(first.folder / "pdf.bp", again.folder / "pdf.bp")
    assert found.identical and found.files[0].steps == 3, found


def test_an_archive_under_other_names_is_no_record(tmp_path: Path) -> None:
    first = run(tmp_path, SERIES.replace("FILE", "kept.vtkhdf").replace("FORMAT", "auto"))
    assert first.code == 0, first.said
    again = replay(first.folder, "--stages", "pdf,pdfs")
    assert again.code == 2 and "the run has kept no steps of field" in again.said


def test_an_analysis_may_be_changed(tmp_path: Path) -> None:
    first = run(tmp_path, PIPELINE.format(field="via: bp5"))
    again = replay(first.folder, "--set", "stages.pdf.with.bins=7")
    assert again.code == 0, again.said
    plan = json.loads((again.folder / "plan.json").read_text())
    assert next(each for each in plan["stages"] if each["name"] == "pdf")["parameters"]["bins"] == 7
    assert not compare_runs(first.folder / "pdf.bp", again.folder / "pdf.bp").identical


def test_the_options_of_the_run_hold_again(tmp_path: Path) -> None:
    first = run(tmp_path, PIPELINE.format(field="via: sst"), "--set", "streams.field.via=bp5")
    again = replay(first.folder)
    assert again.code == 0, again.said
    assert again.report.stream("field").engine == "BP5"


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ("pfd", "there is no stage `pfd`"),
        ("pdf", "the run has kept no steps of field"),
        ("pdf,keep", "the run has kept no steps of field"),
    ],
)
def test_what_cannot_be_replayed_is_said(stages: str, said: str, tmp_path: Path) -> None:
    text = PIPELINE.format(field="via: sst").replace(", on_failure: restart", "")
    first = run(tmp_path, text)
    assert first.code == 0, first.said
    again = replay(first.folder, "--stages", stages)
    assert again.code == 2, again.said
    assert said in again.said
    assert "Traceback" not in again.said


def test_what_nobody_would_read_is_said(tmp_path: Path) -> None:
    first = run(tmp_path, PIPELINE.format(field="via: bp5"))
    again = replay(first.folder, "--stages", "pdf")
    assert again.code == 2, again.said
    assert "pdf writes pdf, and none of the stages pdf reads it" in again.said
    assert "--stages pdf,keep" in again.said


@pytest.mark.parametrize("steps", ["5", "9:5", "a:b"])
def test_a_wrong_range_is_refused(steps: str, tmp_path: Path) -> None:
    again = replay(tmp_path / "none", "--steps", steps)
    assert again.code == 2
    assert "for example `--steps 40:60`" in again.said or "no run" in again.said


def test_a_pipeline_file_that_is_gone(tmp_path: Path) -> None:
    first = run(tmp_path, PIPELINE.format(field="via: bp5"))
    (tmp_path / "pipeline.yaml").rename(tmp_path / "moved.yaml")
    with pytest.raises(RunError, match="is not there"):
        load_replay(first.folder)
    loaded = load_replay(first.folder, pipeline=tmp_path / "moved.yaml", options=ReplayOptions(first=3))
    assert loaded.parameters["field-replay"]["first"] == 3


@pytest.mark.parametrize("example", ["01-shock-diffraction", "02-gray-scott"])
def test_examples_are_replayed_byte_for_byte(example: str, tmp_path: Path) -> None:
    folder = ROOT / "examples" / example
    if not folder.is_dir():
        pytest.fail(f"there is no example {example}")
    argv = [sys.executable, "-m", "workflow.cli", "run", str(folder / "pipeline.yaml"), "--via", "bp5", "-q"]
    argv += FEWER_STEPS[example]
    done = subprocess.run(
        [*argv, "--run-dir", str(tmp_path / "run")], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    again = replay(tmp_path / "run")
    assert again.code == 0, again.said
    names = [path.name for path in (tmp_path / "run").glob("*.bp")]
    assert names
    for name in names:
        assert compare_runs(tmp_path / "run" / name, again.folder / name).identical
    assert read_report(again.folder).run.state == "succeeded"
