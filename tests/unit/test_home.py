"""Without HOME: ADIOS2 dies of it, and all that wf starts gets one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from adios2 import Stream

from workflow.own_process import set_home
from workflow.spec.shipped import SHIPPED

OPENS = "import adios2; adios2.Adios()"


def without_home(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("home", [None, ""])
@pytest.mark.parametrize(("of_user", "expected"), [("/home/ada", "/home/ada"), ("", "/scratch"), (None, "/scratch")])
def test_where_it_comes_from(
    home: str | None, of_user: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(_: int) -> SimpleNamespace:
        if of_user is None:
            raise KeyError("no such user")
        return SimpleNamespace(pw_dir=of_user)

    monkeypatch.setattr("pwd.getpwuid", find)
    monkeypatch.setenv("TMPDIR", "/scratch")
    monkeypatch.setenv("HOME", "" if home is None else home)
    if home is None:
        monkeypatch.delenv("HOME")
    assert (set_home(), os.environ["HOME"]) == (expected, expected)


def test_one_that_is_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/no/such/home")
    assert set_home() == "/no/such/home"


def test_stages_have_one(tmp_path: Path) -> None:
    stage = {"command": [sys.executable, "-c", f"{OPENS}; import os; print(os.environ['HOME'])"]}
    (tmp_path / "p.yaml").write_text(json.dumps({"wf": 1, "name": "p", "stages": {"a": stage}}))
    ran = without_home("-m", "workflow.cli", "run", "p.yaml", "--run-dir", "run", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "run/stages/a/stdout.log").read_text().startswith("/")


def test_a_program_that_is_started_by_hand_has_one(tmp_path: Path) -> None:
    program = str(SHIPPED / "components/gray_scott/program.py")
    ran = without_home(program, "--size", "8", "--steps", "1", "--write", "field=out.bp", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr


def test_a_good_file_is_not_called_damaged(tmp_path: Path) -> None:
    for name in ("a.bp", "b.bp"):
        with Stream(str(tmp_path / name), "w") as out:
            out.begin_step()
            out.write("x", np.arange(4.0), [4], [0], [4])
            out.end_step()
    ran = without_home("-m", "workflow.cli", "compare", "a.bp", "b.bp", cwd=tmp_path)
    assert (ran.returncode, "identical" in ran.stdout) == (0, True), ran.stdout + ran.stderr
