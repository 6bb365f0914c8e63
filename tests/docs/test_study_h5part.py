"""The study h5part: a tiny one runs in all four ways, and its program finds data that are not what was written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "examples/campaigns/h5part"
MPI_PYTHON = os.environ.get("WF_MPI_PYTHON", "")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def test_a_tiny_study_writes_in_all_ways(tmp_path: Path) -> None:
    if not MPI_PYTHON:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")
    for words in (["run", str(STUDY / "campaign.yaml"), "--set", "scale=tiny"], ["report", "h5part"]):
        command = [MPI_PYTHON, "-m", "workflow.cli", "campaign", *words]
        done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "campaigns/h5part/report.json").read_bytes())
    measured = {each["parameters"]["stages.write.env.WAY"]: each["median"] for each in report["results"]}
    assert set(measured) == {"posix", "mpiio", "h5part", "bp5"} and all(measured.values())


def test_wrong_data_are_found(tmp_path: Path) -> None:
    broken = (STUDY / "write.py").read_text().replace("return float(PARTICLES * len(ATTRIBUTES) * step)", "return 0.0")
    (tmp_path / "write.py").write_text(broken)
    environment = {**ENVIRONMENT, "WAY": "posix", "PARTICLES": "10", "STEPS": "2"}
    done = subprocess.run([sys.executable, "write.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "posix: step 1, x: the data are not what was written" in done.stderr
