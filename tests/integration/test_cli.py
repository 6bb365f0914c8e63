"""The verbs as a user types them, on one small real run."""

from __future__ import annotations

import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import jsonschema
import pytest
import yaml
from pydantic import BaseModel

from workflow import load_pipeline, make_plan, read_report, report_tables, run_pipeline
from workflow.cli.json_output import CheckResult, ComponentList
from workflow.compare.comparison import Comparison
from workflow.report.report_model import Report

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
    """A directory where the starter pipeline has been run once, by `wf init` and `wf run --via sst`."""
    folder = tmp_path_factory.mktemp("home")
    wf("init", "first", cwd=folder)
    wf("run", "first/pipeline.yaml", "--via", "sst", cwd=folder)  # SST writes a log
    return folder


def test_run_directory_holds_what_the_docs_say(home: Path) -> None:
    run = home / "runs" / "latest"
    for name in (
        "pipeline.yaml",
        "plan.json",
        "provenance.json",
        "events.jsonl",
        "report.json",
        "report.html",
        "pdf.bp",
    ):
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


def test_json_is_what_its_schema_says(home: Path) -> None:
    """The schemas are those of docs/reference/json.md and report.md."""
    documents: dict[str, tuple[type[BaseModel], list[str]]] = {
        "check": (CheckResult, ["first/pipeline.yaml", "--via", "bp5"]),
        "status": (Report, ["latest"]),
        "report": (Report, []),
        "components": (ComponentList, []),
        "compare": (Comparison, ["latest", "runs/latest"]),
    }
    page = (ROOT / "docs/reference/json.md").read_text() + (ROOT / "docs/reference/report.md").read_text()
    for verb, (model, words) in documents.items():
        document = json.loads(wf(verb, *words, "--json", cwd=home).stdout)
        jsonschema.validate(document, model.model_json_schema(by_alias=True, mode="serialization"))
        assert all(f"| `{field}` |" in page for field in document), verb
    (note,) = json.loads(wf("check", "first/pipeline.yaml", "--via", "bp5", "--json", cwd=home).stdout)["problems"]
    assert (note["level"], note["file"], note["line"], note["key"]) == (
        "note", "first/pipeline.yaml", 28, "streams.field.queue",
    )  # fmt: skip


def test_json_of_a_check_has_all_mistakes(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("wf: 1\nname: a\nstages:\n  s: {use: shock}\n  t: {component: nul}\n")
    answer = wf("check", "a.yaml", "--set", "stages.s.ranks=x", "--json", cwd=tmp_path, code=2)
    assert answer.stderr == ""
    found = json.loads(answer.stdout)
    assert found["ok"] is False
    assert found["stages"] is None
    assert [(each["line"], each["column"], each["option"], each["level"]) for each in found["problems"]] == [
        (None, None, "--set stages.s.ranks=x", "error"),
        (4, 7, None, "error"),
        (5, 18, None, "error"),
    ]
    gone = json.loads(wf("check", "gone.yaml", "--json", cwd=tmp_path, code=2).stdout)
    assert [each["message"] for each in gone["problems"]] == ["no such file"]


@pytest.mark.parametrize("verb", [["status"], ["report"], ["logs", "--run"], ["compare", "latest"]])
def test_every_verb_finds_a_run_in_the_same_way(home: Path, verb: list[str]) -> None:
    name = (home / "runs/latest").resolve().name
    for run in ("latest", name, "starter", name[-4:], f"runs/{name}", f"./runs/{name}/", str(home / "runs" / name)):
        wf(*verb, run, cwd=home)
    for wrong, hint in ((f"{name[:-1]}_", name), ("latset", "latest")):
        answer = wf(*verb, wrong, cwd=home, code=2)
        assert answer.stderr == f"error: there is no run `{wrong}`\n  did you mean `{hint}`?\n"
    answer = wf(*verb, "quite-another-20260101-000000-abcd", cwd=home, code=2)
    assert answer.stderr.endswith(f"\n  the newest runs here: {name}\n")
    answer = wf(*verb, "first", cwd=home, code=2)
    assert "first is not a run directory" in answer.stderr


def test_a_run_in_place_of_a_stage_is_explained(home: Path) -> None:
    answer = wf("logs", "runs/latest", cwd=home, code=2)
    assert answer.stderr.endswith("\n  `runs/latest` is a run: `wf logs --run runs/latest`\n")


def test_explain_is_a_paragraph_about_the_newest_run(home: Path) -> None:
    text = " ".join(wf("explain", cwd=home).stdout.split())
    assert " succeeded on " in text and "sim ran for " in text and "`wf report starter-" in text
    assert "`wf look starter-" in text


def test_compare_with_itself_and_with_nothing(home: Path) -> None:
    assert "identical" in wf("compare", "runs/latest", "runs/latest", cwd=home).stdout
    (home / "empty").mkdir(exist_ok=True)
    assert "empty is not a run directory" in wf("compare", "runs/latest", "empty", cwd=home, code=2).stderr


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


@pytest.mark.parametrize("columns", [50, 80])
def test_messages_on_a_terminal_are_coloured_and_as_wide_as_it_is(tmp_path: Path, columns: int) -> None:
    """The same command through a pipe is plain text with the whole line of the file."""
    names = ", ".join(f"{name * 9}: 1" for name in "abcdef")
    (tmp_path / "a.yaml").write_text(f"wf: 1\nname: a\nstages:\n  s: {{command: [./a], env: {{{names}}}, rnks: 2}}\n")
    reads, writes = os.openpty()
    fcntl.ioctl(writes, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")} | {"TERM": "xterm"}
    command = [sys.executable, "-m", "workflow.cli", "check", "a.yaml"]
    process = subprocess.run(command, stderr=writes, cwd=tmp_path, env=env, timeout=60)
    os.close(writes)
    said = os.read(reads, 100_000).decode().replace("\r\n", "\n")
    os.close(reads)
    assert process.returncode == 2
    assert "\x1b[1;31merror:\x1b[0m" in said
    head, above, below, hint = re.sub("\x1b\\[[0-9;]*m", "", said).splitlines()
    assert head.startswith("error: a.yaml:4:") and head.endswith(": stages.s.rnks: unknown key")
    assert len(above) <= columns and len(below) <= columns
    assert above[below.index("^") : below.rindex("^") + 1] == "rnks"
    assert above.startswith("  4 | …") and hint == "  did you mean `ranks`?"
    plain = wf("check", "a.yaml", cwd=tmp_path, code=2).stderr
    assert "\x1b" not in plain
    assert plain.splitlines()[0] == head and "aaaaaaaaa" in plain.splitlines()[1]


def test_explain_says_where_a_value_comes_from(home: Path) -> None:
    explain = ["plan", "first/pipeline.yaml", "--explain"]
    assert "pipeline.yaml:" in wf(*explain, "streams.field.queue.limit", cwd=home).stdout
    assert "default" in wf(*explain, "deadlines.run", cwd=home).stdout
    assert "--set" in wf(*explain, "streams.field.queue.limit", "--set", "streams.field.queue.limit=3", cwd=home).stdout
    assert "because" in wf(*explain, "streams.field.write.RendezvousReaderCount", cwd=home).stdout


@pytest.mark.parametrize("example", sorted(path.parent.name for path in (ROOT / "examples").glob("*/pipeline.yaml")))
def test_a_plan_shows_verdict_and_essentials_and_the_rest_by_wide(example: str) -> None:
    short = wf("plan", f"examples/{example}/pipeline.yaml", cwd=ROOT).stdout
    assert re.match(r"[\w-]+ (fits|cannot start here): ", short), short
    # Where a stage may be started again, or the run may go on, a table says for each stage how.
    tables = re.compile(r"\nwhen (it fails|resumed) .*?\n(?=\n)", re.DOTALL)
    essentials = tables.sub("", short.partition("\nwarning: ")[0]).splitlines()
    assert len(essentials) <= 25 and "launch lines" not in essentials, short
    wide = wf("plan", f"examples/{example}/pipeline.yaml", "--wide", cwd=ROOT).stdout.splitlines()
    assert "launch lines" in wide and "environment" in wide


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
    assert "no GPU backend" in findings["device data"]["detail"]  # neither PyPI's nor that of `make adios2-mpi`
    assert "use `via: hdf5`" in findings["engine HDF5"]["detail"]


def test_doctor_ends_with_what_to_do_next(tmp_path: Path) -> None:
    assert re.search(r"\nready.*\n  next: `wf init first`\n$", wf("doctor", cwd=tmp_path).stdout)
    (tmp_path / "p.yaml").write_text("wf: 1\nname: x\nstages:\n  a: {command: [nosuchprogram]}\n")
    lines = wf("doctor", "p.yaml", cwd=tmp_path, code=2).stdout.splitlines()
    assert lines[-2:] == ["not ready: stage a missing", "  next: install it, give its path, or correct `command`"]


def test_a_current_directory_that_was_removed(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = 'rmdir "$PWD" && exec "$0" -m workflow.cli runs'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=tmp_path / "gone", capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == "error: the current directory has been removed\n  change to another one: `cd`\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_WF_COMPLETE", f"{shell}_source")
    assert f"_WF_COMPLETE={shell}_complete" in wf(cwd=tmp_path).stdout


def test_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = make_plan(load_pipeline(STARTER, via="bp5"))
    assert {stream.engine for stream in plan.streams} == {"BP5"}
    report = run_pipeline(STARTER, sets=["stages.sim.with.steps=40"], run_dir=tmp_path / "mine")
    assert report.run.state == "succeeded"
    tables = report_tables(read_report(tmp_path / "mine"))
    assert list(tables["streams"]["steps"]) == [report.stream("field").steps, report.stream("pdf").steps]
