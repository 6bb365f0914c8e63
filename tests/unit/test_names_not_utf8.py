"""Files and folders whose names are not UTF-8: named in a message, never half of a record or a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from adios2 import Stream
from click.testing import CliRunner

from workflow.cli.main import wf
from workflow.errors import WfError

PIPELINE = "wf: 1\nname: p\nstages: {a: {command: ['true']}}\n"
CAMPAIGN = "wf: 1\ncampaign: c\npipeline: PIPELINE\nmatrix: {stages.a.env.X: [a, b]}\nmetrics: {time: run.wall_s}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`lat\\xe9in` in Latin-1."""
    found = Path(os.fsdecode(os.fsencode(tmp_path) + b"/lat\xe9in"))
    found.mkdir()
    return found


def refused(*arguments: str) -> str:
    """The message, with its hint."""
    ran = CliRunner().invoke(wf, list(arguments))
    assert isinstance(ran.exception, WfError), ran.output
    return str(ran.exception)


def test_a_pipeline_or_a_run_there(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "p.yaml").write_text(PIPELINE)
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "c.yaml").write_text(CAMPAIGN.replace("PIPELINE", "p.yaml"))
    of_run = "rename that folder, or name another one: `--run-dir PATH`"
    assert refused("run", str(tmp_path / "p.yaml"), "--run-dir", str(folder / "run")) == (
        f"{tmp_path}/lat?in/run: this name is not UTF-8\n  {of_run}"
    )
    assert "--dir PATH" in refused("campaign", "run", str(tmp_path / "c.yaml"), "--dir", str(folder / "c"))
    monkeypatch.chdir(folder)
    for verb in ("plan", "run", "check"):
        assert f"{tmp_path}/lat?in/p.yaml: this name is not UTF-8" in refused(verb, "p.yaml")
    assert refused("run", str(tmp_path / "p.yaml")) == f"{tmp_path}/lat?in/runs: this name is not UTF-8\n  {of_run}"
    # What is not in it can be used from it.
    ran = CliRunner().invoke(wf, ["run", str(tmp_path / "p.yaml"), "--quiet", "--run-dir", str(tmp_path / "run")])
    assert ran.exit_code == 0, ran.output
    assert sorted(each.name for each in folder.iterdir()) == ["p.yaml", "runs"]  # `runs/latest`


def test_data_there(folder: Path, tmp_path: Path) -> None:
    for place in (folder, tmp_path):
        with Stream(str(tmp_path / "d.bp"), "w") as out:
            out.begin_step()
            out.write("x", np.arange(4.0), [4], [0], [4])
            out.end_step()
        if place == folder:
            (tmp_path / "d.bp").rename(folder / "d.bp")
    for line in (("compare", str(folder / "d.bp"), str(tmp_path / "d.bp")), ("look", str(folder / "d.bp"))):
        assert refused(*line) == f"{tmp_path}/lat?in/d.bp: this name is not UTF-8\n  rename it"


def test_a_file_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left out of an archive, and named there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "write.py").write_text("open(b'r\\xe9s.dat', 'w').write('x')\n")
    (tmp_path / "p.yaml").write_text(PIPELINE.replace("'true'", "'${{ wf.python }}', '${{ pipeline.dir }}/write.py'"))
    for line in (["run", "p.yaml", "--quiet", "--run-dir", "run"], ["report", "run"], ["archive", "run", "--data"]):
        ran = CliRunner().invoke(wf, line)
        assert ran.exit_code == 0, ran.output + str(ran.exception)
    assert len(list((tmp_path / "run/stages/a/work").iterdir())) == 1
