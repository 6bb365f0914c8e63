"""Runs of small pipelines through SSC, for the tests of data and of faults, by the Python that WF_MPI_PYTHON names."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).with_name("stage_programs.py")
STAGED = ROOT / "tests/faults/programs" / "staged.py"
MPI_PYTHON = os.environ.get("WF_MPI_PYTHON", "")
LONGEST_S = 120.0
# The whole deadline is far from what any of these needs: a test that meets it hangs.
HEAD = "wf: 1\nname: coupled\noversubscribe: true\ndeadlines: {start: 60 s, step: 60 s, stop: 3 s}\n"


def need_mpi() -> None:
    if not MPI_PYTHON:
        pytest.skip("WF_MPI_PYTHON does not name a Python with the ADIOS2 of `make adios2-mpi`")


def environment() -> dict[str, str]:
    # The folder of the sources, so that another Python has this package too.
    env = {key: value for key, value in os.environ.items() if key not in ("LD_LIBRARY_PATH", "WF_CONFIGS")}
    return env | {"PYTHONPATH": str(ROOT)}


def argv(folder: Path, *options: str) -> list[str]:
    pipeline, run_dir = folder / "pipeline.yaml", folder / "run"
    return [MPI_PYTHON, "-m", "workflow.cli", "run", str(pipeline), "--run-dir", str(run_dir), "-q", *options]


def run(folder: Path, text: str, *options: str) -> tuple[int, Any, str]:
    """(exit code, report, what was printed) of a run of the pipeline with this text below its head."""
    (folder / "pipeline.yaml").write_text(HEAD + text)
    done = subprocess.run(
        argv(folder, *options), env=environment(), capture_output=True, text=True, timeout=LONGEST_S, cwd=folder
    )
    report = folder / "run/report.json"
    said = done.stdout + done.stderr + logs(folder)
    return done.returncode, json.loads(report.read_text()) if report.exists() else {}, said


@contextmanager
def running(folder: Path, text: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A run of the pipeline with this text below its head, while the context lasts."""
    (folder / "pipeline.yaml").write_text(HEAD + text)
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        argv(folder, *options), env=environment(), stdout=pipe, stderr=pipe, text=True, cwd=folder
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def logs(folder: Path) -> str:
    """The end of all that the stages and their launcher said."""
    files = sorted((folder / "run").glob("*/*/std*.log"))
    return "".join(f"\n{file.parent.name} {file.name}: {file.read_text(errors='replace')[-1500:]}" for file in files)


def command(program: Path, *words: str) -> str:
    """For `command:` in YAML."""
    return json.dumps([MPI_PYTHON, str(program), *words])
