"""`wf run` against a hand-written shell script.

The script starts the same three processes with the same settings, at once, and waits for them; no deadlines, no
counting, no report. The runs alternate, so that a drift of the machine's speed hits both.
"""

from __future__ import annotations

import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.streams import repetitions

PIPELINE = """
wf: 1
name: overhead
oversubscribe: true
stages:
  sim: {{component: synthetic, with: {{grid_points: 10000, particles: 0, steps: {steps}, compute_time: {compute} s}}}}
  ana: {{component: histogram, with: {{variable: grid}}}}
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  data: {{from: sim, to: ana}}
  pdf: {{from: ana, to: keep}}
"""


def measure() -> list[dict[str, Any]]:
    """A pipeline of almost nothing, and one of 20 s."""
    nothing, script = pairs(steps=2, compute=0.0, repeat=repetitions(7))
    extra = statistics.median(a.wall_s - b.wall_s for a, b in zip(nothing, script, strict=True))
    extra_cpu = statistics.median(a.cpu_s - b.cpu_s for a, b in zip(nothing, script, strict=True))
    long, long_script = pairs(steps=100, compute=0.19, repeat=repetitions(5))
    share = 100 * (statistics.median(a.wall_s / b.wall_s for a, b in zip(long, long_script, strict=True)) - 1)
    return [
        {"name": "more than the script, in all", "value": extra, "unit": "s", "target": 0.25,
         "detail": f"2 steps: wf {median_s(nothing):.2f} s, script {median_s(script):.2f} s"},
        {"name": "CPU time more than the script", "value": extra_cpu, "unit": "s", "target": 0.3,
         "detail": "user and system time of all processes"},
        {"name": "more than the script, 20 s pipeline", "value": share, "unit": "%", "target": 2.0,
         "detail": f"100 steps: wf {median_s(long):.2f} s, script {median_s(long_script):.2f} s"},
    ]  # fmt: skip


class Cost(NamedTuple):
    """What a command took, with all processes that it waited for."""

    wall_s: float
    cpu_s: float


def median_s(costs: Sequence[Cost]) -> float:
    """The median of the wall times."""
    return statistics.median(cost.wall_s for cost in costs)


def pairs(steps: int, compute: float, repeat: int) -> tuple[list[Cost], list[Cost]]:
    """The costs of `wf run` and of the script, alternating; the first pair warms the caches and is dropped."""
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pipeline.yaml").write_text(PIPELINE.format(steps=steps, compute=compute))
        for index in range(repeat + 1):
            seconds = timed(
                [sys.executable, "-m", "workflow.cli", "run", "pipeline.yaml", "--run-dir", f"run{index}"], folder
            )
            script = write_script(folder / f"run{index}", folder / f"by-hand{index}")
            by_hand = timed(["sh", str(script)], folder)
            if index:
                ours.append(seconds)
                theirs.append(by_hand)
    return ours, theirs


def write_script(run_dir: Path, copy: Path) -> Path:
    """What somebody would write by hand: the same programs, settings and environment as the run just made."""
    shutil.copytree(run_dir, copy)
    for stream in (copy / "streams").iterdir():
        shutil.rmtree(stream) if stream.is_dir() else stream.unlink()
    shutil.rmtree(copy / "kept.bp")
    plan = json.loads((run_dir / "plan.json").read_text())
    lines = []
    for stage in plan["stages"]:
        folder = copy / "stages" / stage["name"]
        settings = folder / "stage.json"
        settings.write_text(settings.read_text().replace(str(run_dir), str(copy)))
        env = " ".join(f"{key}='{value}'" for key, value in stage["env"].items())
        env = env.replace("${{ run.dir }}", str(copy))
        assert stage["ranks"] == 1, "started without a launcher"
        command = " ".join(stage["program"]).replace("${{ run.dir }}", str(copy))
        lines.append(f"(cd {folder}/work; exec env {env} {command} >../stdout.log 2>../stderr.log) &")
    script = copy / "run.sh"
    script.write_text("\n".join([*lines, "wait", ""]))
    return script


def timed(argv: list[str], cwd: Path) -> Cost:
    """What a command that must succeed takes."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(argv, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    wall_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
