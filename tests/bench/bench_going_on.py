"""What it costs to go on: after the death of an analysis, after the end of a run, and in a replay.

The gap is from the death of the analysis of example 02 until it has finished its next step, less what the start of
such a program takes alone. A resumed run is planned, not started: what `wf resume --dry-run` does is done before the
first stage starts. A replay gives the analyses of example 02 its recorded steps as fast as they take them.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.bench import streams

EXAMPLE = streams.ROOT / "examples/02-gray-scott/pipeline.yaml"
RECORDED = ["--set", "streams.field.keep=true", "--set", "streams.histogram.via=bp5"]
LONGEST_S = 900.0
STEPS = 2_000 if streams.QUICK else 100_000
LONG = """
wf: 1
name: long
oversubscribe: true
stages:
  sim: {{component: synthetic, with: {{bytes: 20, steps: {steps}}}}}
  keep: {{component: archive, with: {{path: kept.bp}}}}
streams:
  data: {{from: sim, to: keep, via: bp5, coupling: live}}
"""
START = "import workflow.stage, numpy, adios2"


def measure() -> list[streams.Row]:
    """The four figures."""
    with streams.folder() as folder:
        return [gap(Path(folder)), *resumed(Path(folder)), replayed(Path(folder))]


def gap(folder: Path) -> streams.Row:
    """From the death of an analysis until its next step is done, less the start of a program like it."""
    gaps, starts = [], []
    for number in range(streams.repetitions(5)):
        run_dir = folder / f"gap{number}"
        more = ["--set", "stages.statistics.on_failure=restart", "--set", "stages.simulation.with.steps=6000"]
        process = wf("run", str(EXAMPLE), *RECORDED, *more, "--run-dir", str(run_dir), "-q")
        os.kill(await_event(run_dir, process, "stage_started", "statistics", 0)["pid"], 0)
        await_event(run_dir, process, "stream_progress", "statistics", 15)
        os.kill(await_event(run_dir, process, "stage_started", "statistics", 0)["pid"], signal.SIGKILL)
        if process.wait(streams.TIMEOUT_S):
            raise RuntimeError("the run has failed")
        (restart,) = json.loads((run_dir / "report.json").read_text())["restarts"]
        gaps.append(restart["gap_s"])
        begin = time.monotonic()
        subprocess.run([streams.PYTHON, "-c", START], check=True, env=environment())
        starts.append(time.monotonic() - begin)
    lost, start = statistics.median(gaps), statistics.median(starts)
    return {
        "name": "an analysis' death to its next finished step, less the start of its program, example 02",
        "value": lost - start, "unit": "s", "better": "lower", "target": 1.0,
        "detail": f"{len(gaps)} deaths: {lost:.2f} s, of which {start:.2f} s are the start of Python and its imports",
    }  # fmt: skip


def resumed(folder: Path) -> list[streams.Row]:
    """Planning the next part of a run of many steps."""
    file, run_dir = folder / "long.yaml", folder / "long"
    file.write_text(LONG.format(steps=10 * STEPS))
    process = wf("run", str(file), "--run-dir", str(run_dir), "-q")
    await_event(run_dir, process, "stream_progress", "keep", STEPS)
    process.send_signal(signal.SIGINT)
    process.wait(streams.TIMEOUT_S)
    seconds, cpu = [], []
    for _ in range(streams.repetitions(5)):
        begin, before = time.monotonic(), os.times()
        done = wf("resume", str(run_dir), "--dry-run")
        if done.wait(streams.TIMEOUT_S):
            raise RuntimeError("the run cannot go on")
        seconds.append(time.monotonic() - begin)
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        cpu.append(used)
    detail = f"median of {len(seconds)}; {statistics.median(cpu):.2f} s of CPU time"
    name = f"`wf resume --dry-run` of a run of {STEPS:,} steps"
    return [
        {"name": name, "value": statistics.median(seconds), "unit": "s", "better": "lower", "target": 1.0,
         "detail": detail}
    ]  # fmt: skip


def replayed(folder: Path) -> streams.Row:
    """The time of a replay as fast as possible ÷ that of the run."""
    ratios, both = [], []
    for number in range(streams.repetitions(3)):
        run_dir, again = folder / f"run{number}", folder / f"again{number}"
        begin = time.monotonic()
        finish(wf("run", str(EXAMPLE), *RECORDED, "--run-dir", str(run_dir), "-q"))
        middle = time.monotonic()
        finish(wf("replay", str(run_dir), "--run-dir", str(again), "-q"))
        both.append((middle - begin, time.monotonic() - middle))
        ratios.append(both[-1][1] / both[-1][0])
    run_s, replay_s = (statistics.median(each) for each in zip(*both, strict=True))
    return {
        "name": "`wf replay --pace max` ÷ `wf run`, example 02", "value": statistics.median(ratios), "unit": "×",
        "better": "lower", "target": 1.0, "detail": f"the run {run_s:.1f} s, its replay {replay_s:.1f} s",
    }  # fmt: skip


def environment() -> dict[str, str]:
    """Ours, with this checkout."""
    return {**os.environ, "PYTHONPATH": str(streams.ROOT)}


def wf(*argv: str) -> subprocess.Popen[bytes]:
    """Start a verb."""
    line = [streams.PYTHON, "-m", "workflow.cli", *argv]
    return subprocess.Popen(line, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def finish(process: subprocess.Popen[bytes]) -> None:
    """Wait until it has succeeded."""
    if process.wait(streams.TIMEOUT_S):
        raise RuntimeError(f"{process.args!r} has failed")


def await_event(run_dir: Path, process: subprocess.Popen[bytes], kind: str, stage: str, steps: int) -> dict[str, Any]:
    """The first event of this kind of a stage, with so many steps, once it is there."""
    path, deadline = run_dir / "events.jsonl", time.monotonic() + LONGEST_S
    while time.monotonic() < deadline and process.poll() is None:
        lines = path.read_bytes().splitlines() if path.exists() else []
        for line in lines:
            event: dict[str, Any] = json.loads(line) if line.endswith(b"}") else {}
            if event.get("event") == kind and event.get("stage") == stage and event.get("steps", 0) >= steps:
                return event
        time.sleep(0.05)
    raise RuntimeError(f"{stage} of {run_dir.name} has not come to {steps} steps")


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1), file=sys.stdout)
