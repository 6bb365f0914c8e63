"""Archives of runs and campaigns: they repeat what they hold, they are RO-Crates, and no secret is in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.crates import entities_of, files_with, problems_of, repeat_command, unpacked
from workflow import archive_campaign, archive_run, report_campaign, run_campaign, run_pipeline
from workflow.errors import RunError

ROOT = Path(__file__).parents[2]
SECRET = "correct-horse-battery"
PIPELINE = """wf: 1
name: coupled
oversubscribe: true
stages:
  make: {component: synthetic, with: {bytes: 64, steps: 3}}
  use: {component: ./counter, with: {table: ../data/table.txt}}
  note: {command: [../bin/note, "$SIZE"], env: {SIZE: 0}, files: {deck.in: deck.in}}
streams:
  field: {from: make, to: use, via: sst}
"""
COMPONENT = """component: counter
kind: sink
summary: Counts the steps
program: program.py
parameters:
  table: {type: file, required: true, help: read}
reads:
  field: {any: true}
"""
PROGRAM = """import sys
from pathlib import Path
from workflow import stage
from workflow.component_program import arguments
sys.path.insert(0, str(Path(__file__).parents[1]))
from counting import count_of
table = Path(arguments(__file__).table).read_text()
with stage.open_reader("field") as steps:
    count = count_of(steps)
Path("count").write_text(f"{count} {table}")
"""
CAMPAIGN = """wf: 1
campaign: small
pipeline: ../pipes/pipeline.yaml
site: ./own.yaml
matrix: {stages.note.env.SIZE: [1, 2]}
repetitions: 1
warmup: 0
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline with a component, a program, a site and an input of its own, each in another folder."""
    top = tmp_path / "project"
    files = {
        "pipes/pipeline.yaml": PIPELINE, "pipes/deck.in": "deck\n", "data/table.txt": "7\n",
        "pipes/counter/component.yaml": COMPONENT, "pipes/counter/program.py": PROGRAM,
        "pipes/counting.py": "from numbers_ import ONE\n\n\ndef count_of(steps):\n    return sum(ONE for _ in steps)\n",
        "pipes/numbers_/__init__.py": "ONE = 1\n", "pipes/unused.py": "",
        "bin/note": "#!/bin/sh\necho note $SIZE\n", "studies/campaign.yaml": CAMPAIGN,
        "studies/own.yaml": "site: own\nsummary: mine\nextends: local\n",
    }  # fmt: skip
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    (top / "bin/note").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return top


def wf(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "workflow.cli", *words], cwd=folder, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_campaign_is_repeated_from_its_archive(project: Path, tmp_path: Path) -> None:
    outcome = run_campaign(project / "studies/campaign.yaml")
    assert outcome.status.complete
    target, contents = archive_campaign("small")
    assert target == Path("small.zip")
    assert not contents.warnings
    keys = [trial.trial for trial in outcome.status.trials]
    shutil.rmtree(project)
    shutil.rmtree(tmp_path / "campaigns")
    folder = unpacked(target, tmp_path / "elsewhere")
    command = repeat_command(folder)
    assert command == ["wf", "campaign", "run", "source/studies/campaign.yaml"]
    assert (folder / "source/pipes/numbers_/__init__.py").is_file() and not (folder / "source/pipes/unused.py").exists()
    wf(folder, *command[1:], "-q")
    again = json.loads(wf(folder, "campaign", "status", "small", "--json"))
    assert [(trial["trial"], trial["succeeded"]) for trial in again["trials"]] == [(key, 1) for key in keys]
    assert "SIZE" in wf(folder, "campaign", "report", "records")
    with pytest.raises(RunError, match=r"records of an archive[^$]*wf campaign run .*source/studies/campaign.yaml"):
        run_campaign(folder / "records")
    graph = entities_of(folder)
    assert [graph[f"#trial-{key}"]["actionStatus"][-21:] for key in keys] == ["CompletedActionStatus"] * 2
    assert graph["#parameter-stages.note.env.SIZE"]["@type"] == "FormalParameter"
    assert problems_of(folder) == []


def test_a_run_is_repeated_from_its_archive(project: Path, tmp_path: Path) -> None:
    report = run_pipeline(project / "pipes/pipeline.yaml", sets=["stages.note.env.SIZE=5"], progress=False)
    assert report.run.state == "succeeded", report.run.reason
    target, _ = archive_run("latest", "run.zip", data=True)
    shutil.rmtree(project)
    folder = unpacked(target, tmp_path / "elsewhere")
    wf(folder, *repeat_command(folder)[1:], "-q")
    again = folder / "runs/latest"
    assert (again / "stages/note/stdout.log").read_text() == "note 5\n"
    assert (again / "stages/use/work/count").read_text() == "3 7\n"
    assert (folder / "records/stages/use/work/count").read_text() == "3 7\n"
    events = [json.loads(line) for line in (folder / "records/events.jsonl").read_text().splitlines()]
    lines = {each["stage"]: each["argv"] for each in events if each["event"] == "stage_started"}
    assert lines["note"][-1] == "$SIZE" and lines["use"][-1].endswith("program.py")
    graph = entities_of(folder)
    assert {each["@id"] for each in graph["source/pipes/pipeline.yaml"]["hasPart"]} == {
        "#program-make", "#program-use", "#program-note"
    }  # fmt: skip
    kept = json.loads((folder / "records/report.json").read_text())
    assert [each["steps"] for each in kept["streams"]] == [3]
    assert all("sha256" in graph[f"records/{name}"] for name in ("plan.json", "report.json", "provenance.json"))
    assert problems_of(folder) == []
    # The validator would notice: a run without its pipeline, and an untyped parameter.
    text = (folder / "ro-crate-metadata.json").read_text()
    broken = json.loads(text)
    del next(each for each in broken["@graph"] if each["@id"] == "#run")["instrument"]
    del next(each for each in broken["@graph"] if each["@type"] == "FormalParameter")["additionalType"]
    (folder / "ro-crate-metadata.json").write_text(json.dumps(broken))
    found = "\n".join(problems_of(folder))
    assert "instrument" in found and "FormalParameter MUST have an additionalType" in found


def test_no_secret_reaches_a_run_or_an_archive(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_TOKEN", "SLURM_JWT", "OMPI_API_KEY"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("FI_MIRROR", f"https://ada:{SECRET}@example.org/x")
    (project / "pipes/deck.in").write_text(f"token = {SECRET}\n")
    (project / "pipes/pipeline.yaml").write_text(PIPELINE.replace(", files: {deck.in: deck.in}", ""))
    for words in (
        ["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
        ["remote", "add", "origin", f"https://ada:{SECRET}@example.org/project.git"],
    ):  # fmt: skip
        subprocess.run(["git", *words], cwd=project, check=True, timeout=60)
    (project / "pipes/deck.in").write_text(f"changed = {SECRET}\n")
    (project / "studies/campaign.yaml").write_text(CAMPAIGN.replace("[1, 2]", "[1]"))
    options = ["--set", "repetitions=1"]
    wf(tmp_path, "campaign", "run", "-q", *options, str(project / "studies/campaign.yaml"))
    wf(tmp_path, "run", "-q", "--set", "stages.note.env.SIZE=3", str(project / "pipes/pipeline.yaml"))
    run = tmp_path / "runs/latest"
    recorded = json.loads((run / "provenance.json").read_text())
    # None: on a busy machine git may not answer within the deadline of a start.
    assert recorded["git"]["remote"] == "https://example.org/project.git" and recorded["git"]["dirty"] in (True, None)
    assert recorded["environment"]["SLURM_JWT"] == "<removed>" and "GITHUB_TOKEN" not in recorded["environment"]
    assert recorded["environment"]["FI_MIRROR"] == "https://example.org/x"
    # What a stage prints is the user's own; the archive leaves it out.
    (run.resolve() / "stages/note/stdout.log").write_text(f"I print {SECRET}\n")
    wf(tmp_path, "archive", "-o", "run-archive")
    wf(tmp_path, "campaign", "archive", "small", "-o", "campaign-archive")
    for place in ("campaigns", "run-archive", "campaign-archive"):
        assert files_with(tmp_path / place, SECRET) == [], place
    assert files_with(run.resolve(), SECRET) == ["stages/note/stdout.log"]
    assert "it holds the value of the variable" in (tmp_path / "run-archive/README.md").read_text()


def test_what_is_left_out_is_listed(project: Path, tmp_path: Path) -> None:
    table = project / "data/table.txt"
    run_pipeline(project / "pipes/pipeline.yaml", progress=False)
    table.write_text("8\n" + "x" * 5000)
    (project / "pipes/counter/program.py").write_text(PROGRAM + "# changed\n")
    _, contents = archive_run(None, tmp_path / "folder", largest=100_000)
    assert sorted(contents.warnings) == [
        f"`source/{name}` has changed since the run" for name in ("data/table.txt", "pipes/counter/program.py")
    ]
    (project / "bin/note").unlink()
    _, contents = archive_run(None, tmp_path / "small", largest=4000)
    left = {each.path: each.why for each in contents.left_out}
    assert left[str(table)] == "it is larger than --largest" and left[str(project / "bin/note")] == "it is gone"
    readme = (tmp_path / "small/README.md").read_text()
    assert f"| `{table}` | 5.00 kB | it is larger than --largest |" in readme
    assert "`stages/use/work/count`" in readme


def test_what_cannot_be_archived(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_pipeline(project / "pipes/pipeline.yaml", progress=False)
    archive_run(None, "here.zip")
    with pytest.raises(RunError, match=r"here.zip exists"):
        archive_run(None, "here.zip")
    monkeypatch.setenv("MY_PASSWORD", "use: {component: ./counter")
    with pytest.raises(RunError, match="it holds the value of the variable MY_PASSWORD"):
        archive_run(None, "there.zip")
    monkeypatch.delenv("MY_PASSWORD")
    assert not Path("there.zip").exists()
    (Path("runs/latest").resolve() / "provenance.json").unlink()
    with pytest.raises(RunError, match="has no provenance"):
        archive_run(None, "there.zip")
    with pytest.raises(RunError, match="has not been run"):
        archive_campaign(project / "studies/campaign.yaml")


def test_a_campaign_directory_that_was_moved_is_archived_all_the_same(project: Path, tmp_path: Path) -> None:
    campaign = project / "pipes/campaign.yaml"
    text = CAMPAIGN.replace("../pipes/", "").replace("./own", "../studies/own").replace("[1, 2]", "[1]")
    campaign.write_text(text)
    run_campaign(campaign, tmp_path / "deep/er/results")
    shutil.move(tmp_path / "deep/er/results", tmp_path / "moved")
    report_campaign("moved")
    archive_campaign("moved", "folder")
    assert {path.name for path in Path("folder/source/pipes").iterdir()} == {
        "campaign.yaml", "pipeline.yaml", "counter", "deck.in", "counting.py", "numbers_",
    }  # fmt: skip
    assert repeat_command(Path("folder")) == ["wf", "campaign", "run", "source/pipes/campaign.yaml"]
