"""The CI files of docs/how-to/dry-runs-in-ci.md: their commands are run, and fail for a mistake."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/dry-runs-in-ci.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INSTALL = 'pip install "$WF_PACKAGE"'


def commands(host: str) -> list[str]:
    """The commands of the CI file of a host, without the installation."""
    (text,) = [text for _, text in BLOCK.findall(PAGE.read_text()) if text.startswith(f"# fragment: {host}\n")]
    job = yaml.safe_load(text)
    if host == "GitHub":
        found = [step["run"] for step in job["jobs"]["dry-run"]["steps"] if "run" in step]
    else:
        found = job["dry-run"]["script"]
    assert found[0] == INSTALL
    return found[1:]


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-e", "-c", command], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the starter."""
    shutil.copytree(ROOT / "examples/00-starter", tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize("host", ["GitHub", "GitLab"])
def test_the_job_fails_for_a_mistake(host: str, folder: Path) -> None:
    check, plan = commands(host)
    assert [run(folder, command).returncode for command in (check, plan)] == [0, 0]
    pipeline = folder / "pipeline.yaml"
    pipeline.write_text(pipeline.read_text().replace("component:", "componnt:", 1))
    assert run(folder, check).returncode == 2
    assert run(folder, plan).returncode != 0


def test_the_effect_of_a_change_is_the_difference_of_two_plans(folder: Path) -> None:
    shown = re.findall(r"^\$ (.*/tmp/.*\.json)$", PAGE.read_text(), re.MULTILINE)
    before, plan, difference = (command.replace("/tmp/", "") for command in shown)
    after = f"{plan}; {difference}"
    assert run(folder, before).returncode == 0
    pipeline = folder / "pipeline.yaml"
    text = pipeline.read_text()
    pipeline.write_text(text + "# a comment changes nothing\n")
    assert run(folder, after).returncode == 0
    pipeline.write_text(re.sub(r"limit: \d+", "limit: 7", text))
    assert pipeline.read_text() != text
    answer = run(folder, after)
    assert answer.returncode == 1
    assert re.search(r'^\+ +"limit": 7', answer.stdout, re.MULTILINE), answer.stdout
