"""A run has its tags from the beginning, however it is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workflow import run_pipeline
from workflow.errors import WfError
from workflow.run.records.run_notes import read_notes

PIPELINE = """wf: 1
name: tiny
stages:
  one: {command: ["true"]}
"""
TIMEOUT_S = 100


def wf(folder: Path, *words: str) -> str:
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "NO_COLOR": "1", "COLUMNS": "160"}
    argv = [sys.executable, "-m", "workflow.cli", *words]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("how", [[], ["--detach"]], ids=["in the terminal", "detached"])
def test_a_run_has_its_tags_while_it_runs_and_after(how: list[str], tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    wf(tmp_path, "run", "pipeline.yaml", "--tag", "trial", "--tag", "fig.2", *how)
    assert read_notes(tmp_path / "runs/latest").tags == ["trial", "fig.2"]
    wf(tmp_path, "watch", "latest")
    assert "tags: trial, fig.2" in wf(tmp_path, "report", "latest")
    wf(tmp_path, "archive", "latest", "-o", "kept.zip")
    listed = subprocess.run([sys.executable, "-m", "zipfile", "-l", "kept.zip"], cwd=tmp_path, capture_output=True)
    assert b"notes.jsonl" in listed.stdout


def test_tags_from_python_and_nothing_is_written_for_a_bad_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pipeline.yaml").write_text(PIPELINE)
    with pytest.raises(WfError, match="is not a tag"):
        run_pipeline("pipeline.yaml", tags=["two words"])
    assert not Path("runs").exists()
    assert run_pipeline("pipeline.yaml", tags=["trial"]).tags == ["trial"]
