"""Overlap of simulation and analysis in example 01.

Efficiency is max(T_simulation, T_analysis) / T_run: 1 when the run takes no longer than its slower stage would alone.
T of a stage is its time less its waiting for others (steps and rendezvous), on one core each; T_run is the wall time of
the run from its first event to its last.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.streams import repetitions

EXAMPLE = Path(__file__).parents[2] / "examples/01-shock-diffraction/pipeline.yaml"


def measure() -> list[dict[str, Any]]:
    """By stream, and by file one after the other."""
    return [
        row("by stream (SST)", [], 0.9, repetitions(3)),
        row("by file, one after the other (BP5, after)", ["--via", "bp5"], None, repetitions(1)),
    ]


def row(name: str, options: list[str], target: float | None, repeat: int) -> dict[str, Any]:
    """The median of some runs."""
    runs = [efficiency(options) for _ in range(repeat)]
    value, busy, wall_s = sorted(runs, key=lambda run: run[0])[repeat // 2]
    detail = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in busy.items())
    return {
        "name": name,
        "value": value,
        "unit": "",
        "target": target,
        "better": "higher",
        "detail": f"{detail}, run {wall_s:.1f} s; runs: {runs_text(runs)}",
    }


def efficiency(options: list[str]) -> tuple[float, dict[str, float], float]:
    """(efficiency, busy seconds of simulation and analysis, wall seconds) of one run."""
    from workflow import read_report

    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "workflow.cli", "run", str(EXAMPLE), *options, "--run-dir", f"{folder}/run", "-q"]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        report = read_report(f"{folder}/run")
    stages = [stage for stage in report.stages if stage.kind != "sink"]
    busy = {stage.name: (stage.wall_s or 0) - (stage.wait_s or 0) - (stage.open_s or 0) for stage in stages}
    wall_s = report.run.wall_s or 0.0
    return max(busy.values()) / wall_s, busy, wall_s


def runs_text(runs: list[tuple[float, dict[str, float], float]]) -> str:
    """All efficiencies, sorted."""
    return ", ".join(f"{run[0]:.3f}" for run in sorted(runs, key=lambda run: run[0]))
