"""Processes of wf execute nothing of the folder in which they are started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from workflow.own_process import code_command, find_programs_beside, module_command
from workflow.run.records.events_file import read_start_and_verdict
from workflow.site.interpreters import ask_modules

WF = str(Path(sys.executable).with_name("wf"))
THEIRS = ("random", "types", "numpy", "workflow", "json", "runpy", "h5py", "psij", "parsl")
PIPELINE = "wf: 1\nname: p\nstages: {a: {command: ['true']}}\n"
CAMPAIGN = "wf: 1\ncampaign: c\npipeline: p.yaml\nmatrix: {stages.a.env.X: [a, b]}\nmetrics: {time: run.wall_s}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in THEIRS:
        (tmp_path / f"{name}.py").write_text('raise SystemExit("my own")\n')
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "c.yaml").write_text(CAMPAIGN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def wf(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run([WF, *arguments], env=env, capture_output=True, text=True, timeout=120, check=False)


def test_a_detached_run(folder: Path) -> None:
    ran = wf("run", "p.yaml", "--detach", "--run-dir", "run")
    assert ran.returncode == 0, ran.stderr
    wait_until(lambda: read_start_and_verdict(folder / "run").finished, "the verdict")
    verdict = read_start_and_verdict(folder / "run").finished
    assert verdict is not None and verdict.state == "succeeded"


def test_a_detached_campaign(folder: Path) -> None:
    ran = wf("campaign", "run", "c.yaml", "--detach")
    assert ran.returncode == 0, ran.stderr
    ledger = folder / "campaigns/c/ledger.jsonl"
    wait_until(lambda: ledger.exists() and '"succeeded"' in ledger.read_text(), "the end of a repetition")
    assert wf("campaign", "cancel", "c").returncode == 0


def test_what_examines_and_reads(folder: Path) -> None:
    """`wf doctor`, files of data, and another Python that is asked for modules."""
    (folder / "a.bp").mkdir()
    ran = wf("doctor")
    assert ran.returncode == 0 and "my own" not in ran.stdout, ran.stdout
    assert "my own" not in wf("compare", "a.bp", "a.bp").stderr
    assert ask_modules(sys.executable, ["tomllib_of_nobody"], {"PYTHONUSERBASE": "/nowhere"})() == ["tomllib_of_nobody"]


def test_modules_and_code(folder: Path) -> None:
    """As parsl's workers and the guards of drivers are started, also where Python itself is told so."""
    (folder / "calendar.py").write_text('raise SystemExit("my own")\n')
    for more in ({}, {"PYTHONSAFEPATH": "1"}):
        env = {**os.environ, **more}
        module = subprocess.run(
            module_command("calendar", "2026", "1"), env=env, capture_output=True, text=True, check=True
        )
        assert "January 2026" in module.stdout
        code = code_command("import calendar; print(sys.argv[1:], calendar.MONDAY)", "x")
        said = subprocess.run(code, env=env, capture_output=True, text=True, check=True).stdout
        assert said == "['x'] 0\n"


def test_another_workflow_is_named(folder: Path) -> None:
    program = json.dumps(str(Path(__file__).parents[2]))
    code = f"import sys; sys.path.append({program}); from wf_main import main; main()"
    env = {**os.environ, "PYTHONPATH": str(folder)}
    for name in THEIRS:
        if name != "workflow":
            (folder / f"{name}.py").unlink()
    said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (
        2,
        f"error: Python imports {folder}/workflow.py in place of wf's own package `workflow`\n"
        "  rename that file, or take its folder out of PYTHONPATH\n",
    )


def test_a_program_beside_this_python_is_found_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/env/bin/python")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    find_programs_beside()
    find_programs_beside()
    assert os.environ["PATH"] == "/usr/bin:/bin:/opt/env/bin"
    monkeypatch.delenv("PATH")
    find_programs_beside()
    assert os.environ["PATH"] == f"{os.defpath}:/opt/env/bin"
