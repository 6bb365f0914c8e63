"""A chain of three trivial stages, each after the other.

Each stage is the same small shell script that notes when it begins and when it ends; the gap is the time from the end
of one to the beginning of the next, which includes the start of a shell. The same chain as a shell script, and with
Snakemake and Parsl where they are installed. Medians over all gaps.
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.chains import make_plan, make_stage, write_run  # noqa: E402
from workflow.run.records.events_file import read_events  # noqa: E402
from workflow.run.state.events import StageExited, StageStarted  # noqa: E402
from workflow.run.supervisor import supervise  # noqa: E402

NAMES = ("a", "b", "c")
# Peers live in an environment of their own: their dependencies are not ours (`make bench` makes it).
PEERS = os.environ.get("WF_PEERS_PYTHON", sys.executable)
REPETITIONS = 10
SLOW_REPETITIONS = 3  # of the peers that take seconds
# Notes its beginning and its end, in nanoseconds.
SCRIPT = """#!/bin/sh
begin=$(date +%s%N)
printf '%s %s\\n' "$begin" "$(date +%s%N)" > "$1"
"""
SNAKEFILE = """
rule all:
    input: "c"
rule a:
    output: "a"
    shell: "{script} a"
rule b:
    input: "a"
    output: "b"
    shell: "{script} b"
rule c:
    input: "b"
    output: "c"
    shell: "{script} c"
"""
PARSL = """
import parsl
from parsl.config import Config
from parsl.executors.threads import ThreadPoolExecutor
from parsl import bash_app
@bash_app
def stage(script, name, inputs=()):
    return f"{script} {name}"
with parsl.load(Config(executors=[ThreadPoolExecutor(max_threads=2)])):
    last = None
    for name in "abc":
        last = stage(SCRIPT, name, inputs=[last] if last else [])
    last.result()
"""
Gaps = list[float]


def measure() -> list[dict[str, Any]]:
    """Gaps, and the whole time of the chain."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        script = Path(name) / "stage.sh"
        script.write_text(SCRIPT)
        script.chmod(0o755)
        seen, ours, wall = by_wf(script, Path(name))
        rows.append(
            {"name": "wf: end of a stage seen → next one started", "value": median_ms(seen), "unit": "ms", "target": 20,
             "better": "lower", "detail": f"from events.jsonl; longest of {len(seen)}: {1000 * max(seen):.1f} ms"}
        )  # fmt: skip
        rows.append(row("wf: end of a stage → beginning of the next", ours, wall, 20))
        rows[-1]["detail"] += " (without the start of wf itself)"
        rows.append(row("shell script: the same", *by_shell(script, Path(name))))
        peers: dict[str, Callable[[Path, Path], tuple[Gaps, float]]] = {"snakemake": by_snakemake, "parsl": by_parsl}
        for peer, run in peers.items():
            if subprocess.run([PEERS, "-c", f"import {peer}"], stderr=subprocess.DEVNULL).returncode == 0:
                rows.append(row(f"{peer.capitalize()}: the same", *run(script, Path(name))))
    return rows


def row(name: str, gaps: Gaps, wall_s: float, target: float | None = None) -> dict[str, Any]:
    """A line of the table."""
    return {"name": name, "value": median_ms(gaps), "unit": "ms", "target": target, "better": "lower",
            "detail": f"longest of {len(gaps)}: {1000 * max(gaps):.1f} ms; the whole chain {wall_s:.2f} s"}  # fmt: skip


def median_ms(seconds: Gaps) -> float:
    """Milliseconds."""
    return 1000 * statistics.median(seconds)


def by_wf(script: Path, folder: Path) -> tuple[Gaps, Gaps, float]:
    """(gaps from the events, gaps that the stages noted, median wall time of a run)."""
    seen, gaps, walls = [], [], []
    for index in range(REPETITIONS):
        work = folder / f"wf{index}"
        work.mkdir()
        stages = [
            make_stage(name, [str(script), str(work / name)], starts_after=list(NAMES[max(0, place - 1) : place]))
            for place, name in enumerate(NAMES)
        ]
        run_dir = write_run(make_plan(stages), work)
        begin = time.perf_counter()
        *_, last = supervise(run_dir)
        walls.append(time.perf_counter() - begin)
        if last.finished is None or last.finished.state != "succeeded":
            raise RuntimeError(f"the chain failed: {last.finished}")
        events = list(read_events(run_dir))
        started = {event.stage: event.t for event in events if isinstance(event, StageStarted)}
        ended = {event.stage: event.t for event in events if isinstance(event, StageExited)}
        seen += [started[after] - ended[before] for before, after in itertools.pairwise(NAMES)]
        gaps += noted(work)
    return seen, gaps, statistics.median(walls)


def by_shell(script: Path, folder: Path) -> tuple[Gaps, float]:
    """Three lines, one after the other."""
    chain = folder / "chain.sh"
    chain.write_text("".join(f"{script} {name} || exit 1\n" for name in NAMES))
    return repeat(["sh", str(chain)], folder, "sh", REPETITIONS)


def by_snakemake(script: Path, folder: Path) -> tuple[Gaps, float]:
    """Three rules."""
    file = folder / "Snakefile"
    file.write_text(SNAKEFILE.format(script=script))
    argv = [PEERS, "-m", "snakemake", "-c", "2", "-q", "all", "-s", str(file)]
    return repeat(argv, folder, "snakemake", SLOW_REPETITIONS)


def by_parsl(script: Path, folder: Path) -> tuple[Gaps, float]:
    """Three apps on a thread executor, its fastest."""
    file = folder / "chain.py"
    file.write_text(PARSL.replace("SCRIPT", repr(str(script))))
    return repeat([PEERS, str(file)], folder, "parsl", SLOW_REPETITIONS)


def repeat(argv: list[str], folder: Path, name: str, repetitions: int) -> tuple[Gaps, float]:
    """Run a chain in fresh directories."""
    gaps, walls = [], []
    for index in range(repetitions):
        work = folder / f"{name}{index}"
        work.mkdir()
        begin = time.perf_counter()
        subprocess.run(argv, cwd=work, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        walls.append(time.perf_counter() - begin)
        gaps += noted(work)
    return gaps, statistics.median(walls)


def noted(work: Path) -> Gaps:
    """The gaps that the stages themselves noted."""
    times = [[int(word) / 1e9 for word in (work / name).read_text().split()] for name in NAMES]
    return [after[0] - before[1] for before, after in itertools.pairwise(times)]


if __name__ == "__main__":
    print(*measure(), sep="\n")
