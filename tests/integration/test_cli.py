"""The verbs as a user types them, on one small real run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from workflow import load_pipeline, make_plan, read_report, report_tables, run_pipeline

ROOT = Path(__file__).parents[2]
STARTER = ROOT / "examples/00-starter/pipeline.yaml"


def wf(*argv: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "workflow.cli", *argv]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, timeout=120)
    assert answer.returncode == code, f"{argv}\n{answer.stdout}\n{answer.stderr}"
    assert "Traceback" not in answer.stderr
    return answer


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory where the starter pipeline has been run once, by `wf init` and `wf run`."""
    folder = tmp_path_factory.mktemp("home")
    wf("init", "first", cwd=folder)
    wf("run", "first/pipeline.yaml", cwd=folder)
    return folder


def test_run_directory_holds_what_the_docs_say(home: Path) -> None:
    run = home / "runs" / "latest"
    for name in ("pipeline.yaml", "plan.json", "command.json", "events.jsonl", "report.json", "report.html", "pdf.bp"):
        assert (run / name).exists(), name
    for stage in ("sim", "pdf", "keep"):
        for name in ("stage.json", "stdout.log", "stderr.log", "metrics.jsonl", "work"):
            assert (run / "stages" / stage / name).exists(), f"{stage}/{name}"
    assert (run / "pipeline.yaml").read_bytes() == STARTER.read_bytes()


def test_status_report_and_logs_mean_the_newest_run(home: Path) -> None:
    assert "succeeded" in wf("status", cwd=home).stdout
    assert "field" in wf("report", cwd=home).stdout
    report = json.loads(wf("report", "--json", cwd=home).stdout)
    assert report["run"]["state"] == "succeeded"
    assert wf("logs", cwd=home).returncode == 0
    assert "Param -" not in wf("logs", "-n", "1000", cwd=home).stdout
    assert "Param -" in wf("logs", "-n", "1000", "--raw", cwd=home).stdout
    assert wf("logs", "-n", "0", cwd=home).stdout == ""
    assert "-3 is not in the range" in wf("logs", "-n", "-3", cwd=home, code=2).stderr
    assert "did you mean `keep`" in wf("logs", "kepe", cwd=home, code=2).stderr


def test_compare_with_itself_and_with_nothing(home: Path) -> None:
    assert "identical" in wf("compare", "runs/latest", "runs/latest", cwd=home).stdout
    (home / "empty").mkdir(exist_ok=True)
    assert "empty is not a run" in wf("compare", "runs/latest", "empty", cwd=home, code=2).stderr


def test_a_program_that_an_earlier_stage_makes_is_run(tmp_path: Path) -> None:
    made = '#!/bin/sh\\necho made > "$1"\\n'
    (tmp_path / "make.sh").write_text(f'#!/bin/sh\nprintf \'{made}\' > "$1"; chmod +x "$1"\n')
    (tmp_path / "make.sh").chmod(0o755)
    (tmp_path / "p.yaml").write_text(
        "wf: 1\nname: made\nstages:\n"
        "  build: {command: [./make.sh, '${{ streams.exe.path }}']}\n"
        "  use: {command: ['${{ streams.exe.path }}', '${{ run.dir }}/out']}\n"
        "streams:\n  exe: {from: build, to: use, via: file}\n"
    )
    wf("run", "p.yaml", "--run-dir", "run", cwd=tmp_path)
    assert (tmp_path / "run" / "out").read_text() == "made\n"


def test_a_missing_program_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("wf: 1\nname: lost\nstages: {a: {command: [./nowhere]}}\n")
    assert "there is no program `./nowhere`" in wf("run", "p.yaml", cwd=tmp_path, code=2).stderr
    assert not (tmp_path / "runs").exists()


def test_errors_name_the_place_and_the_way_out(home: Path) -> None:
    answer = wf("check", "first/pipeline.yaml", "--set", "streams.field.quue.limit=3", cwd=home, code=2)
    assert "did you mean" in answer.stderr
    assert "no such file" in wf("check", "frist/pipeline.yaml", cwd=home, code=2).stderr.lower()
    assert wf("status", "--nonsense", cwd=home, code=2)


def test_explain_says_where_a_value_comes_from(home: Path) -> None:
    explain = ["plan", "first/pipeline.yaml", "--explain"]
    assert "pipeline.yaml:" in wf(*explain, "streams.field.queue.limit", cwd=home).stdout
    assert "default" in wf(*explain, "deadlines.run", cwd=home).stdout
    assert "--set" in wf(*explain, "streams.field.queue.limit", "--set", "streams.field.queue.limit=3", cwd=home).stdout
    assert "because" in wf(*explain, "streams.field.write.RendezvousReaderCount", cwd=home).stdout


def test_schema_accepts_the_examples_and_refuses_a_typo(tmp_path: Path) -> None:
    schema = json.loads(wf("schema", cwd=tmp_path).stdout)
    for path in sorted((ROOT / "examples").glob("*/pipeline.yaml")):
        jsonschema.validate(yaml.safe_load(path.read_text()), schema)
    wrong = {"wf": 1, "name": "x", "stages": {"a": {"comonent": "null"}}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


def test_components_are_listed_and_described(tmp_path: Path) -> None:
    names = {path.parent.name for path in (ROOT / "components").glob("*/component.yaml")}
    listed = wf("components", cwd=tmp_path).stdout
    assert all(name in listed for name in names)
    assert "q_max" in wf("components", "scattering", cwd=tmp_path).stdout
    assert "did you mean" in wf("components", "scatering", cwd=tmp_path, code=2).stderr


def test_doctor_finds_adios2(tmp_path: Path) -> None:
    findings = {finding["name"]: finding for finding in json.loads(wf("doctor", "--json", cwd=tmp_path).stdout)}
    assert findings["adios2"]["state"] == "ok"
    assert "tcp" in findings["SST transports"]["detail"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell: str, tmp_path: Path) -> None:
    assert "_WF_COMPLETE" in wf("completion", shell, cwd=tmp_path).stdout


def test_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = make_plan(load_pipeline(STARTER, via="bp5"))
    assert {stream.engine for stream in plan.streams} == {"BP5"}
    report = run_pipeline(STARTER, sets=["stages.sim.with.steps=40"], run_dir=tmp_path / "mine")
    assert report.run.state == "succeeded"
    tables = report_tables(read_report(tmp_path / "mine"))
    assert list(tables["streams"]["steps"]) == [report.stream("field").steps, report.stream("pdf").steps]
