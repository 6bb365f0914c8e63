"""The command line's own cost.

CPU seconds (user + system) of whole processes, median of repetitions. The machine has no calibration: no forecast.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.streams import repetitions

EXAMPLE = Path(__file__).parents[2] / "examples/01-shock-diffraction/pipeline.yaml"
REPETITIONS = repetitions(7)


def measure() -> list[dict[str, Any]]:
    """`wf --help` and `wf plan` of example 01."""
    return [
        row("`wf --help`", 0.15, ["--help"]),
        row("`wf plan` of example 01", 0.4, ["plan", str(EXAMPLE)]),
        row("`wf plan --json` of example 01", 0.4, ["plan", str(EXAMPLE), "--json"]),
        row("`wf check` of example 01", None, ["check", str(EXAMPLE)]),
        ratio_to_numpy(),
    ]


def ratio_to_numpy() -> dict[str, Any]:
    """`wf plan` against the import that every analysis pays for, in pairs."""
    plan = [sys.executable, "-m", "workflow.cli", "plan", str(EXAMPLE)]
    pairs = [(cpu_seconds(plan), cpu_seconds([sys.executable, "-c", "import numpy"])) for _ in range(REPETITIONS)]
    numpy = statistics.median(numpy for _, numpy in pairs)
    return {
        "name": "`wf plan` of example 01 ÷ `python -c 'import numpy'`",
        "value": statistics.median(plan / numpy for plan, numpy in pairs), "unit": "×", "target": 1.5,
        "detail": f"CPU time; numpy {numpy:.3f} s",
    }  # fmt: skip


def row(name: str, target: float | None, argv: list[str]) -> dict[str, Any]:
    """One row of the table."""
    seconds = [cpu_seconds([sys.executable, "-m", "workflow.cli", *argv]) for _ in range(REPETITIONS)]
    spread = f"{min(seconds):.3f} to {max(seconds):.3f}"
    return {"name": name, "value": statistics.median(seconds), "unit": "s CPU", "target": target, "detail": spread}


def cpu_seconds(argv: list[str]) -> float:
    """User and system time of one finished child."""
    with tempfile.TemporaryDirectory() as configs:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(argv, stdout=subprocess.DEVNULL, check=True, env={**os.environ, "WF_CONFIGS": configs})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
