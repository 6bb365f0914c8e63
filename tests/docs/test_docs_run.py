"""What the how-tos show is run: their programs and pipelines together, and the fragments where they belong."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.support.pipelines import run
from workflow import run_pipeline
from workflow.cli.main import main
from workflow.errors import EXIT_VIOLATED
from workflow.plan.make import make_plan
from workflow.site.load_site import load_site
from workflow.spec.load import load_pipeline
from workflow.stage import open_reader, open_writer

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str, first: str) -> list[str]:
    found = [text for kind, text in BLOCK.findall((ROOT / page).read_text()) if kind == language]
    return [text for text in found if text.startswith(f"# {first}")]


def test_own_analysis_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("docs/how-to/own-component.md", "python", "program: mean.py")
    (pipeline,) = blocks("docs/how-to/own-component.md", "yaml", "pipeline")
    (tmp_path / "mean.py").write_text(program)
    (tmp_path / "pipeline.yaml").write_text(pipeline)
    report = run_pipeline("pipeline.yaml", run_dir="run", sets=["oversubscribe=true"])
    assert report.run.state == "succeeded", report.run.reason
    with open_reader(path=str(tmp_path / "run" / "mean.bp")) as archive:
        shapes = [step.shape("profile") for step in archive]
    assert shapes == [(32, 32)] * 11


def test_shares_run_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("docs/how-to/who-reads-what.md", "python", "program: centre.py")
    (pipeline,) = blocks("docs/how-to/who-reads-what.md", "yaml", "pipeline")
    (tmp_path / "centre.py").write_text(program)
    (tmp_path / "pipeline.yaml").write_text(pipeline)
    report = run_pipeline("pipeline.yaml", run_dir="run")
    assert report.run.state == "succeeded", report.run.reason
    with open_reader(path=str(tmp_path / "run" / "centre.bp")) as archive:
        centres = [list(step.read("centre")) for step in archive]
    assert centres == [[1999.5 + step + axis for axis in range(3)] for step in range(3)]


def test_pipes_and_taps_run_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pipelines = blocks("docs/how-to/taps-and-pipes.md", "yaml", "pipeline")
    assert len(pipelines) == 2
    for number, text in enumerate(pipelines):
        (tmp_path / "pipeline.yaml").write_text(text)
        report = run_pipeline("pipeline.yaml", run_dir=f"run{number}", sets=["oversubscribe=true"])
        assert report.run.state == "succeeded", report.run.reason
    assert (tmp_path / "run0/streams/field.bp").is_dir()
    with open_reader(path=str(tmp_path / "run1" / "thin.bp")) as archive:
        assert len(list(archive)) == 3  # steps 0, 5 and 10 of 11


def test_own_component_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page, folder = "docs/how-to/own-component.md", tmp_path / "spectrum"
    (description,) = blocks(page, "yaml", "fragment: a component")
    (program,) = blocks(page, "python", "program: spectrum/program.py")
    (pipeline,) = blocks(page, "yaml", "fragment: pipeline.yaml")
    folder.mkdir()
    (folder / "component.yaml").write_text(description)
    (folder / "program.py").write_text(program)
    (tmp_path / "pipeline.yaml").write_text(pipeline)
    report = run_pipeline("pipeline.yaml", run_dir="run", sets=["oversubscribe=true"])
    assert report.run.state == "succeeded", report.run.reason
    with open_reader(path=str(tmp_path / "run" / "spectrum.bp")) as archive:
        powers = [step.read("power") for step in archive]
    assert [len(power) for power in powers] == [16] * 11
    assert all(power[0] > power[-1] >= 0 for power in powers), "more power in long waves"


def test_windows_run_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = "docs/how-to/windows.md"
    (program,) = blocks(page, "python", "program: trend.py")
    (pipeline,) = blocks(page, "yaml", "pipeline")
    (tmp_path / "trend.py").write_text(program)
    (tmp_path / "pipeline.yaml").write_text(pipeline)
    report = run_pipeline("pipeline.yaml", run_dir="runs/latest", sets=["oversubscribe=true"])
    assert report.run.state == "succeeded", report.run.reason
    with open_reader(path="runs/latest/trend.bp") as archive:
        steps = [step.read("steps").tolist() for step in archive]
    assert steps == [list(range(max(0, last - 4), last + 1)) for last in range(21)]


def test_a_dataset_of_xarray_is_made_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xarray", reason="needs xarray")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/latest").mkdir(parents=True)
    with open_writer(path="runs/latest/trend.bp") as out:
        for step in range(3):
            with out.step():
                out.write("mean", np.full((2, 2, 2), float(step)), shape=(2, 2, 2))
    (text,) = blocks("docs/how-to/windows.md", "python", "fragment: a notebook")
    before, _, last = text.strip().rpartition("\n")
    found: dict[str, Any] = {}
    exec(before, found)
    assert eval(last, found).tolist() == [0.0, 1.0, 2.0]


def test_a_training_goes_on_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("docs/how-to/train.md", "python", "program: train.py")
    (pipeline,) = blocks("docs/how-to/train.md", "yaml", "pipeline")
    crash = "        if window.step.index == 30 and not Path('../crashed').exists():\n"
    crash += "            Path('../crashed').touch()\n            os._exit(1)\n"
    (tmp_path / "pipeline.yaml").write_text(pipeline)
    found = []
    for name, text in (("whole", program), ("run", program + crash)):
        (tmp_path / "train.py").write_text(f"import os\nfrom pathlib import Path\n{text}")
        report = run_pipeline("pipeline.yaml", run_dir=name, sets=["oversubscribe=true"])
        assert report.run.state == "succeeded", report.run.reason
        with open_reader(path=str(tmp_path / name / "training.bp")) as archive:
            found.append([(float(step.read("loss")), step.read("weights").tolist()) for step in archive])
    assert len(report.restarts) == 1
    assert found[0] == found[1]
    assert len(found[0]) == 50 - 7
    losses = [loss for loss, _ in found[0]]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) / 3


def test_a_running_mean_goes_on_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = "docs/how-to/go-on-after-a-failure.md"
    (program,) = blocks(page, "python", "program: running_mean.py")
    (pipeline,) = blocks(page, "yaml", "pipeline: a running mean")
    crash = "        if step.index == 8 and not Path('../crashed').exists():\n            Path('../crashed').touch()\n"
    (tmp_path / "pipeline.yaml").write_text(pipeline)
    found = []
    for name, text in (("whole", program), ("run", f"{program}{crash}            os._exit(1)\n")):
        (tmp_path / "running_mean.py").write_text(f"import os\nfrom pathlib import Path\n{text}")
        report = run_pipeline("pipeline.yaml", run_dir=name, sets=["oversubscribe=true"])
        assert report.run.state == "succeeded", report.run.reason
        with open_reader(path=str(tmp_path / name / "mean.bp")) as archive:
            found.append([step.read("mean").tolist() for step in archive])
    assert len(report.restarts) == 1
    assert found[0] == found[1]
    assert len(found[0]) == 21


def test_a_test_of_a_component_passes_as_written(tmp_path: Path) -> None:
    (program,) = blocks("docs/how-to/test-a-component.md", "python", "program: test_histogram.py")
    (tmp_path / "test_histogram.py").write_text(program)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_histogram.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def starter_with_a_picture() -> dict[str, Any]:
    """The starter, as the tutorial changes it."""
    (text,) = blocks("docs/tutorial.md", "yaml", "fragment: stages of first/pipeline.yaml")
    starter: dict[str, Any] = yaml.safe_load((ROOT / "examples/00-starter/pipeline.yaml").read_text())
    starter["stages"] |= yaml.safe_load(text)
    starter["streams"]["pdf"]["to"] = ["keep", "picture"]
    return starter


def test_expectations_of_the_tutorial_end_a_run_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (fragment,) = blocks("docs/tutorial.md", "yaml", "fragment: streams of first/pipeline.yaml")
    found = BLOCK.findall((ROOT / "docs/tutorial.md").read_text())
    (shown,) = [text for kind, text in found if kind == "text" and "not met" in text]
    starter = starter_with_a_picture()
    starter["streams"] |= yaml.safe_load(fragment)
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(starter | {"oversubscribe": True}))
    command, *said = shown.splitlines()
    monkeypatch.setattr("sys.argv", shlex.split(command.removeprefix("$ ")))
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == EXIT_VIOLATED
    printed = capsys.readouterr()

    def without_times(lines: list[str]) -> list[str]:
        # What limits a run of seconds depends on what else the machine does.
        return [re.sub(r"\([^,]*,|\S+/starter-[\w-]+|, limited by \w+|, overlap \d+ %", "…", line) for line in lines]

    assert without_times((printed.out + printed.err).splitlines()) == without_times(said)


def test_a_run_is_followed_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = blocks("docs/how-to/follow-events.md", "python", "program: follow.py")
    (tmp_path / "follow.py").write_text(program)
    done = run(tmp_path, 'stages: {only: {command: ["true"]}}\n')
    assert done.code == 0, done.said
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    followed = subprocess.run([sys.executable, tmp_path / "follow.py", done.folder], capture_output=True, text=True)
    assert (followed.returncode, followed.stdout) == (0, "the run succeeded, exit code 0\n"), followed.stderr


def test_tutorial_fragment_fits_the_starter(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(starter_with_a_picture()))
    site = load_site("local").model_copy(update={"cores_per_node": 4})
    plan = make_plan(load_pipeline(tmp_path / "pipeline.yaml"), site, python="python", wf_version="0")
    assert plan.stream("pdf").readers == ["keep", "picture"]


def test_own_program_of_the_tutorial_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("docs/tutorial.md", "python", "program: first/wave.py")
    (pipeline,) = blocks("docs/tutorial.md", "yaml", "pipeline: first/wave.yaml")
    (tmp_path / "wave.py").write_text(program)
    (tmp_path / "wave.yaml").write_text(pipeline)
    for via in ("sst", "bp5"):
        report = run_pipeline("wave.yaml", run_dir=via, via=via)
        assert report.run.state == "succeeded", report.run.reason
        assert report.stream("height").steps == 20
        assert (tmp_path / via / "pictures/summary.png").is_file()
        assert (tmp_path / via / "stages/string/work/adios2.xml").is_file()
