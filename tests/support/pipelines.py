"""Runs pipelines, given as text, in processes of their own, and reads their results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from workflow.api.runs import read_report
from workflow.report.report_model import Report

ROOT = Path(__file__).parents[2]
HOLDING = ROOT / "tests" / "support" / "holding"
FAULTY = ROOT / "tests" / "support" / "faulty"
TIMEOUT_S = 150
# Examples of which a part is enough where two runs are compared; `make demo` runs the second one whole.
FEWER_STEPS = {
    "00-starter": ["--set", "stages.sim.with.steps=6000"],
    "01-shock-diffraction": ["--set", "stages.md.with.run_steps=500"],
    "02-gray-scott": ["--set", "stages.simulation.with.steps=1000"],
    "05-train-from-stream": ["--set", "stages.simulation.with.steps=800"],
}


class Done(NamedTuple):
    """A run that has ended. `said` is what `wf run` printed."""

    code: int
    said: str
    folder: Path

    @property
    def report(self) -> Report:
        return read_report(self.folder)

    def printed(self, stage: str) -> list[str]:
        """The lines that a stage printed."""
        return (self.folder / "stages" / stage / "stdout.log").read_text().splitlines()

    def numbers(self, stage: str) -> list[int]:
        """The numbers that a stage of component `holding` printed."""
        return [int(line) for line in self.printed(stage)]


def run(folder: Path, text: str, *options: str, python: str = sys.executable, name: str = "run") -> Done:
    """Run the pipeline with this text below `wf: 1`. All its waits have deadlines."""
    file = folder / "pipeline.yaml"
    head = "wf: 1\nname: test\noversubscribe: true\ndeadlines: {start: 40 s, step: 40 s, run: 100 s, stop: 3 s}\n"
    file.write_text(head + text)
    env = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"} | {"PYTHONPATH": str(ROOT)}
    argv = [python, "-m", "workflow.cli", "run", str(file), "--run-dir", str(folder / name), "-q", *options]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return Done(done.returncode, done.stdout + done.stderr, folder / name)


def start(folder: Path, *argv: str, python: str = sys.executable) -> subprocess.Popen[str]:
    """Start a Python with these arguments in a folder; what it says comes together, on its standard output."""
    return subprocess.Popen(
        [python, *argv], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
